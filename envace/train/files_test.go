package train_test

import (
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"understudy/audit"
	"understudy/envace/train"
)

func TestLinesDropWhatIsDoneAgain(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	write := func(step int, steps ...int64) {
		sink, err := train.Lines(folder, step)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range steps {
			if err := sink.Write([]audit.Metric{{Name: "reward", Step: s, Value: .5}}); err != nil {
				t.Fatal(err)
			}
		}
		if err := sink.Close(); err != nil {
			t.Fatal(err)
		}
	}
	write(0, 1, 2, 3)
	path := filepath.Join(folder, "metrics.jsonl")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append(text, `{"name":"rew`...), 0o600); err != nil { // killed while writing
		t.Fatal(err)
	}
	write(2, 3)
	if text, err = os.ReadFile(path); err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(string(text), "\n"); got != 3 || strings.Count(string(text), `"step":3`) != 1 || strings.Contains(string(text), `"rew"`) {
		t.Errorf("%d lines:\n%s", got, text)
	}
}

func TestDamagedEvaluationsAreNamed(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "evaluations.jsonl")
	if err := os.WriteFile(path, []byte("{\"step\":0}\n\x00\x00\n{\"step\":2}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := train.ReadEvaluations(path)
	if audit.ErrorCode(err) != audit.CodeInvalid || !strings.Contains(err.Error(), path+":2") || audit.ErrorHint(err) == "" {
		t.Errorf("a damaged line: %v", err)
	}
}

// The bytes are those that TensorBoard's own writer makes of the same event.
func TestEvents(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	sink, err := train.Events(folder, func() time.Time { return time.Unix(1000, 0) })
	if err != nil {
		t.Fatal(err)
	}
	if err := sink.Write([]audit.Metric{{Name: "fsr", Role: audit.RehearseRole, Step: 300, Value: .25}}); err != nil {
		t.Fatal(err)
	}
	if err := sink.Close(); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(folder, "events.out.tfevents.0000001000.understudy"))
	if err != nil {
		t.Fatal(err)
	}
	// tensorboard 2.x: RecordWriter, Event(wall_time=1000, file_version=...), Event(step=300, summary=...).
	const want = "1800000000000000a37f4b22090000000000408f401a0d627261696e2e4576656e743a3273ae6b56" +
		"2300000000000000b09f7743090000000000408f4010ac022a150a130a0c72656865617273652f667372150000803ef33695c5"
	if hex.EncodeToString(got) != want {
		t.Errorf("got  %x\nwant %s", got, want)
	}
}

// A KL that was not measured is no KL of 0.
func TestKLIsMeasuredOrAbsent(t *testing.T) {
	t.Parallel()
	for _, anchored := range []bool{false, true} {
		told := slices.ContainsFunc(train.UpdateMetrics(anchored), func(m audit.Metric) bool { return m.Name == "kl" })
		if told != anchored {
			t.Errorf("with a reference policy: %v; kl among the metrics: %v", anchored, told)
		}
	}
}
