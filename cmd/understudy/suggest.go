package main

// suggest is a hint that names the known word nearest to the one that was
// given, or "" when none is near.
func suggest(given string, known []string) string {
	best, nearest := 1+len(given)/2, ""
	for _, word := range known {
		if d := distance(given, word); d < best {
			best, nearest = d, word
		}
	}
	if nearest == "" {
		return ""
	}
	return "did you mean " + nearest + "?"
}

// distance counts the letters to insert, delete or replace (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}
