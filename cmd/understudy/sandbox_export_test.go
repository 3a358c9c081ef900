package main

import (
	"bytes"
	"context"
	"strings"
)

// Invoke runs one command line in this process, with nothing but env around it.
func Invoke(ctx context.Context, env map[string]string, stdin string, args ...string) (status int, stdout, stderr string) {
	var out, errs bytes.Buffer
	lookup := func(name string) (string, bool) {
		value, ok := env[name]
		return value, ok
	}
	status = execute(ctx, args, surroundings{env: lookup, stdin: strings.NewReader(stdin), stdout: &out, stderr: &errs})
	return status, out.String(), errs.String()
}
