package diff

// Nearest is the valid word with the fewest edits from word, the first of
// several, or "" when all of them are more than limit edits away (Levenshtein,
// in bytes). It is for hints: every list of words that people type has one.
func Nearest[T ~string](word string, valid []T, limit int) T {
	var best T
	distance := limit + 1
	for _, v := range valid {
		if d := editDistance(word, string(v)); d < distance {
			best, distance = v, d
		}
	}
	return best
}

func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			substitute := diagonal
			if a[i] != b[j] {
				substitute++
			}
			diagonal = row[j+1]
			row[j+1] = min(substitute, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
