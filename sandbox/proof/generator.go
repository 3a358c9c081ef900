package proof

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"

	"understudy/audit"
)

// Generator draws calls that make sense in the state it was shown: argument
// values come from one row and its neighbours (an order, its customer, its
// store), from enums, from earlier answers, and now and then from elsewhere, so
// that refusals are near misses. Draws depend on the seed alone. Not safe for
// concurrent use.
type Generator struct {
	rng     *rand.Rand
	tools   []toolSchema
	params  []param
	score   [][]int8 // param → field name → how well the name fits, -1 = not yet known
	world   *world
	learned []*row // calls with their answers, newest overwrite oldest
	turn    int
	scripts [][]audit.Call // sequences that are known to work
	script  []audit.Call   // what is left of the one being followed
	last    audit.Call
	used    map[string]bool // ids that the call at hand names already
	other   int             // parameter that the call at hand fills from its row's neighbours; -1 = none
	subject *row            // what the calls are about for a while, as in a conversation
	stay    int             // calls until another subject is chosen
	strays  int             // per cent of values drawn from elsewhere
	broken  int             // per cent of calls with broken arguments
}

type toolSchema struct {
	audit.Tool
	input *schema
}

// memory is how many answers a generator keeps: enough to reach what a session made.
const memory = 48

// NewGenerator returns a generator of calls to the tools.
func NewGenerator(tools []audit.Tool, seed uint64) (*Generator, error) {
	g := &Generator{rng: rand.New(rand.NewPCG(seed, 0x70726f6f66)), world: newWorld(), used: map[string]bool{}, strays: 6, broken: 4}
	for _, t := range tools {
		input, err := parseSchema(t.Input, func(p param) int {
			g.params = append(g.params, p)
			return len(g.params) - 1
		})
		if err != nil {
			return nil, fmt.Errorf("tool %s: %w", t.Name, err)
		}
		g.tools = append(g.tools, toolSchema{Tool: t, input: input})
	}
	g.score = make([][]int8, len(g.params))
	return g, nil
}

// Observe shows the generator a whole state; what it knew of an earlier one is dropped.
func (g *Generator) Observe(state []byte) error {
	w, err := harvest(state)
	if err != nil {
		return err
	}
	g.see(w)
	return nil
}

// see gives the generator a world that was harvested before. Generators that are
// used one after the other may share one.
func (g *Generator) see(w *world) {
	g.world, g.subject, g.learned = w, nil, nil
	for i := range g.score {
		g.score[i] = nil // field names are numbered by the world
	}
}

// Learn shows the generator an answer, so that later calls can use what it names.
func (g *Generator) Learn(call audit.Call, answer []byte) {
	arguments, err := decode(call.Arguments)
	if err != nil {
		return
	}
	body, err := decode(answer)
	if err != nil {
		return
	}
	if _, ok := body.(map[string]any); !ok {
		return
	}
	r := g.world.rowOf(arguments, body)
	if len(g.learned) < memory {
		g.learned = append(g.learned, r)
		return
	}
	g.learned[g.turn%memory] = r
	g.turn++
}

// Suggest gives the generator sequences of calls that make sense, such as the
// reference solutions of tasks: now and then it follows one, among its own draws.
func (g *Generator) Suggest(scripts [][]audit.Call) { g.scripts = scripts }

// Next draws a call to any tool: mostly plausible, sometimes repeated, sometimes broken.
func (g *Generator) Next() audit.Call {
	if len(g.script) == 0 && len(g.scripts) > 0 && g.chance(3) {
		g.script = g.scripts[g.rng.IntN(len(g.scripts))]
	}
	if len(g.script) > 0 && g.chance(80) {
		g.last, g.script = g.script[0], g.script[1:]
		return g.last
	}
	if g.last.Tool != "" && g.chance(4) {
		return g.last // a double submit
	}
	g.last = g.draw(g.tools[g.rng.IntN(len(g.tools))], g.strays)
	if g.chance(g.broken) {
		return g.breakCall(g.last)
	}
	return g.last
}

// NextWrite draws a well-formed call to a tool that may change the world, or
// false when there is no such tool.
func (g *Generator) NextWrite() (audit.Call, bool) {
	var writes []toolSchema
	for _, t := range g.tools {
		if t.Effect != audit.Read {
			writes = append(writes, t)
		}
	}
	if len(writes) == 0 {
		return audit.Call{}, false
	}
	return g.draw(writes[g.rng.IntN(len(writes))], 0), true
}

func (g *Generator) draw(t toolSchema, strays int) audit.Call {
	clear(g.used)
	g.other = -1
	if n := len(t.input.names); n > 1 && g.chance(40) {
		// Another address of the same customer, another courier than the order's.
		g.other = t.input.Properties[t.input.names[g.rng.IntN(n)]].variant().param
	}
	pool := g.anchor(t)
	arguments := g.object(t.input, pool, strays)
	text, err := json.Marshal(arguments)
	if err != nil {
		panic(fmt.Sprintf("marshal drawn arguments: %v", err)) // they are strings, numbers, lists and maps of our own
	}
	return audit.Call{Tool: t.Name, Arguments: text, Role: t.Role}
}

// anchor picks the rows that a call's values come from: a row whose names fit
// the tool's parameters, with its neighbours. Most often it is near the subject.
func (g *Generator) anchor(t toolSchema) []*row {
	if len(g.world.tables) == 0 {
		return nil
	}
	if g.stay--; g.stay < 0 || g.subject == nil {
		g.subject, g.stay = g.someRow(), 12+g.rng.IntN(28)
	}
	if len(g.learned) > 0 && g.chance(20) {
		r := g.learned[g.rng.IntN(len(g.learned))]
		return append([]*row{r}, g.world.neighbours(r)...)
	}
	near := append([]*row{g.subject}, g.world.neighbours(g.subject)...)
	best, bestFit := (*row)(nil), -1
	for range 8 { // a few draws; the best fit wins, so coherent calls are frequent and others occur
		r := near[g.rng.IntN(len(near))]
		if g.chance(15) {
			r = g.someRow()
		}
		if fit := g.fit(t.input, r); fit > bestFit {
			best, bestFit = r, fit
		}
	}
	pool := append([]*row{best}, g.world.neighbours(best)...)
	return append(pool, near...)
}

func (g *Generator) someRow() *row {
	rows := g.world.tables[g.rng.IntN(len(g.world.tables))].rows
	return rows[g.rng.IntN(len(rows))]
}

// fit counts how many of the tool's parameters the row can fill, with weight.
func (g *Generator) fit(s *schema, r *row) int {
	fit := 0
	for _, name := range s.names {
		p := s.Properties[name].variant()
		best := 0
		for _, f := range r.fields {
			best = max(best, g.match(p.param, f))
		}
		fit += best
	}
	return fit
}

// match scores how well a field fits a parameter, 0 = not at all.
func (g *Generator) match(index int, f field) int {
	scores := g.score[index]
	for len(scores) <= f.name {
		scores = append(scores, -1)
	}
	g.score[index] = scores
	p := &g.params[index]
	if scores[f.name] < 0 {
		scores[f.name] = nameScore(p, g.world.fields[f.name])
	}
	if p.shape != "" {
		// An example id in the description is the strongest evidence, for and against.
		if f.shape == p.shape {
			return int(scores[f.name]) + 12
		}
		return 0
	}
	return int(scores[f.name])
}

func nameScore(p *param, name string) int8 {
	if p.name == name {
		return 10
	}
	score := int8(0)
	for _, w := range words(name) {
		for _, have := range p.words {
			if w == have {
				score += 4
			}
		}
		for _, have := range p.hints {
			if w == have {
				score++
			}
		}
	}
	return min(score, 9)
}

func (g *Generator) chance(percent int) bool { return g.rng.IntN(100) < percent }
