package train

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"understudy/audit"
	"understudy/audit/atomicfile"
	"understudy/gpu"
)

// state is what a checkpoint holds beside parameters and moments.
type state struct {
	Step   int    `json:"step"`
	Cursor int    `json:"cursor"`
	Recipe string `json:"recipe"` // digest
	Arm    Arm    `json:"arm"`
	Seed   uint64 `json:"seed"`
	// Rules are those that answers were read by, where somebody wrote some.
	Rules audit.Digest `json:"rules,omitzero"`
}

const (
	stateFile  = "state.json"
	stepPrefix = "step-"
)

// setName is the folder of a parameter set in a checkpoint.
func setName(set audit.PolicyRole) string {
	if set == audit.WholePolicy {
		return "policy"
	}
	return string(set)
}

// stepName is the folder of the checkpoint after a step.
func stepName(step int) string { return fmt.Sprintf("%s%06d", stepPrefix, step) }

func optimizerFile(set audit.PolicyRole) string { return setName(set) + ".optimizer.safetensors" }

// Save writes a checkpoint of the run into folder, whole or not at all.
func (t *Trainer) Save(folder string) error {
	digest, err := t.Recipe.Digest()
	if err != nil {
		return err
	}
	path := filepath.Join(folder, stepName(t.step))
	err = atomicfile.Folder(path, func(partial string) error {
		for _, l := range t.learners {
			if err := l.model.Save(filepath.Join(partial, setName(l.set)), gpu.F32); err != nil {
				return err
			}
			if err := l.optimizer.Save(filepath.Join(partial, optimizerFile(l.set))); err != nil {
				return err
			}
		}
		return writeJSON(filepath.Join(partial, stateFile), state{t.step, t.cursor, digest.String(), t.Arm, t.Seed, t.Rules.Written()})
	})
	if err != nil {
		return &audit.Error{
			Code: audit.CodeInfrastructure, Message: fmt.Sprintf("save the checkpoint of step %d", t.step), Err: err,
			Hint: "make room on the disk, or give the folder back its rights: the same command goes on from the checkpoint before",
		}
	}
	return nil
}

// latest is the newest complete checkpoint of a run, or "" when there is none. One
// of another recipe, arm or seed is an error that says how to go on.
func latest(folder string, want state) (string, state, error) {
	entries, err := os.ReadDir(folder)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", state{}, fmt.Errorf("look for checkpoints: %w", err)
	}
	last := 0
	for _, entry := range entries { // copies under other names, and partial ones, are none
		number, ok := strings.CutPrefix(entry.Name(), stepPrefix)
		if step, err := strconv.Atoi(number); ok && err == nil && entry.Name() == stepName(step) {
			last = max(last, step)
		}
	}
	if last == 0 {
		return "", state{}, nil
	}
	path := filepath.Join(folder, stepName(last))
	var found state
	if err := readJSON(filepath.Join(path, stateFile), &found); err != nil {
		return "", found, err
	}
	if found.Step != last || found.Cursor < 0 {
		return "", found, damaged(path, fmt.Errorf("%s says step %d, cursor %d", stateFile, found.Step, found.Cursor))
	}
	if found.Recipe != want.Recipe || found.Arm != want.Arm || found.Seed != want.Seed {
		return "", found, &audit.Error{
			Code: audit.CodeConflict, Message: fmt.Sprintf("%s is a checkpoint of arm %s, seed %d, and of another recipe or run", path, found.Arm, found.Seed),
			Hint: "give another --out folder, or delete this one",
		}
	}
	return path, found, nil
}

// sameRules is an *audit.Error unless what was made before read answers as the rules of
// this training do: rewards and figures of two readings are no one run.
func (c Config) sameRules(what string, found audit.Digest) error {
	if found == c.Rules.Written() {
		return nil
	}
	return &audit.Error{
		Code: audit.CodeConflict, Message: fmt.Sprintf("%s is of answers that were read by %s, and now they would be by %s", what, audit.RulesName(found), audit.RulesName(c.Rules.Written())),
		Hint: "give the same --rules and --path-policy to go on with it, or another --out folder",
	}
}

// damaged is a checkpoint, or a warm start, that cannot be read.
func damaged(path string, err error) error {
	return &audit.Error{
		Code: audit.CodeInvalid, Message: "go on from " + path, Err: err,
		Hint: "if it is damaged, delete that folder: a run goes on from the checkpoint before, a warm start is made again",
	}
}

// restore takes the moments and the place in the run from a checkpoint whose
// parameters the learners were loaded from.
func (t *Trainer) restore(path string, s state) error {
	for _, l := range t.learners {
		if err := l.optimizer.Restore(filepath.Join(path, optimizerFile(l.set))); err != nil {
			return damaged(path, err)
		}
	}
	t.step, t.cursor = s.Step, s.Cursor
	return nil
}

func writeJSON(path string, value any) error {
	text, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return fmt.Errorf("encode %s: %w", path, err)
	}
	return atomicfile.Write(path, append(text, '\n'), 0o644)
}

func readJSON(path string, into any) error {
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		return &audit.Error{Code: audit.CodeInvalid, Message: "read " + path, Err: err, Hint: "the file is damaged: delete its folder to go on from the one before"}
	}
	return nil
}
