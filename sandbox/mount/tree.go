package mount

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"understudy/audit/diff"
)

// tree is a YAML document as JSON, with the line of everything in it.
type tree struct {
	json   any
	lines  map[string]int // of values, by JSON Pointer
	faults []error
}

// parseTree reads one document.
func parseTree(text []byte) (*tree, error) {
	if err := diff.CheckYAML(text); err != nil {
		return nil, err
	}
	file, err := parser.ParseBytes(text, 0)
	if err != nil {
		if syntax, ok := errors.AsType[*yaml.SyntaxError](err); ok && syntax.Token != nil {
			return nil, fmt.Errorf("line %d: %s", syntax.Token.Position.Line, syntax.Message)
		}
		return nil, err
	}
	if len(file.Docs) != 1 || file.Docs[0].Body == nil {
		return nil, errors.New("want one YAML document")
	}
	t := &tree{lines: map[string]int{}}
	t.json = t.value(file.Docs[0].Body, "")
	return t, errors.Join(t.faults...)
}

func (t *tree) fault(n ast.Node, format string, args ...any) {
	t.faults = append(t.faults, fmt.Errorf("line %d: "+format, append([]any{lineOf(n)}, args...)...))
}

func lineOf(n ast.Node) int {
	if token := n.GetToken(); token != nil && token.Position != nil {
		return token.Position.Line
	}
	return 0
}

// value turns a node into what encoding/json would decode, numbers as they stand.
func (t *tree) value(n ast.Node, at string) any {
	t.lines[at] = lineOf(n)
	switch n := n.(type) {
	case *ast.MappingNode:
		return t.object(n.Values, at)
	case *ast.MappingValueNode:
		return t.object([]*ast.MappingValueNode{n}, at)
	case *ast.SequenceNode:
		list := make([]any, len(n.Values))
		for i, child := range n.Values {
			list[i] = t.value(child, at+"/"+strconv.Itoa(i))
		}
		return list
	case *ast.StringNode:
		return n.Value
	case *ast.LiteralNode:
		return n.Value.Value
	case *ast.BoolNode:
		return n.Value
	case *ast.NullNode:
		return nil
	case *ast.IntegerNode, *ast.FloatNode:
		text := strings.ReplaceAll(n.GetToken().Value, "_", "")
		if json.Valid([]byte(text)) {
			return json.Number(text)
		}
		t.fault(n, "%s is no number as JSON writes it", text)
		return nil
	case *ast.TagNode:
		return t.value(n.Value, at)
	}
	t.fault(n, "%s is not understood here; write plain YAML", n.Type())
	return nil
}

func (t *tree) object(entries []*ast.MappingValueNode, at string) any {
	object := make(map[string]any, len(entries)) // the parser has refused keys that stand twice
	for _, e := range entries {
		key := e.Key.GetToken().Value
		below := at + "/" + escape(key)
		object[key] = t.value(e.Value, below)
		t.lines[below] = lineOf(e.Key)
	}
	return object
}

func escape(key string) string { return strings.NewReplacer("~", "~0", "/", "~1").Replace(key) }

// line is where a place is, or what it is in.
func (t *tree) line(at string) int {
	for {
		if line, ok := t.lines[at]; ok {
			return line
		}
		cut := strings.LastIndex(at, "/")
		if cut < 0 {
			return 1
		}
		at = at[:cut]
	}
}
