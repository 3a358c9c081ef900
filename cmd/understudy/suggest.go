package main

import "understudy/audit/diff"

// suggest is a hint that names the known word nearest to the one that was
// given, or "" when none is near.
func suggest(given string, known []string) string {
	if nearest := diff.Nearest(given, known, len(given)/2); nearest != "" {
		return "did you mean " + nearest + "?"
	}
	return ""
}
