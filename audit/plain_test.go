package audit_test

import (
	"testing"

	"understudy/audit"
)

func TestPlain(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ text, want, reason string }{
		{"cancel_order é 注\n\t", "cancel_order é 注\n\t", "ordinary text stays"},
		{"\x1b[2J\x1b[31mPASS", "␛[2J␛[31mPASS", "a terminal is not cleared or coloured"},
		{"\x1b]8;;http://evil\x1b\\click", "␛]8;;http://evil␛\\click", "a link of a terminal (OSC 8)"},
		{"\x1b]52;c;cm0gLXJm\a", "␛]52;c;cm0gLXJm␇", "the clipboard is not written (OSC 52)"},
		{"a\u009b31mb", "a⟨U+009B⟩31mb", "an escape of one byte (C1)"},
		{"ok\r$ rm", "ok␍$ rm", "a line is not written over"},
		{"x\b\bFAIL", "x␈␈FAIL", "a character is not written over"},
		{"\u202e321", "⟨U+202E⟩321", "the direction of writing is not turned"},
		{"a\u200bb\ufeff", "a⟨U+200B⟩b⟨U+FEFF⟩", "what has no width is seen"},
		{"a\xffb", "a\uFFFDb", "bytes that are no text"},
		{"\x00", "␀", "NUL"},
	} {
		if got := audit.Plain(row.text); got != row.want {
			t.Errorf("%s: got %q, want %q", row.reason, got, row.want)
		}
	}
}

// A shell reads the word as one argument, whatever the name holds.
func TestShellWord(t *testing.T) {
	for name, want := range map[string]string{
		"step-200":           "step-200",
		"retail@1":           "retail@1",
		"":                   "''",
		"two words":          "'two words'",
		"x; rm -rf ~":        "'x; rm -rf ~'",
		"it's $(id) `id`":    `'it'\''s $(id) ` + "`id`'",
		"<b>\x1b[31mred</b>": "'<b>␛[31mred</b>'",
	} {
		if got := audit.ShellWord(name); got != want {
			t.Errorf("%q: got %s, want %s", name, got, want)
		}
	}
}
