package main

import (
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"runtime/debug"

	"understudy/audit"
	openai "understudy/envace/serve"
	"understudy/gpu"
	"understudy/gpu/generate"
	"understudy/gpu/tokenizer"
)

// engineFlags say how much the built-in engine may take.
type engineFlags struct {
	deviceFlags
	batch   int
	context int
	kv      mebibytes
	fast    bool
}

func (e *engineFlags) register(fs *flag.FlagSet) {
	e.deviceFlags.register(fs)
	fs.IntVar(&e.batch, "batch", 16, "texts that the built-in engine writes at once")
	fs.IntVar(&e.context, "context", 0, "most tokens of a request to the built-in engine; 0 = what the model was made for")
	e.kv = 512
	fs.Var(&e.kv, "kv-memory", "MiB for the built-in engine's keys and values; a request that cannot fit is refused")
	fs.BoolVar(&e.fast, "fast", false, "let the built-in engine sum in any order: faster, and no longer the same bits alone and in a batch")
}

// engine is a model that is loaded and writes.
type engine struct {
	*generate.Engine
	name   string
	device computer
	model  *gpu.Model
	tokens *tokenizer.Tokenizer
}

// openEngine loads the model of a folder in Hugging Face's layout.
func openEngine(dir string, f engineFlags) (_ *engine, err error) {
	tokens, err := tokenizer.Load(dir)
	if err != nil {
		return nil, modelError(dir, err)
	}
	e := &engine{name: filepath.Base(filepath.Clean(dir)), tokens: tokens}
	if err := e.openDevice(f); err != nil {
		return nil, err
	}
	if e.model, err = gpu.Load(e.device, dir, gpu.LoadConfig{}); err != nil {
		e.device.Close()
		return nil, modelError(dir, err)
	}
	if tokens.Size() > e.model.Vocab {
		return nil, errors.Join(modelError(dir, fmt.Errorf("tokenizer.json has %d tokens, config.json says %d", tokens.Size(), e.model.Vocab)), e.close())
	}
	return e, e.start(f, openai.Tokens(tokens))
}

func (e *engine) openDevice(f engineFlags) (err error) {
	mode := gpu.Exact
	if f.fast {
		mode = gpu.Fast
	}
	e.device, err = f.open(mode)
	return err
}

// start allocates the arena. The program's memory limit is for audits; what the
// engine needs comes on top of it.
func (e *engine) start(f engineFlags, tokens [][]byte) (err error) {
	arena := f.kv.bytes()
	debug.SetMemoryLimit(debug.SetMemoryLimit(-1) + arena + e.weightBytes())
	e.Engine, err = generate.New(e.model, generate.Config{
		Memory: arena, Batch: f.batch, Context: f.context, Tokens: tokens, Workers: max(f.threads, 2),
	})
	if err != nil {
		return errors.Join(&audit.Error{Code: audit.CodeLimit, Message: "start the engine", Hint: "give it more with --kv-memory, or ask for less with --batch and --context", Err: err}, e.close())
	}
	return nil
}

// weightBytes is what the weights take at most, in memory.
func (e *engine) weightBytes() int64 {
	sum := int64(0)
	for _, t := range e.model.Params.Tensors {
		sum += 4 * int64(t.Len)
	}
	return sum
}

func (e *engine) close() error {
	if e.Engine != nil {
		e.Close()
	}
	err := e.model.Close()
	e.device.Close()
	return err
}

func modelError(dir string, err error) error {
	return &audit.Error{
		Code: audit.CodeInvalid, Message: "load the model in " + dir, Err: err,
		Hint: "give a folder with config.json, tokenizer.json and *.safetensors; `make model-smollm2` makes one",
	}
}
