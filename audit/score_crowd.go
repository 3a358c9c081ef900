package audit

import (
	"bytes"
	"strconv"
)

// Crowd says how many elements an array may have, by the depth at which it
// stands: 1 is the outermost value. Other depths are not bounded.
type Crowd map[int]int

// batchCrowd bounds {"outputs": [{"history": [.
func batchCrowd() Crowd { return Crowd{2: MaxOutputs, 4: maxHistory} }

// placeCrowd bounds {"history": [.
func placeCrowd() Crowd { return Crowd{2: maxHistory} }

// Check refuses a text with an array that is too long, before anything is made of
// it: an element of two bytes, {}, becomes an Output of hundreds. It reads strings,
// brackets and commas alone; what is no JSON is the decoder's to find.
func (c Crowd) Check(text []byte) error {
	const deepest = 8
	var (
		elements [deepest]int
		inArray  [deepest]bool
		depth    int
	)
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			i = closingQuote(text, i)
		case '[', '{':
			if depth++; depth < deepest {
				elements[depth], inArray[depth] = 1, text[i] == '['
			}
		case ']', '}':
			if depth--; depth < 0 {
				return nil
			}
		case ',':
			if depth >= deepest || !inArray[depth] {
				continue
			}
			elements[depth]++
			if most, bounded := c[depth]; bounded && elements[depth] > most {
				return &Error{
					Code: CodeLimit, Message: "a list of more than " + strconv.Itoa(most) + " elements",
					Hint: "send fewer at once",
				}
			}
		}
	}
	return nil
}

// closingQuote is where the string that begins at text[from] ends; one that never
// does ends with the text.
func closingQuote(text []byte, from int) int {
	for i := from + 1; i < len(text); i++ {
		next := bytes.IndexAny(text[i:], `"\`)
		if next < 0 {
			break
		}
		if i += next; text[i] == '"' {
			return i
		}
		i++ // what is escaped
	}
	return len(text)
}
