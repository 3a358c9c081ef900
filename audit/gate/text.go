package gate

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
)

// plain makes a text safe for a terminal, a log and a report: control characters
// and marks that reorder or hide text are spelled out, and the text is cut to a
// length that fits a screen. Tool names and values come from a model.
func plain(s string) string {
	const limit = 1000
	var b strings.Builder
	for i, r := range s {
		if i >= limit {
			b.WriteString("…")
			break
		}
		switch {
		case r == unicode.ReplacementChar || r == ' ':
			b.WriteRune(r)
		case !unicode.IsPrint(r) || unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Co, r):
			fmt.Fprintf(&b, "\\u{%x}", r)
		default:
			b.WriteRune(r)
		}
	}
	return strings.ToValidUTF8(b.String(), "\uFFFD")
}

// number prints a figure with at most four significant digits.
func number(x float64) string {
	switch {
	case math.IsNaN(x):
		return "-"
	case math.IsInf(x, 1):
		return "∞"
	case math.IsInf(x, -1):
		return "-∞"
	case math.Abs(x) < 1e-6:
		return "0"
	case math.Abs(x) >= 1e4:
		return strconv.FormatFloat(x, 'f', 0, 64)
	}
	return strconv.FormatFloat(x, 'g', 4, 64)
}
