package dashboard

import (
	"context"
	"encoding/hex"

	"understudy/audit"
)

// episodeView is one rollout: its calls in order, where its worlds forked, and
// the other rollouts of its prompt.
type episodeView struct {
	Summary  audit.Summary
	Episode  audit.EpisodeRecord
	Lines    []audit.CallLine
	First    string
	Next     string
	Fork     *audit.CallLine // the call at which the two worlds part; nil = not on this page
	Cascade  int             // calls after it, on this page
	Branches []branch
	Several  bool // rollouts of the prompt
}

func (v *episodeView) summary() *audit.Summary { return &v.Summary }

// branch is one rollout of the prompt.
type branch struct {
	audit.EpisodeRecord
	Here   bool
	ForkAt int // step; -1 = its worlds did not fork
	Shared int // first calls that are those of the episode that is looked at
}

func (s *site) episodePage() page {
	return page{
		path: "/episode", name: "episode", title: "Episode", under: "/calls",
		view: func(ctx context.Context, r *request) (any, error) { return s.episode(ctx, r) },
	}
}

// episodeStepsPerPage bounds a page: no episode is loaded whole.
const episodeStepsPerPage = 100

func (s *site) episode(ctx context.Context, r *request) (*episodeView, error) {
	digest, err := hex.DecodeString(r.Query("episode"))
	if err != nil || len(digest) != len(audit.Digest{}) {
		return nil, &audit.Error{Code: audit.CodeInvalid, Message: "the episode's id is not one of ours", Hint: "open the episode from one of its calls"}
	}
	v := &episodeView{}
	if v.Episode, err = s.Store.EpisodeRecord(ctx, r.Run, audit.Digest(digest)); err != nil {
		return nil, err
	}
	after := r.Query("after")
	var next string
	if v.Lines, next, err = s.Store.EpisodeCalls(ctx, r.Run, v.Episode.ID, audit.Page{After: after, Limit: episodeStepsPerPage}); err != nil {
		return nil, err
	}
	if after != "" {
		v.First = r.URL("/episode", "episode", v.Episode.ID.String())
	}
	if next != "" {
		v.Next = r.URL("/episode", "episode", v.Episode.ID.String(), "after", next)
	}
	for i := range v.Lines {
		if v.Lines[i].Fork && v.Fork == nil {
			v.Fork = &v.Lines[i]
		}
		if v.Lines[i].Cascaded {
			v.Cascade++
		}
	}
	return v, s.branches(ctx, r, v)
}

func (s *site) branches(ctx context.Context, r *request, v *episodeView) error {
	all, err := s.Store.Branches(ctx, r.Run, v.Episode.PromptGroup)
	if err != nil {
		return err
	}
	var own []audit.CallLine
	for i := range all {
		if all[i].ID == v.Episode.ID {
			own = all[i].Lines
		}
	}
	for _, e := range all {
		b := branch{EpisodeRecord: e, Here: e.ID == v.Episode.ID, ForkAt: -1}
		for i := range e.Lines {
			if e.Lines[i].Fork && b.ForkAt < 0 {
				b.ForkAt = e.Lines[i].Step
			}
		}
		for b.Shared < min(len(own), len(e.Lines)) && sameCall(&own[b.Shared], &e.Lines[b.Shared]) {
			b.Shared++
		}
		v.Branches = append(v.Branches, b)
	}
	v.Several = len(v.Branches) > 1
	return nil
}

// sameCall reports whether two lines begin the same way.
func sameCall(a, b *audit.CallLine) bool {
	return a.Tool == b.Tool && string(a.Arguments) == string(b.Arguments)
}
