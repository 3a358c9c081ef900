package proof

import (
	"encoding/json"
	"math"
	"strings"
	"time"

	"understudy/audit"
)

// object draws an arguments object: required properties always, others often.
func (g *Generator) object(s *schema, pool []*row, strays int) map[string]any {
	made := map[string]any{}
	for _, name := range s.names {
		required := false
		for _, r := range s.Required {
			required = required || r == name
		}
		if required || g.chance(60) {
			made[name] = g.value(s.Properties[name].variant(), pool, strays)
		}
	}
	return made
}

func (g *Generator) value(s *schema, pool []*row, strays int) any {
	if len(s.Enum) > 0 {
		return s.Enum[g.rng.IntN(len(s.Enum))]
	}
	switch s.kind() {
	case "object":
		return g.object(s, pool, strays)
	case "array":
		return g.array(s, pool, strays)
	case "boolean":
		return g.rng.IntN(2) == 0
	case "integer", "number":
		return g.number(s, pool)
	}
	return g.text(s, pool, strays)
}

func (g *Generator) array(s *schema, pool []*row, strays int) []any {
	least, most := 0, 3
	if s.MinItems != nil {
		least = *s.MinItems
	}
	if s.MaxItems != nil {
		most = min(most, *s.MaxItems)
	}
	made := []any{}
	if s.Items == nil {
		return made
	}
	for range least + g.rng.IntN(max(most-least, 0)+1) {
		made = append(made, g.value(s.Items.variant(), pool, strays))
	}
	return made
}

// text draws a string: a value of the best fitting fields of the pool, of
// another row (a stray), or of no row at all.
func (g *Generator) text(s *schema, pool []*row, strays int) any {
	from := pool
	switch {
	case g.chance(strays):
		from = g.elsewhere()
	case s.param == g.other && len(pool) > 1:
		from = pool[1+g.rng.IntN(len(pool)-1):]
	}
	candidates := g.candidates(s.param, from)
	for tries := 0; len(candidates) == 0 && tries < 6; tries++ {
		candidates = g.candidates(s.param, g.elsewhere())
	}
	for range min(len(candidates), 4) {
		v, ok := candidates[g.rng.IntN(len(candidates))].(string)
		if must := g.params[s.param].must; !ok || must != nil && !must.MatchString(v) {
			continue
		}
		g.used[v] = true
		if g.chance(strays / 2) {
			return g.nearMiss(v)
		}
		return v
	}
	if v, ok := fromPattern(g.rng, s.Pattern); ok && s.Pattern != "" {
		return v
	}
	return g.word(s)
}

// candidates are the values of the fields that fit the parameter best. Where the
// first row has an id that the call does not use yet, it alone decides, so that
// an order's own customer is taken, but two accounts differ.
func (g *Generator) candidates(index int, rows []*row) []any {
	var found []any
	best := 1
	isID := g.params[index].shape != ""
	for i, r := range rows {
		if i == 1 && len(found) > 0 && isID {
			return found
		}
		for _, f := range r.fields {
			m := g.match(index, f)
			if m < best {
				continue
			}
			values := f.values
			if isID {
				values = g.unused(values)
			}
			if m > best && len(values) > 0 {
				best, found = m, found[:0]
			}
			found = append(found, values...)
		}
	}
	return found
}

// unused are the values that the call at hand does not name yet.
func (g *Generator) unused(values []any) []any {
	var left []any
	for _, v := range values {
		if key, ok := v.(string); !ok || !g.used[key] {
			left = append(left, v)
		}
	}
	return left
}

// elsewhere is a random row with its neighbours.
func (g *Generator) elsewhere() []*row {
	if len(g.world.tables) == 0 {
		return nil
	}
	r := g.someRow()
	return append([]*row{r}, g.world.neighbours(r)...)
}

// number draws a number: one that the state shows, a small one, or one of any size up to the maximum.
func (g *Generator) number(s *schema, pool []*row) any {
	low, high := 0.0, 1e6
	if s.Minimum != nil {
		low = *s.Minimum
	}
	if s.Maximum != nil {
		high = *s.Maximum
	}
	whole := s.kind() == "integer"
	switch pick := g.rng.IntN(10); {
	case pick < 3:
		if v, ok := g.known(s.param, pool); ok && v >= low && v <= high && (!whole || v == math.Trunc(v)) {
			return v
		}
	case pick < 6:
		return math.Min(low+float64(g.rng.IntN(6)), high)
	}
	span := math.Max(high-low, 0)
	v := low + math.Exp(g.rng.Float64()*math.Log1p(span)) - 1
	if whole {
		return math.Floor(v)
	}
	return math.Round(v*100) / 100
}

func (g *Generator) known(index int, pool []*row) (float64, bool) {
	candidates := g.candidates(index, pool)
	if len(candidates) == 0 {
		return 0, false
	}
	n, ok := candidates[g.rng.IntN(len(candidates))].(json.Number)
	if !ok {
		return 0, false
	}
	v, err := n.Float64()
	return v, err == nil
}

// word is a text that names nothing: what people write into free fields.
func (g *Generator) word(s *schema) string {
	p := g.params[s.param]
	if s.Format == "date" || strings.Contains(s.Description, "YYYY-MM-DD") {
		day := g.world.now.AddDate(0, 0, g.rng.IntN(90)-30)
		if strings.Contains(s.Description, "HH:MM") {
			return day.Format("2006-01-02T15:04:05")
		}
		return day.Format(time.DateOnly)
	}
	letters := "ABCDEFGHJKLMNPRSTUVWXYZ23456789"
	made := []byte(strings.ToUpper(strings.Join(p.words, "")))
	made = made[:min(len(made), 4)]
	for range 4 {
		made = append(made, letters[g.rng.IntN(len(letters))])
	}
	return string(made)
}

// nearMiss spoils an id a little: another last digit, a lost prefix, other case.
func (g *Generator) nearMiss(id string) string {
	if id == "" {
		return "0"
	}
	switch g.rng.IntN(4) {
	case 0:
		return id[1:]
	case 1:
		return id + string(rune('0'+g.rng.IntN(10)))
	case 2:
		return strings.ToLower(id) + " "
	}
	return id[:len(id)-1] + string(rune('0'+g.rng.IntN(10)))
}

// breakCall makes a call invalid: malformed text, an unknown tool, or
// arguments outside the schema.
func (g *Generator) breakCall(call audit.Call) audit.Call {
	var arguments map[string]any
	if err := json.Unmarshal(call.Arguments, &arguments); err != nil {
		return call
	}
	names := sortedKeys(arguments)
	switch pick := g.rng.IntN(6); {
	case pick == 0:
		call.Arguments = call.Arguments[:len(call.Arguments)-1]
		return call
	case pick == 1:
		call.Tool += "_now"
		return call
	case pick == 2 || len(names) == 0:
		arguments["comment"] = "please"
	case pick == 3:
		delete(arguments, names[g.rng.IntN(len(names))])
	case pick == 4:
		arguments[names[g.rng.IntN(len(names))]] = []any{map[string]any{}}
	default:
		arguments[names[g.rng.IntN(len(names))]] = -1e9
	}
	text, err := json.Marshal(arguments)
	if err != nil {
		return call
	}
	call.Arguments = text
	return call
}
