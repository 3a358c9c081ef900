package starlark

// nearest is the declared tool whose name is closest to name, or "" when none is close.
func (d *Domain) nearest(name string) string {
	if len(name) > 80 {
		return ""
	}
	best, distance := "", len(name)/3+1
	for _, t := range d.tools {
		if n := editDistance(name, t.Name); n <= distance && (best == "" || n < distance) {
			best, distance = t.Name, n
		}
	}
	return best
}

// editDistance is Levenshtein's, in bytes.
func editDistance(a, b string) int {
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
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
