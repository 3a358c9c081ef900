package main

import (
	"fmt"
	"log/slog"
	"os"

	"golang.org/x/term"
)

// system is the process as it really is.
func system() surroundings {
	return surroundings{
		env: os.LookupEnv, stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr,
		terminal: term.IsTerminal(int(os.Stderr.Fd())),
	}
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
