package dashboard

import (
	"context"
	"net/http"

	"github.com/gin-gonic/gin"

	"understudy/audit"
	"understudy/web/access"
)

// jobList is what waits, what was given up, and what was brought in.
type jobList struct {
	Runs    []audit.RunJobs
	Letters []audit.DeadLetter
	Only    string // the one run that is shown; "" = all
	All     string // the list without that
	First   string
	Next    string
	Imports []audit.RunHead
	Admin   bool
	Told    string // how many were just sent again; "" = none
}

func (s *site) jobsPage() page {
	return page{
		path: "/jobs", name: "jobs", title: "Jobs", nav: true, global: true, view: s.jobs,
		actions: map[string]gin.HandlerFunc{"/jobs/revive": adminOnly(s.fail, s.postRevive)},
	}
}

func (s *site) jobs(ctx context.Context, r *request) (any, error) {
	v := &jobList{Only: r.Query("of"), All: r.URL("/jobs"), Imports: r.Runs[:min(len(r.Runs), 20)], Admin: r.Identity.Role.May(audit.AdminRole), Told: r.Query("sent")}
	var err error
	if v.Runs, err = s.Store.RunJobs(ctx, maxListed); err != nil {
		return nil, err
	}
	after := r.Query("after")
	var next string
	if v.Letters, next, err = s.Store.DeadLetters(ctx, audit.JobFilter{Run: v.Only}, audit.Page{After: after}); err != nil {
		return nil, err
	}
	if after != "" {
		v.First = r.URL("/jobs", "of", v.Only)
	}
	if next != "" {
		v.Next = r.URL("/jobs", "of", v.Only, "after", next)
	}
	return v, nil
}

// RunURL is the overview of a run, OfURL its dead letters.
func (v *jobList) RunURL(run string) string { return filter{Run: run}.URL("/") }

// OfURL is the list of one run's dead letters.
func (v *jobList) OfURL(run string) string { return filter{}.URL("/jobs", "of", run) }

// postRevive sends one job, or all dead jobs of a run, again.
func (s *site) postRevive(c *gin.Context) {
	ctx, run := c.Request.Context(), c.PostForm("run")
	sent := 1
	var err error
	if episode := c.PostForm("episode"); episode == "" {
		sent, err = s.Store.Revive(ctx, run)
	} else {
		var id audit.Digest
		if err = id.UnmarshalText([]byte(episode)); err == nil {
			err = s.Store.ReviveJob(ctx, run, id)
		} else {
			err = &audit.Error{Code: audit.CodeInvalid, Message: brief(80, episode) + " is no job", Hint: "use the buttons of the list"}
		}
	}
	if err != nil {
		s.fail(c, err)
		return
	}
	c.Redirect(http.StatusSeeOther, filter{}.URL("/jobs", "of", c.PostForm("of"), "sent", count(sent)))
}

// adminOnly lets admins alone through.
func adminOnly(fail func(*gin.Context, error), handle gin.HandlerFunc) gin.HandlerFunc {
	require := access.Require(audit.AdminRole, fail)
	return func(c *gin.Context) {
		if require(c); !c.IsAborted() {
			handle(c)
		}
	}
}
