package dashboard

import (
	"context"

	"understudy/audit"
	"understudy/audit/stat"
	"understudy/web/chart"
)

// maxListed bounds the lists of pages that have no pages of their own.
const maxListed = 200

// environmentList is every environment version that is known of, how policies
// fared across versions, and what model servers can do.
type environmentList struct {
	Contracts []contractLine
	Worlds    []worldLine
	Versions  []versionLine
	Endpoints []audit.Endpoint
}

type worldLine struct {
	audit.World
	Href string
}

type versionLine struct {
	audit.VersionAudit
	Href string // of the run that holds the pairs
}

func (s *site) environmentsPage() page {
	return page{
		path: "/environments", name: "environments", title: "Environments", nav: true, global: true,
		view: func(ctx context.Context, _ *request) (any, error) {
			v := &environmentList{}
			worlds, err := s.Store.Worlds(ctx)
			if err != nil {
				return nil, err
			}
			for _, w := range worlds {
				v.Worlds = append(v.Worlds, worldLine{w, filter{Environment: w.Name, Version: w.Version}.URL("/environment")})
			}
			contracts, err := s.Store.Contracts(ctx)
			if err != nil {
				return nil, err
			}
			for i := range contracts {
				c := &contracts[i]
				v.Contracts = append(v.Contracts, contractLine{*c, filter{}.URL("/contract", "ref", c.Ref)})
			}
			audits, err := s.Store.VersionAudits(ctx, maxListed)
			if err != nil {
				return nil, err
			}
			for _, a := range audits {
				v.Versions = append(v.Versions, versionLine{a, filter{Run: a.Run}.URL("/")})
			}
			v.Endpoints, err = s.Store.Endpoints(ctx, maxListed)
			return v, err
		},
	}
}

type contractLine struct {
	audit.Contract
	Href string
}

// RunURL is the overview of one of the runs.
func (v *environmentList) RunURL(run string) string { return filter{Run: run}.URL("/") }

// Noticed draws for how many changed calls of a rollout staleness lasts; nil
// without any.
func (l versionLine) Noticed() *chart.Line {
	if len(l.Detection) == 0 {
		return nil
	}
	series := chart.Series{Name: "still stale", Class: "c2", Points: []chart.Point{{X: 0, Y: 1, Lo: 1, Hi: 1, N: l.Detection[0].AtRisk}}}
	for _, p := range l.Detection {
		series.Points = append(series.Points, chart.Point{X: p.Time, Y: p.Survival.Value, Lo: p.Survival.Lo, Hi: p.Survival.Hi, N: p.AtRisk})
	}
	return &chart.Line{
		Title: "Rollouts that have not noticed that the world changed", XName: "changed calls of a rollout", Percent: true, Stairs: true,
		Desc: "Kaplan–Meier estimate with 95 % bands, by prompt group, of the share of rollouts that did not yet follow the new version.", Series: []chart.Series{series},
	}
}

// environmentView is what is known about one environment version.
type environmentView struct {
	audit.WorldDetail
	Name, Version string
}

func (s *site) environmentPage() page {
	return page{
		path: "/environment", name: "environment", title: "Environment", under: "/environments", global: true,
		view: func(ctx context.Context, r *request) (any, error) {
			v := &environmentView{Name: r.Environment, Version: r.Version}
			if v.Name == "" {
				return nil, &audit.Error{Code: audit.CodeInvalid, Message: "no environment is named", Hint: "follow a row of the list of environments"}
			}
			var err error
			v.WorldDetail, err = s.Store.World(ctx, v.Name, v.Version)
			return v, err
		},
	}
}

// Rate is how often the twins disagreed at a path.
func (v *environmentView) Rate(n audit.NoisyPath) stat.Estimate {
	return stat.Jeffreys(float64(n.Disagreed), float64(n.Twins), .95)
}

// CallURL is the call that a mark was made on.
func (v *environmentView) CallURL(m audit.Mark) string {
	return filter{Run: m.Run}.URL("/call", "key", m.Key.String()) + "#marks"
}

// contractPage shows what an auditor relies on, tried on one environment.
func (s *site) contractPage() page {
	return page{
		path: "/contract", name: "contract", title: "Contract", under: "/environments", global: true,
		view: func(ctx context.Context, r *request) (any, error) { return s.Store.Contract(ctx, r.Query("ref")) },
	}
}
