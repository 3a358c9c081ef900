package main

import (
	"context"
	"flag"
	"fmt"
	"runtime"
	"runtime/debug"
)

func versionCommand() command {
	return command{
		name: "version", summary: "print the version, and the devices that compute",
		example: "understudy version --devices",
		setup: func(fs *flag.FlagSet) runFunc {
			devices := fs.Bool("devices", false, "list the devices of the engine")
			return func(_ context.Context, inv *invocation) error {
				fmt.Fprintf(inv.stdout, "understudy %s (%s %s/%s)\n", versionText(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
				if *devices {
					listDevices(inv.stdout)
				}
				return nil
			}
		},
	}
}

// versionText is the module's version or the commit that was built.
func versionText() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	version, modified := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			version = s.Value[:min(12, len(s.Value))]
		case s.Key == "vcs.modified" && s.Value == "true":
			modified = "+modified"
		}
	}
	if version == "" {
		return "development"
	}
	return version + modified
}
