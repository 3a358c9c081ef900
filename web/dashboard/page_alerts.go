package dashboard

import (
	"context"
	"slices"

	"understudy/audit"
)

// alertList is what a person should look at, newest first.
type alertList struct {
	Alerts []alertLine
	Tabs   []tab
}

type alertLine struct {
	audit.Alert
	Href string
}

func (s *site) alertsPage() page {
	return page{
		path: "/alerts", name: "alerts", title: "Alerts", nav: true, global: true,
		view: func(ctx context.Context, r *request) (any, error) {
			kind := audit.AlertKind(r.Query("kind"))
			if kind != "" && !slices.Contains(audit.AlertKinds(), kind) {
				return nil, &audit.Error{Code: audit.CodeInvalid, Message: "kind " + brief(40, string(kind)) + " does not exist", Hint: "follow the links of the list"}
			}
			alerts, err := s.Store.Alerts(ctx, maxListed)
			if err != nil {
				return nil, err
			}
			v := &alertList{}
			counts := map[audit.AlertKind]int{}
			for _, a := range alerts {
				counts[a.Kind]++
				if kind == "" || a.Kind == kind {
					v.Alerts = append(v.Alerts, alertLine{a, alertURL(a)})
				}
			}
			v.Tabs = []tab{{"all", "/alerts", len(alerts), kind == ""}}
			for _, k := range audit.AlertKinds() {
				v.Tabs = append(v.Tabs, tab{alertName(k), filter{}.URL("/alerts", "kind", string(k)), counts[k], k == kind})
			}
			return v, nil
		},
	}
}

// alertURL is where one finds out more.
func alertURL(a audit.Alert) string {
	switch a.Kind {
	case audit.AlertConflict:
		return filter{}.CallURL(a.Run, a.Key)
	case audit.AlertGate:
		return gateURL("/gate", a.Run, a.Decided)
	case audit.AlertAlarm:
		return filter{Run: a.Run}.URL("/")
	case audit.AlertDead:
		return filter{}.URL("/jobs", "of", a.Run)
	case audit.AlertTraining:
		return filter{}.URL("/training", "experiment", a.Run)
	}
	return "/alerts"
}

func alertName(k audit.AlertKind) string {
	switch k {
	case audit.AlertConflict:
		return "results in conflict"
	case audit.AlertGate:
		return "gates that turned"
	case audit.AlertAlarm:
		return "alarms"
	case audit.AlertDead:
		return "jobs given up"
	case audit.AlertTraining:
		return "trainings"
	}
	return words(k)
}

// Name is the alert's kind for people.
func (a alertLine) Name() string { return alertName(a.Kind) }

// Tone is the alert's colour: what makes figures wrong is red.
func (a alertLine) Tone() string {
	if a.Kind == audit.AlertDead {
		return "fair"
	}
	return "poor"
}
