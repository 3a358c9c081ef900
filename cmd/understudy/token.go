package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"slices"
	"time"

	"understudy/audit"
	"understudy/audit/ledger"
	"understudy/web/access"
)

func tokenCommand() command {
	return command{
		name: "token", args: "add|revoke|list [NAME]", summary: "give, revoke or list the tokens that let people and programs in",
		example: "understudy token add alice --role auditor",
		setup: func(fs *flag.FlagSet) runFunc {
			role := fs.String("role", string(audit.ReaderRole), "reader, auditor (asks for audits and gates, marks calls) or admin (gives tokens)")
			days := fs.Int("days", 0, "until it expires; 0 = never")
			return func(ctx context.Context, inv *invocation) error { return token(ctx, inv, audit.Role(*role), *days) }
		},
	}
}

func token(ctx context.Context, inv *invocation, role audit.Role, days int) error {
	usage := "understudy token add NAME --role reader, understudy token revoke NAME, or understudy token list"
	if len(inv.args) == 0 || !slices.Contains([]string{"add", "revoke", "list"}, inv.args[0]) || (inv.args[0] == "list") != (len(inv.args) == 1) || len(inv.args) > 2 {
		return usageError("token needs to know what to do", usage)
	}
	if !slices.Contains(audit.Roles(), role) {
		return usageError("--role "+string(role), "one of reader, auditor, admin")
	}
	if days < 0 {
		return usageError("--days is negative", "0 = never, else a number of days")
	}
	return withLedger(ctx, inv, func(l *ledger.Ledger) error {
		switch inv.args[0] {
		case "add":
			return addToken(ctx, inv, l, audit.Token{Name: inv.args[1], Role: role}, days)
		case "revoke":
			if err := l.RevokeToken(ctx, inv.args[1]); err != nil {
				return err
			}
			fmt.Fprintln(inv.stdout, "revoked; whoever was signed in with it is out")
			return nil
		default:
			return listTokens(ctx, inv, l)
		}
	})
}

func addToken(ctx context.Context, inv *invocation, l *ledger.Ledger, t audit.Token, days int) error {
	if days > 0 {
		t.Expires = time.Now().AddDate(0, 0, days)
	}
	secret := audit.NewSecret()
	if err := l.AddToken(ctx, t, audit.SecretHash(secret)); err != nil {
		return err
	}
	fmt.Fprintf(inv.stdout, "%s\n%s may do what a%s %s may; the token is shown this once\n", secret, t.Name, map[bool]string{true: "n"}[t.Role != audit.ReaderRole], t.Role)
	return nil
}

func listTokens(ctx context.Context, inv *invocation, l *ledger.Ledger) error {
	tokens, err := l.Tokens(ctx)
	if err != nil {
		return err
	}
	if len(tokens) == 0 {
		fmt.Fprintln(inv.stdout, "no token: the service is open to this machine, and to nobody else")
		return nil
	}
	table := columns{left: 5}
	table.add("name", "role", "made", "expires", "revoked")
	day := func(at time.Time) string {
		if at.IsZero() {
			return "-"
		}
		return at.Format(time.DateOnly)
	}
	for _, t := range tokens {
		table.add(t.Name, string(t.Role), day(t.Created), day(t.Expires), day(t.Revoked))
	}
	return table.print(inv.stdout)
}

// firstToken makes and prints, if out is not nil, an admin's token when an address can be reached
// from other machines and nobody has one yet. On a loopback address none is
// needed: until the first token is made, this machine is let in.
func firstToken(ctx context.Context, l *ledger.Ledger, listen string, out io.Writer) error {
	host, _, err := net.SplitHostPort(listen)
	if err != nil || access.IsLoopback(host) {
		return err
	}
	has, err := l.HasToken(ctx)
	if err != nil || has {
		return err
	}
	secret := audit.NewSecret()
	err = l.AddToken(ctx, audit.Token{Name: "first admin", Role: audit.AdminRole}, audit.SecretHash(secret))
	if err != nil || out == nil {
		return err
	}
	_, err = fmt.Fprintf(out, "the first token, an admin's, shown this once: %s\n", secret)
	return err
}
