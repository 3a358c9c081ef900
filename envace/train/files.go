package train

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"path/filepath"
	"time"

	"understudy/audit"
	"understudy/audit/atomicfile"
)

// metricsFile holds one metric a line.
const metricsFile = "metrics.jsonl"

// Lines writes metrics as JSON Lines into a run's folder. What an earlier run wrote
// after step is dropped: it is done again.
func Lines(folder string, step int) (Sink, error) {
	path := filepath.Join(folder, metricsFile)
	kept, err := keptLines(path, int64(step))
	if err != nil {
		return nil, err
	}
	text, err := linesOf(kept)
	if err != nil {
		return nil, err
	}
	if err := atomicfile.Write(path, text, 0o644); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open the metrics: %w", err)
	}
	return &lines{file}, nil
}

func keptLines(path string, step int64) ([]audit.Metric, error) {
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the metrics: %w", err)
	}
	var kept []audit.Metric
	scanner := bufio.NewScanner(file)
	for scanner.Scan() {
		var m audit.Metric
		if json.Unmarshal(scanner.Bytes(), &m) == nil && m.Step <= step { // the last line may be cut
			kept = append(kept, m)
		}
	}
	return kept, errors.Join(scanner.Err(), file.Close())
}

// TrainedTokens is how many tokens carried loss in the steps that a run's folder
// tells of.
func TrainedTokens(folder string) (int, error) {
	metrics, err := keptLines(filepath.Join(folder, metricsFile), math.MaxInt64)
	tokens := 0.0
	for _, m := range metrics {
		if m.Name == metricTokens {
			tokens += m.Value
		}
	}
	return int(tokens), err
}

func linesOf(metrics []audit.Metric) ([]byte, error) {
	var text []byte
	for _, m := range metrics {
		line, err := json.Marshal(m)
		if err != nil {
			return nil, fmt.Errorf("encode metric %s: %w", m.Name, err)
		}
		text = append(append(text, line...), '\n')
	}
	return text, nil
}

type lines struct{ file *os.File }

// Write implements Sink.
func (l *lines) Write(metrics []audit.Metric) error {
	text, err := linesOf(metrics)
	if err != nil {
		return err
	}
	if _, err := l.file.Write(text); err != nil {
		return fmt.Errorf("write the metrics: %w", err)
	}
	return nil
}

// Close implements Sink.
func (l *lines) Close() error { return l.file.Close() }

// Events writes metrics as a TensorBoard event file: TFRecords of Event messages,
// each with one scalar Summary.
func Events(folder string, now func() time.Time) (Sink, error) {
	name := fmt.Sprintf("events.out.tfevents.%010d.understudy", now().Unix())
	file, err := os.OpenFile(filepath.Join(folder, name), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open the event file: %w", err)
	}
	e := &events{file: file, now: now}
	// Event{wall_time, file_version}
	first := append(protoDouble(nil, 1, e.seconds()), protoBytes(3, []byte("brain.Event:2"))...)
	if _, err := file.Write(tfRecord(first)); err != nil {
		return nil, errors.Join(fmt.Errorf("begin the event file: %w", err), file.Close())
	}
	return e, nil
}

type events struct {
	file *os.File
	now  func() time.Time
}

func (e *events) seconds() float64 { return float64(e.now().UnixMilli()) / 1000 }

// Write implements Sink.
func (e *events) Write(metrics []audit.Metric) error {
	var text []byte
	for _, m := range metrics {
		tag := m.Name
		if m.Role != audit.WholePolicy {
			tag = string(m.Role) + "/" + m.Name
		}
		// Event{wall_time=1, step=2, summary=5{value=1{tag=1, simple_value=2}}}
		value := append(protoBytes(1, []byte(tag)), protoFloat(nil, 2, float32(m.Value))...)
		event := protoVarint(protoDouble(nil, 1, e.seconds()), 2, uint64(m.Step))
		event = append(event, protoBytes(5, protoBytes(1, value))...)
		text = append(text, tfRecord(event)...)
	}
	if _, err := e.file.Write(text); err != nil {
		return fmt.Errorf("write the event file: %w", err)
	}
	return nil
}

// Close implements Sink.
func (e *events) Close() error { return e.file.Close() }

// tfRecord frames data: length, its masked CRC-32C, data, its masked CRC-32C.
func tfRecord(data []byte) []byte {
	record := binary.LittleEndian.AppendUint64(nil, uint64(len(data)))
	record = binary.LittleEndian.AppendUint32(record, maskedCRC(record))
	record = append(record, data...)
	return binary.LittleEndian.AppendUint32(record, maskedCRC(data))
}

func maskedCRC(data []byte) uint32 {
	crc := crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli))
	return (crc>>15 | crc<<17) + 0xa282ead8
}

// The wire types of protocol buffers that an event needs.
func protoVarint(b []byte, field int, v uint64) []byte {
	return binary.AppendUvarint(append(b, byte(field<<3)), v)
}

func protoDouble(b []byte, field int, v float64) []byte {
	return binary.LittleEndian.AppendUint64(append(b, byte(field<<3|1)), math.Float64bits(v))
}

func protoBytes(field int, v []byte) []byte {
	return append(binary.AppendUvarint([]byte{byte(field<<3 | 2)}, uint64(len(v))), v...)
}

func protoFloat(b []byte, field int, v float32) []byte {
	return binary.LittleEndian.AppendUint32(append(b, byte(field<<3|5)), math.Float32bits(v))
}
