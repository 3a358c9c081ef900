package cm2

import (
	"bytes"
	"encoding/json"

	"understudy/audit"
)

// located is a row's text and where it begins.
type located struct {
	text   json.RawMessage
	offset int
}

// split cuts a file into rows. A line of JSON Lines that is no JSON is a fault; a
// list that breaks off ends there.
func split(data []byte) (rows []located, faults []Fault, err error) {
	start := len(data) - len(bytes.TrimLeft(data, " \t\r\n\ufeff"))
	body := data[start:]
	switch {
	case bytes.HasPrefix(body, []byte("PAR1")):
		return nil, nil, &audit.Error{
			Code: audit.CodeInvalid, Message: "the file is Parquet",
			Hint: "write its rows as JSON Lines, such as with pandas: read_parquet(f).to_json(out, orient=\"records\", lines=True)",
		}
	case len(body) == 0:
		return nil, nil, &audit.Error{Code: audit.CodeInvalid, Message: "the file is empty", Hint: "give one with a row a line"}
	case body[0] == '[':
		rows, faults = list(data, start)
		return rows, faults, nil
	}
	if at := dataList(body); at >= 0 {
		rows, faults = list(data, start+at)
		return rows, faults, nil
	}
	rows, faults = lines(data)
	return rows, faults, nil
}

// dataList is where the list of {"data": [...]} begins, or -1.
func dataList(body []byte) int {
	decoder := json.NewDecoder(bytes.NewReader(body))
	if token, err := decoder.Token(); err != nil || token != json.Delim('{') {
		return -1
	}
	for decoder.More() {
		key, err := decoder.Token()
		if err != nil {
			return -1
		}
		if key == "data" {
			at := int(decoder.InputOffset())
			at += len(body[at:]) - len(bytes.TrimLeft(body[at:], " \t\r\n:"))
			if at < len(body) && body[at] == '[' {
				return at
			}
			return -1
		}
		var skipped json.RawMessage
		if decoder.Decode(&skipped) != nil {
			return -1
		}
	}
	return -1
}

// list reads the rows of a list that begins at start.
func list(data []byte, start int) (rows []located, faults []Fault) {
	decoder := json.NewDecoder(bytes.NewReader(data[start:]))
	_, err := decoder.Token()
	for err == nil && decoder.More() {
		var text json.RawMessage
		if err = decoder.Decode(&text); err != nil {
			break
		}
		rows = append(rows, located{text, start + int(decoder.InputOffset()) - len(text)})
	}
	if err == nil {
		_, err = decoder.Token() // the end of the list
	}
	if err != nil {
		at := min(start+int(decoder.InputOffset()), len(data))
		at += len(data[at:]) - len(bytes.TrimLeft(data[at:], " \t\r\n,"))
		faults = append(faults, Fault{Row: len(rows) + 1, Line: lineAt(data, at), Text: "no valid JSON: " + err.Error(), Hint: "nothing after it can be read: mend the list there"})
	}
	return rows, faults
}

// lines reads JSON Lines.
func lines(data []byte) (rows []located, faults []Fault) {
	offset, row := 0, 0
	for line := range bytes.Lines(data) {
		text := bytes.TrimSpace(bytes.TrimPrefix(line, []byte("\ufeff")))
		if len(text) > 0 {
			row++
			if json.Valid(text) {
				rows = append(rows, located{text, offset})
			} else {
				faults = append(faults, Fault{Row: row, Line: lineAt(data, offset), Text: "no valid JSON", Hint: "write one JSON object a line, or one list of all"})
			}
		}
		offset += len(line)
	}
	return rows, faults
}
