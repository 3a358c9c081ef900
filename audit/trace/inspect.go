package trace

import (
	"archive/zip"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"

	"understudy/audit"
)

// zipMagic starts an Inspect log.
const zipMagic = "PK\x03\x04"

// maxRatio bounds decompression: an entry that claims to unpack to more than
// this many times its size is a bomb, not a log.
const maxRatio = 1000

// inspectSample is one sample of an Inspect .eval log (facts: protocols 5).
type inspectSample struct {
	ID          json.RawMessage            `json:"id"`
	Epoch       int                        `json:"epoch"`
	Events      []inspectEvent             `json:"events"`
	Attachments map[string]json.RawMessage `json:"attachments"`
	Output      struct {
		Model string `json:"model"`
	} `json:"output"`

	budget int // bytes that resolving attachments may still read and write
}

type inspectEvent struct {
	Event     string          `json:"event"`
	ID        string          `json:"id"`
	Function  string          `json:"function"`
	Arguments json.RawMessage `json:"arguments"`
	Result    json.RawMessage `json:"result"`
	Truncated json.RawMessage `json:"truncated"`
	Failed    *bool           `json:"failed"`
	Error     *struct {
		Type    string `json:"type"`
		Message string `json:"message"`
	} `json:"error"`
}

// importInspect reads an Inspect log: a zip with one JSON file a sample, whose
// entries may be compressed with zstd (Inspect 0.3.206 and later).
func importInspect(file *os.File, s *sink) error {
	s.format = formatInspect
	info, err := file.Stat()
	if err != nil {
		return err
	}
	archive, err := zip.NewReader(file, info.Size())
	if err != nil {
		return &audit.Error{
			Code: audit.CodeInvalid, Message: "read zip " + s.file,
			Hint: "the file is cut off or no Inspect log; export it again", Err: err,
		}
	}
	archive.RegisterDecompressor(zstd.ZipMethodWinZip, zstd.ZipDecompressor(zstd.WithDecoderMaxMemory(uint64(s.opts.MaxRecord))))
	names := make([]*zip.File, 0, len(archive.File))
	for _, entry := range archive.File {
		if strings.HasPrefix(entry.Name, "samples/") && strings.HasSuffix(entry.Name, ".json") {
			names = append(names, entry)
		}
	}
	if len(names) == 0 {
		return unknownFormat("", s.file)
	}
	slices.SortFunc(names, func(a, b *zip.File) int { return strings.Compare(a.Name, b.Name) })
	for _, entry := range names {
		body, err := readEntry(entry, s.opts.MaxRecord)
		if err != nil {
			s.skip(fmt.Sprintf("sample that cannot be read: %v", err), 1, 0)
			continue
		}
		readInspectSample(body, s)
		if s.err != nil {
			return s.err
		}
	}
	return nil
}

func readEntry(entry *zip.File, limit int) ([]byte, error) {
	if entry.UncompressedSize64 > uint64(limit) || entry.UncompressedSize64 > maxRatio*max(entry.CompressedSize64, 1) {
		return nil, errors.New("larger than the limit when unpacked")
	}
	in, err := entry.Open()
	if err != nil {
		return nil, err
	}
	defer func() { _ = in.Close() }()
	body, err := io.ReadAll(io.LimitReader(in, int64(limit)+1))
	if err == nil && len(body) > limit {
		err = errors.New("larger than the limit when unpacked")
	}
	return body, err
}

func readInspectSample(body []byte, s *sink) {
	sample := inspectSample{budget: 2 * s.opts.MaxRecord}
	if err := json.Unmarshal(body, &sample); err != nil {
		s.skip(reasonTruncated, 1, 0)
		return
	}
	id := identifier(sample.ID)
	t := trajectory{id: rollout(id, sample.Epoch), group: id, policy: sample.Output.Model}
	for _, event := range sample.Events {
		if event.Event == "tool" {
			t.call(sample.exchange(event))
		}
	}
	s.emit(t)
}

func (sample *inspectSample) exchange(event inspectEvent) exchange {
	e := exchange{
		id: event.ID, tool: event.Function, arguments: sample.resolve(event.Arguments),
		answer: content(sample.resolve(event.Result)), answered: event.Result != nil, failed: event.Failed,
		truncated: len(event.Truncated) > 0 && string(event.Truncated) != "null",
	}
	if event.Error != nil {
		failed := true
		e.failed, e.answered = &failed, true
		e.answer = []byte("Error: " + cmp.Or(event.Error.Message, event.Error.Type))
	}
	return e
}

// resolve replaces "attachment://id" strings, at any depth, by what they name. A
// sample that names its attachments so often that it becomes a bomb keeps the
// names from there on.
func (sample *inspectSample) resolve(raw json.RawMessage) json.RawMessage {
	const scheme = "attachment://"
	if sample.budget -= len(raw); sample.budget < 0 || len(sample.Attachments) == 0 || !bytes.Contains(raw, []byte(scheme)) {
		return raw
	}
	if id, ok := strings.CutPrefix(text(raw), scheme); ok {
		if attached, found := sample.Attachments[id]; found && len(attached) <= sample.budget {
			sample.budget -= len(attached)
			return attached
		}
		return raw
	}
	var object map[string]json.RawMessage
	if json.Unmarshal(raw, &object) == nil {
		for key, value := range object {
			object[key] = sample.resolve(value)
		}
		return reencode(object, raw)
	}
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) == nil {
		for i, value := range list {
			list[i] = sample.resolve(value)
		}
		return reencode(list, raw)
	}
	return raw
}

func reencode(value any, original json.RawMessage) json.RawMessage {
	if encoded, err := json.Marshal(value); err == nil {
		return encoded
	}
	return original
}
