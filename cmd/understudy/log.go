package main

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"golang.org/x/term"

	"understudy/audit"
)

// system is the process as it really is.
func system() surroundings {
	sys := surroundings{
		env: os.LookupEnv, stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr,
		terminal: term.IsTerminal(int(os.Stderr.Fd())),
	}
	if term.IsTerminal(int(os.Stdout.Fd())) {
		sys.stdout = terminalWriter{os.Stdout}
	}
	return sys
}

// terminalWriter shows a person what a terminal would act on. Whatever a command
// prints, rehearsed text in it does not move the cursor, set the title or write the
// clipboard; our own colours pass. Files and pipes get the bytes as they are.
type terminalWriter struct{ io.Writer }

// Write implements io.Writer. What is written at once ends with a whole character.
func (w terminalWriter) Write(b []byte) (int, error) {
	var out strings.Builder
	for rest := string(b); rest != ""; {
		at := strings.IndexByte(rest, '\x1b')
		if at < 0 {
			out.WriteString(audit.Plain(rest))
			break
		}
		out.WriteString(audit.Plain(rest[:at]))
		colour := colourAt(rest[at:])
		if colour == "" {
			out.WriteString(audit.Plain(rest[at : at+1]))
			rest = rest[at+1:]
			continue
		}
		out.WriteString(colour)
		rest = rest[at+len(colour):]
	}
	_, err := io.WriteString(w.Writer, out.String())
	return len(b), err
}

// colourAt is the colour of painter that s begins with, or "".
func colourAt(s string) string {
	for _, code := range []string{"0", "2", "31", "32", "33"} {
		if colour := "\x1b[" + code + "m"; strings.HasPrefix(s, colour) {
			return colour
		}
	}
	return ""
}

// newLogger writes to stderr: text for people on a terminal, JSON for machines.
func newLogger(sys surroundings, cfg Config) (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(cfg.LogLevel)); err != nil {
		return nil, fmt.Errorf("log level: %w", err)
	}
	options := &slog.HandlerOptions{Level: level}
	if cfg.LogFormat == "text" || cfg.LogFormat == "auto" && sys.terminal {
		return slog.New(slog.NewTextHandler(sys.stderr, options)), nil
	}
	return slog.New(slog.NewJSONHandler(sys.stderr, options)), nil
}
