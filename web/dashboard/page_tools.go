package dashboard

import (
	"context"

	"understudy/audit"
)

type toolList struct {
	Summary audit.Summary
}

func (t *toolList) summary() *audit.Summary { return &t.Summary }

func (s *site) toolsPage() page {
	return page{
		path: "/tools", name: "tools", title: "Tools", nav: true, filters: []string{"mode", "version", "split"},
		view: func(ctx context.Context, r *request) (any, error) {
			t := &toolList{}
			if r.Head == nil {
				return t, nil
			}
			var err error
			t.Summary, err = s.Store.Summary(ctx, r.Run, r.slice())
			return t, err
		},
	}
}
