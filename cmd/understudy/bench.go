package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"understudy/audit"
)

func benchCommand() command {
	return command{
		name: "bench", args: "start|engine", summary: "measure this program on this machine",
		example: "understudy bench engine --model ~/.cache/understudy/models/smollm2-135m-instruct",
		setup: func(fs *flag.FlagSet) runFunc {
			count := fs.Int("count", 5, "how often to measure starts")
			model := fs.String("model", "", "folder of the model that the engine is measured on; none = random weights")
			var engine engineFlags
			engine.register(fs)
			return func(ctx context.Context, inv *invocation) error {
				switch {
				case len(inv.args) == 1 && inv.args[0] == "engine":
					return benchEngine(ctx, inv, *model, engine)
				case len(inv.args) != 1 || inv.args[0] != "start":
					return usageError("bench: name what to measure: start or engine", "understudy help bench")
				case *count < 1:
					return usageError("bench: --count must be positive", "understudy help bench")
				}
				return benchStart(ctx, inv, *count)
			}
		},
	}
}

// benchStart measures how long private PostgreSQL, migrations and JetStream take
// until they can be used: first in an empty folder, then over what is there.
func benchStart(ctx context.Context, inv *invocation, count int) (err error) {
	dir, err := scratch(inv.config.DataDir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	cfg := inv.config
	cfg.DataDir, cfg.DatabaseURL, cfg.NATSURL = dir, "", ""

	p := inv.newProgress("starts", count+1)
	var first, fastest, sum, stop time.Duration
	for i := range count + 1 {
		began := time.Now()
		r, err := openResources(ctx, cfg, slog.New(slog.DiscardHandler))
		if err != nil {
			return err
		}
		took := time.Since(began)
		if err := r.close(ctx); err != nil {
			return err
		}
		stop += time.Since(began) - took
		switch {
		case i == 0:
			first = took
		case i == 1 || took < fastest:
			fastest = took
		}
		if i > 0 {
			sum += took
		}
		p.add(1)
	}
	p.end()
	fmt.Fprintf(inv.stdout, "first start (empty folder)  %v\n", first.Round(time.Millisecond))
	fmt.Fprintf(inv.stdout, "later starts, mean of %d     %v (fastest %v)\n", count,
		(sum / time.Duration(count)).Round(time.Millisecond), fastest.Round(time.Millisecond))
	fmt.Fprintf(inv.stdout, "stops, mean of %d            %v\n", count+1, (stop / time.Duration(count+1)).Round(time.Millisecond))
	return nil
}

// scratch makes a folder beside the data folder: on the disk that is meant, and
// where the private PostgreSQL may live.
func scratch(dataDir string) (string, error) {
	root := filepath.Dir(dataDir)
	if err := os.MkdirAll(root, 0o755); err != nil {
		return "", scratchError(root, err)
	}
	dir, err := os.MkdirTemp(root, "understudy-bench-")
	if err != nil {
		return "", scratchError(root, err)
	}
	if err := os.Chmod(dir, 0o711); err != nil {
		return "", scratchError(root, err)
	}
	return dir, nil
}

func scratchError(root string, err error) error {
	return &audit.Error{
		Code: audit.CodeInfrastructure, Err: err,
		Message: "no scratch folder in " + root, Hint: "choose another place with --data-dir",
	}
}
