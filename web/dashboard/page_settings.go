package dashboard

import (
	"context"
	"net/http"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"understudy/audit"
)

// settingsView is how the service is set up. Only admins see tokens.
type settingsView struct {
	Tokens  []audit.Token
	Roles   []audit.Role
	Admin   bool
	New     string // the text of a token that was just made; shown once
	Name    string // whose it is
	Sizes   []audit.RunSize
	Config  []setting
	Used    audit.Configuration
	Go      string
	Modules []module
}

type setting struct{ Name, Value string }

type module struct{ Path, Version string }

func (s *site) settingsPage() page {
	return page{
		path: "/settings", name: "settings", title: "Settings", nav: true, global: true,
		view: func(ctx context.Context, r *request) (any, error) { return s.settings(ctx, r.Identity.Role) },
		actions: map[string]gin.HandlerFunc{
			"/settings/tokens":        adminOnly(s.fail, s.postToken),
			"/settings/tokens/revoke": adminOnly(s.fail, s.postRevoke),
		},
	}
}

func (s *site) settings(ctx context.Context, role audit.Role) (*settingsView, error) {
	v := &settingsView{Admin: role.May(audit.AdminRole), Roles: audit.Roles(), Go: runtime.Version()}
	var err error
	if v.Admin {
		if v.Tokens, err = s.Store.Tokens(ctx); err != nil {
			return nil, err
		}
	}
	if v.Sizes, err = s.Store.RunSizes(ctx, 20); err != nil {
		return nil, err
	}
	configurations, err := s.Store.Configurations(ctx, 1)
	if err != nil {
		return nil, err
	}
	if len(configurations) > 0 {
		v.Used = configurations[0]
		for name, value := range v.Used.Effective {
			v.Config = append(v.Config, setting{name, value})
		}
		slices.SortFunc(v.Config, func(a, b setting) int { return strings.Compare(a.Name, b.Name) })
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			v.Modules = append(v.Modules, module{m.Path, m.Version})
		}
	}
	return v, nil
}

// Now is the time that expiries are compared with.
func (v *settingsView) Now() time.Time { return time.Now() }

// Live reports whether a token still opens anything.
func (v *settingsView) Live(t audit.Token) bool {
	return t.Revoked.IsZero() && (t.Expires.IsZero() || t.Expires.After(v.Now()))
}

// Size writes a number of bytes.
func (v *settingsView) Size(bytes int64) string {
	const step = 1024
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	x, unit := float64(bytes), 0
	for x >= step && unit < len(units)-1 {
		x, unit = x/step, unit+1
	}
	return strconv.FormatFloat(x, 'f', min(unit, 1), 64) + " " + units[unit]
}

// postToken makes a token and shows its text, once.
func (s *site) postToken(c *gin.Context) {
	ctx := c.Request.Context()
	t := audit.Token{Name: c.PostForm("name"), Role: audit.Role(c.PostForm("role"))}
	days, err := strconv.Atoi(c.DefaultPostForm("days", "0"))
	if !slices.Contains(audit.Roles(), t.Role) || err != nil || days < 0 || days > 36_500 {
		s.fail(c, &audit.Error{Code: audit.CodeInvalid, Message: "the token's role or its days", Hint: "choose reader, auditor or admin, and a number of days; 0 = it never expires"})
		return
	}
	if days > 0 {
		t.Expires = time.Now().AddDate(0, 0, days)
	}
	secret := audit.NewSecret()
	if err := s.Store.AddToken(ctx, t, audit.SecretHash(secret)); err != nil {
		s.fail(c, err)
		return
	}
	p := s.settingsPage()
	r, err := s.newRequest(c, p)
	if err != nil {
		s.fail(c, err)
		return
	}
	v, err := s.settings(ctx, r.Identity.Role)
	if err != nil {
		s.fail(c, err)
		return
	}
	v.New, v.Name = secret, t.Name
	s.render(c, http.StatusOK, p, r, v)
}

func (s *site) postRevoke(c *gin.Context) {
	if err := s.Store.RevokeToken(c.Request.Context(), c.PostForm("name")); err != nil {
		s.fail(c, err)
		return
	}
	c.Redirect(http.StatusSeeOther, "/settings")
}
