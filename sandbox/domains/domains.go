// Package domains embeds the domains that ship with Understudy: each folder is
// one Starlark domain, loaded by sandbox/starlark.
package domains

import (
	"embed"
	"io/fs"
)

//go:embed */*.star */*.yaml */*.md
var files embed.FS

// FS is the read-only file system of all domains, one folder each.
func FS() fs.FS { return files }

// Names lists the domains in alphabetical order.
func Names() []string {
	entries, err := files.ReadDir(".")
	if err != nil {
		panic(err) // an embedded folder always reads
	}
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}
