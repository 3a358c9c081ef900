package dashboard

import (
	"context"

	"github.com/gin-gonic/gin"

	"understudy/audit"
)

// page is one screen.
type page struct {
	path  string // of the URL
	name  string // of the template: templates/NAME.html
	title string
	nav   bool       // listed in the navigation
	under string     // path of the navigation's entry that the page belongs to; "" = its own
	role  audit.Role // who may see it; "" = reader
	// global: the page is not about one run, and its bar offers none.
	global bool
	// filters that the page understands, offered in its bar: "mode", "version", "split", "tool".
	filters []string
	// keeps are further parameters that a change of the bar must not lose.
	keeps []string
	// view reads what the page shows.
	view func(ctx context.Context, r *request) (any, error)
	// actions are forms of the page that change something, by path; auditors' alone.
	actions map[string]gin.HandlerFunc
	// parts are further answers that belong to the page: fragments, raw bodies.
	parts map[string]gin.HandlerFunc
}

// pages lists every page, in the order of the navigation.
func (s *site) pages() []page {
	return []page{
		s.overviewPage(),
		s.toolsPage(),
		s.toolPage(),
		s.callsPage(),
		s.callPage(),
		s.episodePage(),
		s.comparePage(),
		s.compareCallPage(),
		s.calibrationPage(),
		s.trainingPage(),
		s.gatesPage(),
		s.gatePage(),
		s.environmentsPage(),
		s.environmentPage(),
		s.contractPage(),
		s.alertsPage(),
		s.jobsPage(),
		s.settingsPage(),
	}
}

// section is the navigation's entry that a page belongs to.
func (p page) section() string {
	if p.under != "" {
		return p.under
	}
	return p.path
}
