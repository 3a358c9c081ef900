package dashboard

import (
	"context"

	"understudy/audit"
)

// overview answers one question: may I trust this policy's imagination, and
// where not?
type overview struct {
	Summary audit.Summary
}

func (o *overview) summary() *audit.Summary { return &o.Summary }

func (s *site) overviewPage() page {
	return page{
		path: "/", name: "overview", title: "Overview", nav: true, filters: []string{"mode", "version", "split"},
		view: func(ctx context.Context, r *request) (any, error) {
			o := &overview{}
			if r.Head == nil {
				return o, nil
			}
			var err error
			o.Summary, err = s.Store.Summary(ctx, r.Run, r.slice())
			return o, err
		},
	}
}
