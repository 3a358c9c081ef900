package train_test

import (
	"bytes"
	"context"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"understudy/audit"
	"understudy/envace"
	"understudy/envace/train"
)

// A rollout survives its travel bit for bit, and garbage is refused.
func TestWire(t *testing.T) {
	t.Parallel()
	c, r := quick(t)
	trajectories, err := train.Sampled(t.Context(), c, r, 3)
	if err != nil {
		t.Fatal(err)
	}
	for _, trajectory := range trajectories {
		packed, again, err := train.Travel(trajectory, c.Format)
		if err != nil {
			t.Fatal(err)
		}
		a, b := trajectory.Outputs(), again.Outputs()
		if len(a) == 0 || len(a) != len(b) || trajectory.Stop != again.Stop {
			t.Fatalf("%d outputs became %d, %s became %s", len(a), len(b), trajectory.Stop, again.Stop)
		}
		for i := range a {
			if !equalOutputs(*a[i], *b[i]) {
				t.Errorf("output %d: %+v became %+v", i, *a[i], *b[i])
			}
		}
		for i, call := range trajectory.Calls() {
			other := again.Calls()[i]
			if call.Call.Tool != other.Call.Tool || !bytes.Equal(call.Call.Arguments, other.Call.Arguments) || !bytes.Equal(call.Raw, other.Raw) {
				t.Errorf("call %d: %+v became %+v", i, call, other)
			}
		}
		if _, _, err := train.Unpack(packed[:len(packed)/2], c.Format); err == nil {
			t.Error("half a rollout was read")
		}
	}
}

// toolNames is a format whose ACT outputs are names of tools.
type toolNames struct{ envace.Format }

func (toolNames) ReadAct(o envace.Output) envace.Act {
	act := envace.Act{Output: o}
	for name := range strings.FieldsSeq(o.Text) {
		act.Calls = append(act.Calls, audit.Call{Tool: name})
	}
	return act
}

func (toolNames) ReadRehearsal(o envace.Output) envace.Rehearsed { return envace.Rehearsed{Output: o} }

// What was dropped elsewhere is dropped here, too.
func TestWireKeepsWhatWasDropped(t *testing.T) {
	t.Parallel()
	_, again, err := train.Travel(rehearsed(), toolNames{})
	if err != nil {
		t.Fatal(err)
	}
	var made []string
	for _, answer := range again.Calls() {
		made = append(made, answer.Call.Tool)
	}
	if !slices.Equal(made, []string{"a", "c"}) {
		t.Errorf("after its travel the rollout made %v", made)
	}
}

// shelf is a farm that keeps one text, whatever is asked for.
type shelf struct {
	train.Farm
	text string
}

func (s shelf) Get(_ context.Context, _ string, into io.Writer) error {
	_, err := io.WriteString(into, s.text)
	return err
}

// Weights whose list names files elsewhere are not fetched.
func TestWeightsStayInTheirFolder(t *testing.T) {
	t.Parallel()
	for _, list := range []string{`{"..":{"x":"00"}}`, `{"policy":{"../../x":"00"}}`, `{"policy":{"/tmp/x":"00"}}`, `{"policy":{"..":"00"}}`} {
		dir := t.TempDir()
		if folder, err := train.Fetched(t.Context(), shelf{text: list}, dir); err == nil || !strings.Contains(err.Error(), "outside of its folder") {
			t.Errorf("%s: fetched into %q, %v", list, folder, err)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("%s: left behind %v, %v", list, left, err)
		}
	}
	folder, err := train.Fetched(t.Context(), shelf{text: `{"policy":{"config.json":"00"}}`}, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(folder + "/policy/config.json"); err != nil {
		t.Error(err)
	}
}

func equalOutputs(a, b envace.Output) bool {
	return a.Role == b.Role && a.Text == b.Text && a.Truncated == b.Truncated && slices.Equal(a.Prompt, b.Prompt) && slices.Equal(a.Tokens, b.Tokens) && slices.Equal(a.LogProbs, b.LogProbs)
}
