package diff_test

import (
	"slices"
	"strconv"
	"strings"

	"pgregory.net/rapid"
)

// genJSON draws the text of a JSON value, small enough that collisions are common.
func genJSON(depth int) *rapid.Generator[string] {
	scalar := rapid.SampledFrom([]string{
		"null", "true", "false", "0", "-0.0", "1", "1.0", "10e-1", "25", "2.5e1", "9007199254740993", "0.1",
		`""`, `"a"`, `"b"`, `"a/b~"`, `"\ud83d"`, `"1"`, `"\u0000"`, "[]", "{}",
	})
	if depth == 0 {
		return scalar
	}
	inner := genJSON(depth - 1)
	return rapid.OneOf(
		scalar,
		rapid.Map(rapid.SliceOfN(inner, 0, 5), func(elements []string) string {
			return "[" + strings.Join(elements, ",") + "]"
		}),
		rapid.Map(rapid.SliceOfN(inner, 0, 5), func(members []string) string {
			for i := range members {
				members[i] = strconv.Quote(string(rune('a'+i))) + ":" + members[i]
			}
			return "{" + strings.Join(members, ",") + "}"
		}),
		rapid.Map(rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "x/y", "~", "", "\\ud83d"}), inner, 0, 4),
			func(members map[string]string) string {
				var parts []string
				for name, member := range members {
					parts = append(parts, `"`+name+`":`+member)
				}
				slices.Sort(parts) // a seed gives one text
				return "{" + strings.Join(parts, ",") + "}"
			}),
	)
}
