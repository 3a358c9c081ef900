package grammar

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// The limits of a schema. Schemas come from clients: one must neither hold a
// server up nor fill its memory, whatever it says.
const (
	maxValues       = 10_000  // JSON values in the document
	maxDepth        = 100     // of values within one another
	maxKey          = 256     // bytes of a member's name
	maxDigits       = 400     // of a number, and its greatest exponent
	maxPatternBytes = 8 << 10 // of all expressions together
	maxMembers      = 1000    // of one object: each is looked at for each byte of a key
	// maxWork is steps of compiling, each well below a microsecond: references and
	// combinations multiply.
	maxWork = 2_000_000
	// maxOpen bounds the alternatives of one choice that are not lists of fixed texts:
	// each is a reading of its own of a text until something tells them apart.
	maxOpen = 128
	// MaxReadings bounds the readings of a text that are followed at once, where
	// choices stand within choices. A text that leaves more is refused.
	MaxReadings = 1024
	// byteWork is the work that a byte of fixed text counts as: a place in a trie.
	byteWork = 8
)

var errWork = errors.New("schema: its references and combinations multiply to more than can be compiled")

// spend counts work, and refuses what is too much.
func (c *compiler) spend(work int) error {
	if c.work += work; c.work > maxWork {
		return errWork
	}
	return nil
}

// census counts what a document holds.
type census struct{ values, patterns int }

// checkSize refuses a document that is larger than any that is meant.
func checkSize(root any) error {
	var n census
	if err := n.count(root, 0); err != nil {
		return fmt.Errorf("schema: %w", err)
	}
	return nil
}

func (n *census) count(value any, depth int) error {
	n.values++
	switch {
	case n.values > maxValues:
		return fmt.Errorf("over %d values", maxValues)
	case depth > maxDepth:
		return fmt.Errorf("over %d levels of nesting", maxDepth)
	}
	switch v := value.(type) {
	case json.Number:
		return checkDigits(string(v))
	case []any:
		for _, item := range v {
			if err := n.count(item, depth+1); err != nil {
				return err
			}
		}
	case map[string]any:
		for key, member := range v {
			if err := n.key(key, member); err != nil {
				return err
			}
			if err := n.count(member, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

// key is what a member's name, and an expression that it may name, count as.
func (n *census) key(key string, member any) error {
	switch expressions := member.(type) {
	case string:
		if key == "pattern" {
			n.patterns += len(expressions)
		}
	case map[string]any:
		if key == "patternProperties" {
			for expression := range expressions {
				n.patterns += len(expression)
			}
		}
	}
	switch {
	case n.patterns > maxPatternBytes:
		return fmt.Errorf("over %d bytes of patterns", maxPatternBytes)
	case len(key) > maxKey:
		return fmt.Errorf("a name of %d bytes: at most %d", len(key), maxKey)
	}
	return nil
}

// checkDigits keeps exact arithmetic cheap: 1e999999 has a million digits.
func checkDigits(number string) error {
	_, exponent, _ := strings.Cut(strings.ToLower(number), "e")
	e, err := strconv.Atoi(exponent)
	if exponent != "" && err != nil || e < -maxDigits || e > maxDigits || len(number) > maxDigits {
		return fmt.Errorf("number %.40s is out of range", number)
	}
	return nil
}

// breadth is how many parts a subschema has at once.
func breadth(keywords map[string]any) int {
	n := len(keywords)
	for _, value := range keywords {
		switch v := value.(type) {
		case []any:
			n += len(v)
		case map[string]any:
			n += len(v)
		}
	}
	return n
}

// weight is what merging a copy of f costs.
func (f *facets) weight() int {
	return 1 + len(f.members) + len(f.required) + len(f.enum) + len(f.prefix) + len(f.items) + len(f.extra)
}
