package starlark

import "understudy/audit/diff"

// nearest is the declared tool whose name is closest to name, or "" when none is close.
func (d *Domain) nearest(name string) string {
	if len(name) > 80 {
		return "" // from outside, and no misspelling
	}
	names := make([]string, len(d.tools))
	for i, t := range d.tools {
		names[i] = t.Name
	}
	return diff.Nearest(name, names, len(name)/3+1)
}
