package main

import (
	"crypto/sha256"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"time"

	"understudy/audit"
)

const envPrefix = "UNDERSTUDY_"

// setting is one field of Config with its names.
type setting struct {
	flag    string // data-dir
	env     string // UNDERSTUDY_DATA_DIR
	key     string // data_dir
	initial string
	help    string
	value   reflect.Value
}

// settings are the fields of c, addressable.
func settings(c *Config) []setting {
	v := reflect.ValueOf(c).Elem()
	var all []setting
	for i := range v.NumField() {
		tag := v.Type().Field(i).Tag
		name := tag.Get("setting")
		key := strings.ReplaceAll(name, "-", "_")
		all = append(all, setting{
			flag: name, env: envPrefix + strings.ToUpper(key), key: key,
			initial: tag.Get("default"), help: tag.Get("help"), value: v.Field(i),
		})
	}
	return all
}

// set reads text into the field.
func (s setting) set(text string) error {
	switch target := s.value.Addr().Interface().(type) {
	case *string:
		*target = text
	case *secret:
		*target = secret(text)
	case *opaque:
		*target = opaque(text)
	case *bool:
		on, err := strconv.ParseBool(text)
		if err != nil {
			return fmt.Errorf("%q is neither true nor false", text)
		}
		*target = on
	case *int:
		n, err := strconv.Atoi(text)
		if err != nil {
			return fmt.Errorf("%q is no whole number", text)
		}
		*target = n
	case *float64:
		x, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return fmt.Errorf("%q is no number", text)
		}
		*target = x
	case *time.Duration:
		d, err := time.ParseDuration(text)
		if err != nil {
			return fmt.Errorf("%q is no duration, such as 20s", text)
		}
		*target = d
	default:
		panic(fmt.Sprintf("setting %s has the type %s", s.flag, s.value.Type()))
	}
	return nil
}

// text is the field as people may see it.
func (s setting) text() string { return fmt.Sprint(s.value.Interface()) }

// registerSettings makes every setting, and --config, a flag of fs. What the
// command line gives is in the map after fs.Parse, by flag name.
func registerSettings(fs *flag.FlagSet) map[string]string {
	given := map[string]string{}
	keep := func(name string) func(string) error {
		return func(text string) error {
			given[name] = text
			return nil
		}
	}
	fs.Func("config", "YAML file of settings; by default understudy.yaml, where there is one", keep("config"))
	c := Config{}
	for _, s := range settings(&c) {
		if s.value.Kind() == reflect.Bool { // --name alone is true
			fs.BoolFunc(s.flag, s.help, keep(s.flag))
			continue
		}
		fs.Func(s.flag, s.help, keep(s.flag))
	}
	return given
}

// LogValue lists the settings that are not as they come, secrets redacted: a
// start's first line can be read.
func (c Config) LogValue() slog.Value {
	var attrs []slog.Attr
	for _, s := range settings(&c) {
		if s.text() != s.initial {
			attrs = append(attrs, slog.String(s.key, s.text()))
		}
	}
	return slog.GroupValue(attrs...)
}

// Effective is the configuration as canonical JSON, secrets redacted: what is
// stored, and what Digest is the digest of.
func (c Config) Effective() []byte {
	values := map[string]string{}
	for _, s := range settings(&c) {
		values[s.key] = s.text()
	}
	text, err := json.Marshal(values) // sorts the keys
	if err != nil {
		panic(err) // strings always marshal
	}
	return text
}

// Digest names the effective configuration in results.
func (c Config) Digest() audit.Digest { return sha256.Sum256(c.Effective()) }

// secret is a setting that may hold a password. Printing it, in any way, leaves
// the password out.
type secret string

// String is the secret without what is secret about it.
func (s secret) String() string {
	var servers []string // of a list; a comma may also stand in a password
	for part := range strings.SplitSeq(string(s), ",") {
		if n := len(servers); n > 0 && !strings.Contains(part, "://") {
			servers[n-1] += "," + part
			continue
		}
		servers = append(servers, part)
	}
	for i, server := range servers {
		servers[i] = redact(server)
	}
	return strings.Join(servers, ",")
}

// LogValue keeps the password out of logs.
func (s secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalJSON keeps the password out of JSON.
func (s secret) MarshalJSON() ([]byte, error) { return json.Marshal(s.String()) }

// opaque is a setting that is a secret as a whole, whatever it looks like.
type opaque string

// String says only whether there is one.
func (o opaque) String() string {
	if o == "" {
		return ""
	}
	return "xxxxx"
}

// LogValue keeps the secret out of logs.
func (o opaque) LogValue() slog.Value { return slog.StringValue(o.String()) }

// MarshalJSON keeps the secret out of JSON.
func (o opaque) MarshalJSON() ([]byte, error) { return json.Marshal(o.String()) }

// redact shows of a URL where it leads, and of anything else nothing. The path of
// an HTTP URL is part of its secret: chat services put their tokens there.
func redact(text string) string {
	if text == "" {
		return ""
	}
	u, err := url.Parse(text)
	if err != nil || u.Opaque != "" || u.Fragment != "" || strings.ContainsAny(u.Host+u.Path, "=@") || strings.Contains(u.Path, ":") {
		return "xxxxx" // a password may stand in what is no authority: postgres:u:password@host
	}
	switch u.Scheme {
	case "http", "https":
		if u.Host == "" {
			return "xxxxx"
		}
		return u.Scheme + "://" + u.Host + "/xxxxx"
	case "postgres", "postgresql":
	case "nats", "tls", "ws", "wss":
		if _, has := u.User.Password(); u.User != nil && !has {
			u.User = url.User("xxxxx") // NATS takes a token in the user's place
		}
	default:
		return "xxxxx" // a key, or a keyword string: no telling where a password is
	}
	query := u.Query()
	for name := range query {
		if strings.ContainsAny(name, ":@=") {
			return "xxxxx"
		}
		if strings.Contains(name, "password") || strings.Contains(name, "token") {
			query.Set(name, "xxxxx")
		}
	}
	u.RawQuery = query.Encode()
	return u.Redacted()
}

// printSettingNames prints the flags of all settings, as many a line as fit.
func printSettingNames(w io.Writer) {
	c := Config{}
	line := "  --config"
	for _, s := range settings(&c) {
		if len(line)+len(" --"+s.flag) > 80 {
			fmt.Fprintln(w, line)
			line = " "
		}
		line += " --" + s.flag
	}
	fmt.Fprintln(w, line)
}

func printConfigHelp(w io.Writer) {
	fmt.Fprint(w, "Settings are read from flags, then the environment, then a YAML file, then defaults.\n\n")
	fmt.Fprintf(w, "%-24s %-34s %-22s %s\n", "flag", "environment", "YAML key", "default")
	c := Config{}
	for _, s := range settings(&c) {
		fmt.Fprintf(w, "--%-22s %-34s %-22s %s\n    %s\n", s.flag, s.env, s.key, s.initial, s.help)
	}
	fmt.Fprint(w, "\nThe file is named by --config or UNDERSTUDY_CONFIG; else ./understudy.yaml is read where there is one.\n"+
		"example:\n\n  database_url: postgres://auditor@db.example/ledger\n  listen: 0.0.0.0:8443\n  tls_cert: /etc/understudy/tls.crt\n  tls_key: /etc/understudy/tls.key\n")
}
