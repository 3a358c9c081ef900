package diff

import "fmt"

// maxYAMLDepth bounds nesting, in brackets and in dashes of one line: the YAML
// parser's time grows with the square of the depth, and its memory faster (200 kB
// of brackets took 22 GB).
const maxYAMLDepth = 100

// CheckYAML refuses a YAML text that is nested too deeply to be parsed, before it
// is: the error names the line. Every reader of YAML asks it first.
func CheckYAML(text []byte) error {
	depth, line, dashes := 0, 1, 0
	for i, b := range text {
		switch b {
		case '[', '{':
			depth++
		case ']', '}':
			depth = max(0, depth-1)
		case '\n':
			line, dashes = line+1, 0
			continue
		case '-', '?':
			if i+1 < len(text) && text[i+1] == ' ' { // a ruler in a comment is no nesting
				dashes++
			}
		case ' ':
		default:
			dashes = 0
		}
		if depth > maxYAMLDepth || dashes > maxYAMLDepth {
			return fmt.Errorf("line %d: nested deeper than %d levels", line, maxYAMLDepth)
		}
	}
	return nil
}
