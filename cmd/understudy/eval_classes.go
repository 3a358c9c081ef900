package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"understudy/audit"
	"understudy/envace/eval"
	"understudy/sandbox/pyclass"
)

// questionFile is a file of tasks with its file of answers.
type questionFile struct{ name, questions, answers string }

// questionFiles finds files of tasks by a pattern of their names, each with the file
// of the same name in a folder possible_answer.
func questionFiles(dir, pattern string) ([]questionFile, error) {
	var out []questionFile
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Base(filepath.Dir(path)) == "possible_answer" {
			return err
		}
		if ok, _ := filepath.Match(pattern, d.Name()); !ok { // a constant pattern
			return nil
		}
		answers := filepath.Join(filepath.Dir(path), "possible_answer", d.Name())
		if _, err := os.Stat(answers); err == nil {
			out = append(out, questionFile{d.Name(), path, answers})
		}
		return nil
	})
	if err != nil {
		return nil, &audit.Error{Code: audit.CodeInvalid, Message: "look through " + dir, Err: err, Hint: "name the benchmark's folder with --data"}
	}
	if len(out) == 0 {
		return nil, &audit.Error{Code: audit.CodeNotFound, Message: fmt.Sprintf("%s has no file %s with one of the same name in possible_answer", dir, pattern), Hint: "name the folder of the benchmark as it is published, with --data"}
	}
	return out, nil
}

// readTasks reads the tasks of a file as its publisher writes them.
func readTasks[T any](q questionFile, publisher string, read func(questions, answers []byte) ([]T, error)) ([]T, error) {
	questions, err := os.ReadFile(q.questions)
	var answers []byte
	if err == nil {
		answers, err = os.ReadFile(q.answers)
	}
	var tasks []T
	if err == nil {
		tasks, err = read(questions, answers)
	}
	if err != nil {
		return nil, &audit.Error{Code: audit.CodeInvalid, Message: "read " + q.questions, Err: err, Hint: "give the files as " + publisher + " ships them"}
	}
	return tasks, nil
}

// pythonClass is a class of a benchmark where it was found.
type pythonClass struct {
	file    string
	methods []string // that its file defines
}

// pythonClasses finds every class of the Python files below a folder.
func pythonClasses(dir string) (map[string][]pythonClass, error) {
	class, method := regexp.MustCompile(`(?m)^class (\w+)`), regexp.MustCompile(`(?m)^    def ([A-Za-z]\w*)\(`)
	out := map[string][]pythonClass{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".py" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		starts := class.FindAllSubmatchIndex(text, -1)
		for i, m := range starts {
			end := len(text)
			if i+1 < len(starts) {
				end = starts[i+1][0]
			}
			c := pythonClass{file: path}
			for _, def := range method.FindAllSubmatch(text[m[0]:end], -1) {
				c.methods = append(c.methods, string(def[1]))
			}
			name := string(text[m[2]:m[3]])
			out[name] = append(out[name], c)
		}
		return nil
	})
	if err != nil {
		return nil, &audit.Error{Code: audit.CodeInvalid, Message: "look for Python classes in " + dir, Err: err, Hint: "name their folder with --classes"}
	}
	return out, nil
}

// worlds opens one environment for each set of classes that tasks need.
type worlds struct {
	e       *evaluation
	kind    pyclass.Kind
	classes map[string][]pythonClass
	tools   func(classes []string) ([]audit.Tool, error)
	open    map[string]*pyclass.Environment
}

func (e *evaluation) newWorlds(kind pyclass.Kind) (*worlds, error) {
	classes, err := pythonClasses(cmp.Or(e.flags.classes, e.flags.data))
	return &worlds{e: e, kind: kind, classes: classes, open: map[string]*pyclass.Environment{}}, err
}

// find is where a class is; in no place, or in several, it is an error.
func (w *worlds) find(class string) (pythonClass, error) {
	switch found := w.classes[class]; len(found) {
	case 1:
		return found[0], nil
	case 0:
		return pythonClass{}, &audit.Error{Code: audit.CodeNotFound, Message: "no Python file has the class " + class, Hint: "name the folder with the benchmark's classes: --classes DIR"}
	default:
		return pythonClass{}, &audit.Error{
			Code: audit.CodeInvalid, Message: fmt.Sprintf("class %s is in %s and in %s", class, found[0].file, found[1].file),
			Hint: "narrow down where to look: --classes DIR",
		}
	}
}

// of is the environment of a set of classes.
func (w *worlds) of(ctx context.Context, classes []string) (*pyclass.Environment, []audit.Tool, error) {
	tools, err := w.tools(classes)
	if err != nil {
		return nil, nil, err
	}
	key := strings.Join(classes, "+")
	if env := w.open[key]; env != nil {
		return env, tools, nil
	}
	spec := pyclass.Spec{Name: key, Kind: w.kind, Tools: tools}
	taken := map[string]bool{}
	for _, name := range classes {
		found, err := w.find(name)
		if err != nil {
			return nil, nil, err
		}
		class := pyclass.Class{Name: name, File: found.file}
		for _, t := range tools {
			if slices.Contains(found.methods, t.Name) && !taken[t.Name] {
				class.Tools, taken[t.Name] = append(class.Tools, t.Name), true
			}
		}
		spec.Classes = append(spec.Classes, class)
		spec.Path = append(spec.Path, importRoots(found.file)...)
	}
	spec.Path = slices.Compact(slices.Sorted(slices.Values(spec.Path)))
	env, err := pyclass.New(ctx, spec)
	if err != nil {
		return nil, nil, fmt.Errorf("classes %s: %w", key, err)
	}
	w.e.opened = append(w.e.opened, env.Close)
	w.open[key] = env
	return env, tools, nil
}

// importRoots are the folders from which a file's package, and its siblings, are imported.
func importRoots(file string) []string {
	dir, err := filepath.Abs(filepath.Dir(file))
	if err != nil {
		return nil
	}
	roots := []string{dir}
	for {
		if _, err := os.Stat(filepath.Join(dir, "__init__.py")); err != nil {
			return append(roots, dir)
		}
		dir = filepath.Dir(dir)
	}
}

// digest is of all worlds that were opened.
func (w *worlds) digest() audit.Digest {
	var all bytes.Buffer
	for _, key := range slices.Sorted(maps.Keys(w.open)) {
		digest := w.open[key].Info().Digest
		all.Write(digest[:])
	}
	return sha256.Sum256(all.Bytes())
}

func (e *evaluation) openBFCL(ctx context.Context, name, category string, rules *audit.Rules) (benchmark, error) {
	b := benchmark{name: name, column: eval.BFCL, notes: "multi-turn alone, of BFCL v4's parts"}
	files, err := questionFiles(e.flags.data, "BFCL_*multi_turn_*.json")
	if err != nil {
		return b, err
	}
	w, err := e.newWorlds(pyclass.BFCL)
	if err != nil {
		return b, err
	}
	functions, err := e.bfclFunctions(w.classes)
	if err != nil {
		return b, err
	}
	w.tools = func(classes []string) (tools []audit.Tool, err error) {
		for _, class := range classes {
			for _, f := range functions[class] {
				tool, err := f.Tool()
				if err != nil {
					return nil, err
				}
				tools = append(tools, tool)
			}
		}
		return tools, nil
	}
	for _, file := range files {
		filled := strings.Contains(file.name, "long_context") || strings.Contains(file.name, "composite")
		if filled && category == "" {
			b.notes += "; without " + file.name + ", whose worlds are filled up by BFCL's own code"
			continue
		}
		if !strings.Contains(file.name, "multi_turn_"+category) {
			continue
		}
		conversations, err := readTasks(file, "bfcl_eval", func(questions, answers []byte) ([]eval.Conversation, error) {
			return eval.ReadBFCL(questions, answers, functions)
		})
		if err != nil {
			return b, err
		}
		for _, c := range conversations {
			env, tools, err := w.of(ctx, c.Classes)
			if err != nil {
				return b, fmt.Errorf("task %s: %w", c.ID, err)
			}
			b.tasks = append(b.tasks, c.Task(env, tools, rules))
		}
	}
	b.environment = w.digest()
	return b, nil
}

// bfclFunctions are the functions of each class: they are described in a file that is
// named like the class's Python file.
func (e *evaluation) bfclFunctions(classes map[string][]pythonClass) (map[string][]eval.Function, error) {
	described := map[string][]eval.Function{}
	err := filepath.WalkDir(e.flags.data, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Base(filepath.Dir(path)) != "multi_turn_func_doc" || filepath.Ext(path) != ".json" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		decoder := json.NewDecoder(bytes.NewReader(text))
		for decoder.More() {
			var f eval.Function
			if err := decoder.Decode(&f); err != nil {
				return fmt.Errorf("read %s: %w", path, err)
			}
			stem := strings.TrimSuffix(d.Name(), ".json")
			described[stem] = append(described[stem], f)
		}
		return nil
	})
	if err != nil {
		return nil, &audit.Error{Code: audit.CodeInvalid, Message: "read the functions", Err: err, Hint: "they are in a folder multi_turn_func_doc of --data"}
	}
	out := map[string][]eval.Function{}
	for class, found := range classes {
		for _, c := range found {
			if list := described[strings.TrimSuffix(filepath.Base(c.file), ".py")]; list != nil {
				out[class] = list
			}
		}
	}
	return out, nil
}

func (e *evaluation) openACE(ctx context.Context, name, part string, rules *audit.Rules) (benchmark, error) {
	b := benchmark{name: name, column: eval.ACE}
	files, err := questionFiles(e.flags.data, "data_agent_*"+part+"*.json")
	if err != nil {
		return b, err
	}
	w, err := e.newWorlds(pyclass.ACEBench)
	if err != nil {
		return b, err
	}
	user, err := e.another(e.flags.user)
	if err != nil {
		return b, err
	}
	var talker *eval.Talker
	if user != nil {
		talker = &eval.Talker{Ask: user, Temperature: e.flags.policy.temperature}
	} else {
		b.notes = "nobody plays the user: the scenario is the prompt"
	}
	var all []eval.AgentTask
	byName := map[string]audit.Tool{}
	for _, file := range files {
		tasks, err := readTasks(file, "ACEBench", eval.ReadACE)
		if err != nil {
			return b, err
		}
		for _, t := range tasks {
			for _, tool := range t.Tools {
				byName[tool.Name] = tool
			}
		}
		all = append(all, tasks...)
	}
	w.tools = func(classes []string) ([]audit.Tool, error) {
		var tools []audit.Tool
		for _, name := range slices.Sorted(maps.Keys(byName)) {
			if slices.ContainsFunc(classes, func(class string) bool {
				return slices.ContainsFunc(w.classes[class], func(c pythonClass) bool { return slices.Contains(c.methods, name) })
			}) {
				tools = append(tools, byName[name])
			}
		}
		return tools, nil
	}
	for _, t := range all {
		env, _, err := w.of(ctx, t.Classes)
		if err != nil {
			return b, fmt.Errorf("task %s: %w", t.ID, err)
		}
		b.tasks = append(b.tasks, t.Task(env, talker, rules))
	}
	b.environment = w.digest()
	return b, nil
}
