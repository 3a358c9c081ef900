package main_test

import (
	"strings"
	"testing"

	main "understudy/cmd/understudy"
)

// FuzzSettingsFile: any text is read, refused as a whole, or refused line by
// line with the file's name; it never panics and never yields an unknown key.
func FuzzSettingsFile(f *testing.F) {
	for _, seed := range []string{
		"listen: 0.0.0.0:8080\n", "listen: [a]\n", "a: &x b\nlisten: *x\n", "- a\n", "listen:\n", "# only a comment\n",
		"? complex\n: key\n", "listen: a\n---\nlisten: b\n", "\"listen\": 'x'\n", "<<: {listen: x}\n", "{", "\x00", "log_level: !!str 1\n",
	} {
		f.Add([]byte(seed))
	}
	cfg := main.Default()
	known := string(cfg.Effective())
	f.Fuzz(func(t *testing.T, text []byte) {
		values, faults, err := main.ParseFile(text)
		if err != nil && strings.Contains(err.Error(), "\n") {
			t.Errorf("got %q, want one line", err)
		}
		for _, fault := range faults {
			if !strings.HasPrefix(fault.Error(), "understudy.yaml") {
				t.Errorf("got %q, want the file's name first", fault)
			}
		}
		for key := range values {
			if !strings.Contains(known, `"`+key+`":`) {
				t.Errorf("got the unknown key %q without a fault", key)
			}
		}
	})
}

// FuzzRedact: no password that a URL or a keyword string carries is printed.
func FuzzRedact(f *testing.F) {
	for _, seed := range [][2]string{
		{"postgres://u:", "@h/d"},
		{"postgres:///d?password=", "&host=/x"},
		{"host=x password=", ""},
		{"nats://", "@h:4222"},
		{"nats://a:1,nats://u:", "@b:2"},
		{"postgres://u:%zz", "@h"},
		{"postgres:", "@"},
		{"postgres:?:", "@"},
		{"postgres://h/password=", ""},
		{"nats://password=", ""},
		{"postgres:/u:", "@h"},
		{"nats://h/#u:", "@h"},
		{"://", ""},
	} {
		f.Add(seed[0], seed[1])
	}
	const password = "geheim-0123"
	f.Fuzz(func(t *testing.T, before, after string) {
		if !strings.HasSuffix(before, ":") && !strings.HasSuffix(before, "password=") || strings.ContainsAny(after, ":") {
			t.Skip("the secret must stand where a password stands")
		}
		if !strings.HasSuffix(before, "password=") && !strings.HasPrefix(after, "@") {
			t.Skip("the secret must stand where a password stands")
		}
		if got := main.Redact(before + password + after); strings.Contains(got, password) {
			t.Errorf("got %q of %q, which gives the password away", got, before+password+after)
		}
	})
}
