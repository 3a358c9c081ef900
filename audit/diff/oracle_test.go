package diff_test

import (
	"fmt"
	"math/big"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"

	"understudy/audit/diff"
)

// number is a decimal as go-cmp can compare it.
type number string

// plain turns a value into maps, slices and scalars.
func plain(v diff.Value) any {
	switch v.Type() {
	case diff.TypeObject:
		out := map[string]any{}
		for name, kid := range v.Members() {
			out[name] = plain(kid)
		}
		return out
	case diff.TypeArray:
		out := []any{}
		for _, kid := range v.Elements() {
			out = append(out, plain(kid))
		}
		return out
	case diff.TypeString:
		return v.Text()
	case diff.TypeNumber:
		rat, _ := new(big.Rat).SetString(v.Text())
		return number(rat.RatString())
	case diff.TypeBool:
		return v.Bool()
	case diff.TypeNull, diff.TypeAbsent:
	}
	return nil
}

// pathReporter is a cmp.Reporter that notes the pointers of unequal values.
type pathReporter struct {
	path     cmp.Path
	pointers []string
}

func (r *pathReporter) PushStep(step cmp.PathStep) { r.path = append(r.path, step) }
func (r *pathReporter) PopStep()                   { r.path = r.path[:len(r.path)-1] }

func (r *pathReporter) Report(result cmp.Result) {
	if result.Equal() {
		return
	}
	var pointer strings.Builder
	escape := strings.NewReplacer("~", "~0", "/", "~1")
	for _, step := range r.path {
		switch step := step.(type) {
		case cmp.MapIndex:
			pointer.WriteString("/" + escape.Replace(step.Key().String()))
		case cmp.SliceIndex:
			fmt.Fprintf(&pointer, "/%d", step.Key())
		}
	}
	r.pointers = append(r.pointers, pointer.String())
}

// sorted lists the pointers by token, as our walk does.
func (r *pathReporter) sorted() []string {
	slices.SortFunc(r.pointers, func(a, b string) int {
		return slices.Compare(strings.Split(a, "/"), strings.Split(b, "/"))
	})
	return r.pointers
}
