package tau2

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"testing/fstest"

	"go.starlark.net/starlark"

	"understudy/audit"
	"understudy/sandbox/domains"
	engine "understudy/sandbox/starlark"
	"understudy/sandbox/state"
)

// Bundle is one of our domains with tau2-bench's state, tasks and policy, under
// compat mode "tau2".
type Bundle struct {
	Name   string
	Domain *engine.Domain
	Tasks  int

	files fstest.MapFS
}

// Names lists the domains that Import knows.
func Names() []string { return []string{"retail", "airline", "telecom"} }

// Import reads every domain that has a folder in data. Data without any of them,
// or a file that is not what tau2-bench ships, is an *audit.Error.
func Import(ctx context.Context, data fs.FS) ([]*Bundle, error) {
	var bundles []*Bundle
	for _, name := range Names() {
		if _, err := fs.Stat(data, name); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		b, err := importDomain(ctx, data, name)
		if err != nil {
			return nil, &audit.Error{
				Code: audit.CodeInvalid, Message: "import tau2 domain " + name, Err: err,
				Hint: "the folder holds db.json (telecom: db.toml and user_db.toml), tasks.json and policy.md as tau2-bench ships them",
			}
		}
		bundles = append(bundles, b)
	}
	if len(bundles) == 0 {
		return nil, &audit.Error{
			Code: audit.CodeNotFound, Message: fmt.Sprintf("no tau2 data: none of the folders %v is there", Names()),
			Hint: "name the folder that holds them: --data DIR",
		}
	}
	return bundles, nil
}

func importDomain(ctx context.Context, data fs.FS, name string) (*Bundle, error) {
	root, err := readState(data, name)
	if err != nil {
		return nil, err
	}
	b := &Bundle{Name: name, files: fstest.MapFS{}}
	if err := b.copyDomain(); err != nil {
		return nil, err
	}
	b.put("state.json", state.AppendJSON(nil, root))
	policy, err := fs.ReadFile(data, path.Join(name, "policy.md"))
	if err == nil {
		b.put("policy.md", policy)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read %s/policy.md: %w", name, err)
	}
	if b.Domain, err = b.load(); err != nil {
		return nil, err
	}
	tasks, err := readTasks(data, name)
	if err != nil || len(tasks) == 0 {
		return b, err
	}
	converted, err := convertTasks(ctx, b.Domain, tasks)
	if err != nil {
		return nil, err
	}
	b.put("tasks.json", converted)
	b.Tasks = len(tasks)
	b.Domain, err = b.load()
	return b, err
}

func (b *Bundle) put(file string, text []byte) {
	b.files[path.Join(b.Name, file)] = &fstest.MapFile{Data: text}
}

func (b *Bundle) load() (*engine.Domain, error) {
	return engine.Load(b.files, b.Name, engine.Options{Compat: engine.CompatTau2})
}

// Write stores the bundle as a domain folder below dir, from where the engine
// loads it like any other domain.
func (b *Bundle) Write(dir string) error {
	for name, f := range b.files {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return fmt.Errorf("write domain %s: %w", b.Name, err)
		}
		if err := os.WriteFile(file, f.Data, 0o644); err != nil {
			return fmt.Errorf("write domain %s: %w", b.Name, err)
		}
	}
	return nil
}

// readState reads a domain's databases in the reference's shape.
func readState(data fs.FS, name string) (starlark.Value, error) {
	if name == "telecom" {
		agent, err := readTable(data, "telecom/db.toml", decodeTOML)
		if err != nil {
			return nil, err
		}
		user, err := readTable(data, "telecom/user_db.toml", decodeTOML)
		if err != nil {
			return nil, err
		}
		return telecomModel().load(state.NewObject([]string{"agent", "user"}, []starlark.Value{agent, user}), "")
	}
	db, err := readTable(data, name+"/db.json", state.Decode)
	if err != nil {
		return nil, err
	}
	if name == "retail" {
		return retailModel().load(db, "")
	}
	return airlineModel().load(withUserIDs(db), "")
}

func readTable(data fs.FS, file string, decode func([]byte) (starlark.Value, error)) (starlark.Value, error) {
	text, err := fs.ReadFile(data, file)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	v, err := decode(text)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	return v, nil
}

// withUserIDs adds the user_id that older airline data lacks: the key of the user.
func withUserIDs(db starlark.Value) starlark.Value {
	root, ok := db.(*state.Object)
	if !ok {
		return db
	}
	users, ok := root.Get("users").(*state.Object)
	if !ok {
		return db
	}
	users = mapMembers(users, func(id string, v starlark.Value) starlark.Value {
		user, ok := v.(*state.Object)
		if !ok || user.Get("user_id") != nil {
			return v
		}
		keys, vals := []string{"user_id"}, []starlark.Value{starlark.String(id)}
		user.Each(func(key string, v starlark.Value) bool {
			keys, vals = append(keys, key), append(vals, v)
			return true
		})
		return state.NewObject(keys, vals)
	})
	return mapMembers(root, func(key string, v starlark.Value) starlark.Value {
		if key == "users" {
			return users
		}
		return v
	})
}

func mapMembers(o *state.Object, f func(string, starlark.Value) starlark.Value) *state.Object {
	var keys []string
	var vals []starlark.Value
	o.Each(func(key string, v starlark.Value) bool {
		keys, vals = append(keys, key), append(vals, f(key, v))
		return true
	})
	return state.NewObject(keys, vals)
}

// copyDomain copies our domain's own files.
func (b *Bundle) copyDomain() error {
	entries, err := fs.ReadDir(domains.FS(), b.Name)
	if err != nil {
		return fmt.Errorf("read domain %s: %w", b.Name, err)
	}
	for _, e := range entries {
		text, err := fs.ReadFile(domains.FS(), path.Join(b.Name, e.Name()))
		if err != nil {
			return fmt.Errorf("read domain %s: %w", b.Name, err)
		}
		b.put(e.Name(), text)
	}
	return nil
}
