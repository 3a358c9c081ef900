package proof

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// world is what a generator knows of the state: its rows, and by which key they
// can be reached. A row is an object that stands under a key in a table (an
// object of objects), with everything below it flattened into named fields.
type world struct {
	tables []*table
	byKey  map[string][]*row
	users  map[string][]*row // key → rows that mention it
	names  map[string]int    // field name → index
	fields []string          // index → field name
	now    time.Time         // the world\'s clock, where the state shows one
}

type table struct {
	name string
	rows []*row
}

type row struct {
	key    string // under which it stands; "" for an answer
	parent *row   // the row that its table belongs to; nil at the top
	fields []field
}

type field struct {
	name   int
	shape  string // of the first string value
	values []any  // string, json.Number, bool
}

func newWorld() *world {
	return &world{byKey: map[string][]*row{}, users: map[string][]*row{}, names: map[string]int{}}
}

// harvest collects the rows of a whole state.
func harvest(state []byte) (*world, error) {
	root, err := decode(state)
	if err != nil {
		return nil, fmt.Errorf("harvest the state: %w", err)
	}
	w := newWorld()
	top, ok := root.(map[string]any)
	if !ok {
		return w, nil
	}
	w.now = clock(top)
	for _, name := range sortedKeys(top) {
		if !strings.HasPrefix(name, "$") {
			w.collect(nil, name, top[name])
		}
	}
	for _, t := range w.tables {
		for _, r := range t.rows {
			w.mention(r)
		}
	}
	return w, nil
}

// clock is the world's now, which built-in domains keep in the state.
func clock(top map[string]any) time.Time {
	sys, _ := top["$sys"].(map[string]any)
	text, _ := sys["clock"].(string)
	now, err := time.Parse("2006-01-02T15:04:05", text)
	if err != nil {
		return time.Date(2025, 1, 1, 12, 0, 0, 0, time.UTC)
	}
	return now
}

// mention records which rows a row names by their keys.
func (w *world) mention(r *row) {
	if r.parent != nil && len(w.users[r.parent.key]) < most {
		w.users[r.parent.key] = append(w.users[r.parent.key], r)
	}
	for _, key := range r.named() {
		if key != r.key && len(w.byKey[key]) > 0 && len(w.users[key]) < most {
			w.users[key] = append(w.users[key], r)
		}
	}
}

// named lists the texts of a row that may be keys of others.
func (r *row) named() []string {
	var found []string
	for _, f := range r.fields {
		for _, value := range f.values[:min(len(f.values), 8)] {
			if key, ok := value.(string); ok {
				found = append(found, key)
			}
		}
	}
	return found
}

// rowOf flattens one object, such as a call's arguments and answer, into a row.
func (w *world) rowOf(objects ...any) *row {
	r := &row{}
	for _, object := range objects {
		w.collect(r, "", object)
	}
	return r
}

// collect adds value to the row under name; tables become rows of their own.
func (w *world) collect(r *row, name string, value any) {
	switch v := value.(type) {
	case map[string]any:
		keys := sortedKeys(v)
		if name != "" && isTable(v) {
			w.collectTable(r, name, v, keys)
			return
		}
		if name != "" {
			w.add(r, name, stringValues(keys)...)
		}
		for _, key := range keys {
			w.collect(r, key, v[key])
		}
	case []any:
		for _, element := range v {
			w.collect(r, name, element)
		}
	case nil:
	default:
		w.add(r, name, v)
	}
}

func (w *world) collectTable(parent *row, name string, v map[string]any, keys []string) {
	at := slices.IndexFunc(w.tables, func(t *table) bool { return t.name == name })
	if at < 0 {
		at = len(w.tables)
		w.tables = append(w.tables, &table{name: name})
	}
	w.add(parent, name, stringValues(keys)...)
	for _, key := range keys {
		r := &row{key: key, parent: parent}
		w.add(r, name, key)
		w.collect(r, "", v[key])
		w.tables[at].rows = append(w.tables[at].rows, r)
		w.byKey[key] = append(w.byKey[key], r)
	}
}

// add appends values to a field; the top of the state has no row and keeps nothing.
func (w *world) add(r *row, name string, values ...any) {
	if r == nil {
		return
	}
	index, ok := w.names[name]
	if !ok {
		index = len(w.fields)
		w.names[name] = index
		w.fields = append(w.fields, name)
	}
	for i := range r.fields {
		if r.fields[i].name == index {
			r.fields[i].values = append(r.fields[i].values, values...)
			return
		}
	}
	f := field{name: index, values: values}
	if len(values) > 0 {
		if s, ok := values[0].(string); ok {
			f.shape = shape(s)
		}
	}
	r.fields = append(r.fields, f)
}

// most is how many rows of one kind of neighbourhood are kept.
const most = 12

// neighbours are the rows that belong to a row: its parent, the rows whose keys
// it mentions, and the rows that mention its key.
func (w *world) neighbours(r *row) []*row {
	var found []*row
	if r.parent != nil {
		found = append(found, r.parent)
	}
	for _, key := range r.named() {
		for _, other := range w.byKey[key] {
			if other != r && len(found) < most {
				found = append(found, other)
			}
		}
	}
	if r.key != "" {
		found = append(found, w.users[r.key]...)
	}
	return found
}

// isTable reports whether an object is a collection: every member is an object itself.
func isTable(v map[string]any) bool {
	for _, member := range v {
		if _, ok := member.(map[string]any); !ok {
			return false
		}
	}
	return len(v) > 0
}

func decode(text []byte) (any, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, fmt.Errorf("decode JSON: %w", err)
	}
	return value, nil
}

func sortedKeys(v map[string]any) []string {
	keys := make([]string, 0, len(v))
	for key := range v {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

func stringValues(keys []string) []any {
	values := make([]any, len(keys))
	for i, key := range keys {
		values[i] = key
	}
	return values
}
