package tiny

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// errWords is returned for words that are no JSON value.
var errWords = errors.New("the words are no value")

// jsonWords writes a JSON value as words. Of an error only the family stays: its
// text is prose. A text with spaces is an error.
func jsonWords(raw []byte) ([]string, error) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	return valueWords(nil, decoder)
}

func valueWords(words []string, decoder *json.Decoder) ([]string, error) {
	token, err := decoder.Token()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errWords, err)
	}
	switch token := token.(type) {
	case json.Delim:
		closing := map[json.Delim]string{'{': "}", '[': "]"}[token]
		words = append(words, token.String())
		for decoder.More() {
			if token == '{' {
				key, err := decoder.Token()
				if err != nil {
					return nil, fmt.Errorf("%w: %w", errWords, err)
				}
				name := fmt.Sprint(key)
				if name == "message" || name == "details" { // prose beside an error's code
					var skipped json.RawMessage
					if err := decoder.Decode(&skipped); err != nil {
						return nil, fmt.Errorf("%w: %w", errWords, err)
					}
					continue
				}
				words = append(words, name)
			}
			if words, err = valueWords(words, decoder); err != nil {
				return nil, err
			}
		}
		if _, err := decoder.Token(); err != nil {
			return nil, fmt.Errorf("%w: %w", errWords, err)
		}
		return append(words, closing), nil
	case string:
		if token == "" || strings.ContainsAny(token, " \t\n") {
			return nil, fmt.Errorf("%w: %q is not one word", errWords, token)
		}
		return append(words, token), nil
	case json.Number:
		return append(words, token.String()), nil
	case bool:
		return append(words, strconv.FormatBool(token)), nil
	default:
		return append(words, "?"), nil
	}
}

// wordsJSON reads one value from the front of words, and returns what follows it.
func wordsJSON(words []string) (value []byte, rest []string, err error) {
	if len(words) == 0 {
		return nil, nil, fmt.Errorf("%w: it ends too early", errWords)
	}
	switch first := words[0]; first {
	case "{":
		return wordsObject(words[1:])
	case "[":
		return wordsArray(words[1:])
	case "}", "]", wordAct, wordRehearse, wordEnd, wordUnknown, ">", ";", "\n":
		return nil, nil, fmt.Errorf("%w: %q where a value is expected", errWords, first)
	case "?":
		return []byte("null"), words[1:], nil
	case "true", "false":
		return []byte(first), words[1:], nil
	default:
		if _, err := strconv.Atoi(first); err == nil {
			return []byte(first), words[1:], nil
		}
		text, err := json.Marshal(first)
		return text, words[1:], err
	}
}

func wordsObject(words []string) ([]byte, []string, error) {
	out := []byte("{")
	for len(words) > 0 && words[0] != "}" {
		if len(out) > 1 {
			out = append(out, ',')
		}
		key, err := json.Marshal(words[0])
		if err != nil {
			return nil, nil, err
		}
		value, rest, err := wordsJSON(words[1:])
		if err != nil {
			return nil, nil, err
		}
		out = append(append(append(out, key...), ':'), value...)
		words = rest
	}
	if len(words) == 0 {
		return nil, nil, fmt.Errorf("%w: an object does not end", errWords)
	}
	return append(out, '}'), words[1:], nil
}

func wordsArray(words []string) ([]byte, []string, error) {
	out := []byte("[")
	for len(words) > 0 && words[0] != "]" {
		if len(out) > 1 {
			out = append(out, ',')
		}
		value, rest, err := wordsJSON(words)
		if err != nil {
			return nil, nil, err
		}
		out, words = append(out, value...), rest
	}
	if len(words) == 0 {
		return nil, nil, fmt.Errorf("%w: a list does not end", errWords)
	}
	return append(out, ']'), words[1:], nil
}

// promptWords are the words of a task's prompt; the ends of lines are words too.
func promptWords(prompt string) []string {
	var words []string
	for i, line := range strings.Split(prompt, "\n") {
		if i > 0 {
			words = append(words, "\n")
		}
		words = append(words, strings.Fields(line)...)
	}
	return words
}
