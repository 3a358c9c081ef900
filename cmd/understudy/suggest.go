package main

import (
	"strings"

	"understudy/audit/diff"
)

// shortList is how many known words are all named where none is near.
const shortList = 8

// suggest is a hint that names the known word nearest to the one that was given,
// or all of a few; "" when none of many is near.
func suggest(given string, known []string) string {
	if nearest := diff.Nearest(given, known, len(given)/2); nearest != "" {
		return "did you mean " + nearest + "?"
	}
	if len(known) <= shortList {
		return "one of " + strings.Join(known, ", ")
	}
	return ""
}
