package audit

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"understudy/audit/diff"
)

// Rules are everything that judging depends on beside the two answers: the
// envelope tables, the path policy, echo maps, learned noise and known defects.
// Their digest stands in every key and every verdict. Rules are read-only once
// built and safe for concurrent use.
type Rules struct {
	spec   RulesSpec
	paths  *diff.Policy
	noise  *Noise
	limits diff.Limits
	digest Digest
	masks  map[string]*diff.Rules // of tools with learned noise: their path rules without it
	common *ToolRules             // for tools without rules of their own
	tools  map[string]*ToolRules

	surrogateCount atomic.Int64
	surrogates     sync.Map // tool and patterns → *diff.Rules: path rules with the ids that a call created
}

// RulesSpec is the written form of Rules, beside the path policy: a YAML file of
// a domain, or Go. The zero value judges by the defaults.
type RulesSpec struct {
	Version string              `yaml:"version" json:"version"`
	Format  RehearsalFormat     `yaml:"format,omitempty" json:"format,omitempty"`
	Tools   map[string]ToolSpec `yaml:"tools,omitempty" json:"tools,omitempty"` // "*" = every tool
	Defects []Defect            `yaml:"defects,omitempty" json:"defects,omitempty"`
}

// ToolSpec is what a tool's answers look like. What is left out comes from "*",
// then from the defaults.
type ToolSpec struct {
	Envelopes []Envelope        `yaml:"envelopes,omitempty" json:"envelopes,omitempty"` // nil = every known one
	Fields    []FieldEnvelope   `yaml:"fields,omitempty" json:"fields,omitempty"`
	Empty     []string          `yaml:"empty,omitempty" json:"empty,omitempty"` // pointers whose emptiness means ok_empty
	Codes     map[string]Family `yaml:"codes,omitempty" json:"codes,omitempty"`
	Texts     []TextRule        `yaml:"texts,omitempty" json:"texts,omitempty"`
	Echo      EchoMap           `yaml:"echo,omitempty" json:"echo,omitempty"`
}

// RehearsalFormat says what the REHEARSE role is able to answer.
type RehearsalFormat string

// The formats.
const (
	AnyFormat       RehearsalFormat = ""                 // any JSON value or text
	ExecutionResult RehearsalFormat = "execution_result" // EnvACE's: a non-empty object or an array; {}, scalars and null cannot be said
)

// Defect is a known fault of a sandbox: verdicts that rest on it are masked, so
// that a policy is not charged for the truth being wrong.
type Defect struct {
	Environment string   `yaml:"environment" json:"environment"`
	Versions    []string `yaml:"versions,omitempty" json:"versions,omitempty"` // empty = all
	Tool        string   `yaml:"tool" json:"tool"`
	Pointer     string   `yaml:"pointer,omitempty" json:"pointer,omitempty"` // pattern of the wrong path: only differences there are excused; "" = the whole answer
	Note        string   `yaml:"note" json:"note"`
}

// ToolRules are the rules of one tool, resolved.
type ToolRules struct {
	limits    diff.Limits
	envelopes []Envelope
	fields    []FieldEnvelope
	empty     []string
	inference Inference
	echo      EchoMap
}

// NewRules builds rules. A nil policy compares everything exactly, a nil noise
// masks nothing.
func NewRules(spec RulesSpec, paths *diff.Policy, noise *Noise) (*Rules, error) {
	if err := spec.validate(); err != nil {
		return nil, err
	}
	var err error
	r := &Rules{spec: spec, paths: paths, noise: noise, limits: diff.DefaultLimits(), tools: make(map[string]*ToolRules, len(spec.Tools))}
	base := ToolRules{limits: r.limits, envelopes: Envelopes(), inference: DefaultInference()}
	if r.masks, err = maskedPaths(paths, noise); err != nil {
		return nil, err
	}
	if r.common, err = base.with(spec.Tools["*"]); err != nil {
		return nil, fmt.Errorf("rules of tool *: %w", err)
	}
	for name, tool := range spec.Tools {
		if r.tools[name], err = r.common.with(tool); err != nil {
			return nil, fmt.Errorf("rules of tool %s: %w", name, err)
		}
	}
	if r.digest, err = r.computeDigest(); err != nil {
		return nil, err
	}
	return r, nil
}

// with overlays a tool's written rules on its parent's.
func (t *ToolRules) with(spec ToolSpec) (*ToolRules, error) {
	child := *t
	if spec.Envelopes != nil {
		child.envelopes = spec.Envelopes
	}
	child.fields = append(slices.Clone(spec.Fields), t.fields...)
	child.empty = append(slices.Clone(spec.Empty), t.empty...)
	if spec.Echo != nil {
		child.echo = spec.Echo
	}
	if len(spec.Codes) == 0 && len(spec.Texts) == 0 {
		return &child, nil
	}
	var err error
	child.inference, err = t.inference.With(spec.Codes, spec.Texts)
	return &child, err
}

// maskedPaths compiles the path rules of every tool that has learned noise.
func maskedPaths(paths *diff.Policy, noise *Noise) (map[string]*diff.Rules, error) {
	masks := make(map[string]*diff.Rules)
	for _, tool := range noise.Tools() {
		masked, err := paths.For(tool).Mask(noise.Masks(tool)...)
		if err != nil {
			return nil, fmt.Errorf("mask noise of tool %s: %w", tool, err)
		}
		masks[tool] = masked
	}
	return masks, nil
}

// pathsOf are a tool's path rules, without learned noise.
func (r *Rules) pathsOf(tool string) *diff.Rules {
	if masked, ok := r.masks[tool]; ok {
		return masked
	}
	return r.paths.For(tool)
}

// WithNoise returns the same rules with other learned noise.
func (r *Rules) WithNoise(noise *Noise) (*Rules, error) { return NewRules(r.spec, r.paths, noise) }

// Of returns a tool's rules.
func (r *Rules) Of(tool string) *ToolRules {
	if t, ok := r.tools[tool]; ok {
		return t
	}
	return r.common
}

// Digest identifies the rules.
func (r *Rules) Digest() Digest { return r.digest }

// Written is the digest where somebody wrote rules or marked noise; zero where
// answers are read and compared by the defaults alone.
func (r *Rules) Written() Digest {
	s := &r.spec
	if s.Version == "" && s.Format == AnyFormat && len(s.Tools) == 0 && len(s.Defects) == 0 && r.paths == nil && len(r.noise.Tools()) == 0 {
		return Digest{}
	}
	return r.digest
}

// RulesName is what people are told of the rules with a digest that Written gave.
func RulesName(written Digest) string {
	if written.IsZero() {
		return "the defaults"
	}
	return "the rules " + written.String()[:16]
}

// Spec is the written form that the rules were built from.
func (r *Rules) Spec() RulesSpec { return r.spec }

// digestVersion changes whenever the code judges differently under the same
// written rules: old and new verdicts must never share a key.
const digestVersion = "4"

func (r *Rules) computeDigest() (Digest, error) {
	text, err := json.Marshal(struct {
		Code  string    `json:"code"`
		Spec  RulesSpec `json:"spec"`
		Paths string    `json:"paths"`
		Noise Digest    `json:"noise"`
	}{digestVersion, r.spec, fmt.Sprintf("%x", r.paths.Digest()), r.noise.Digest()})
	if err != nil {
		return Digest{}, fmt.Errorf("digest rules: %w", err)
	}
	return sha256.Sum256(text), nil
}

// echoOf is the tool's echo map: the rules' own, else the one that the tool declares.
func (r *Rules) echoOf(tool *Tool) EchoMap {
	if echo := r.Of(tool.Name).echo; echo != nil {
		return echo
	}
	return tool.Echo
}

// defect finds the known defect that excuses a pair.
func (r *Rules) defect(environment, version, tool string) *Defect {
	for i := range r.spec.Defects {
		d := &r.spec.Defects[i]
		if d.Environment == environment && d.Tool == tool && (len(d.Versions) == 0 || slices.Contains(d.Versions, version)) {
			return d
		}
	}
	return nil
}

// validate reports every fault of the written form at once.
func (s *RulesSpec) validate() error {
	var faults []string
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	if s.Format != AnyFormat && s.Format != ExecutionResult {
		fault("format %q: want %q or nothing", s.Format, ExecutionResult)
	}
	families := familyNames()
	for _, name := range slices.Sorted(maps.Keys(s.Tools)) {
		tool := s.Tools[name]
		for _, e := range tool.Envelopes {
			if !slices.Contains(Envelopes(), e) {
				fault("tool %s: envelope %q: did you mean %q?", name, e, nearest(string(e), envelopeNames()))
			}
		}
		for code, family := range tool.Codes {
			if !slices.Contains(families, string(family)) {
				fault("tool %s: code %s: family %q: did you mean %q?", name, code, family, nearest(string(family), families))
			}
		}
		for _, text := range tool.Texts {
			if !slices.Contains(families, string(text.Family)) {
				fault("tool %s: text %q: family %q: did you mean %q?", name, text.Match, text.Family, nearest(string(text.Family), families))
			}
		}
		for _, field := range tool.Fields {
			if !strings.HasPrefix(field.Pointer, "/") || len(field.Failed) == 0 {
				fault("tool %s: field %q: want a JSON Pointer and the values that mean failure", name, field.Pointer)
			}
		}
	}
	for i, d := range s.Defects {
		if d.Environment == "" || d.Tool == "" || d.Note == "" {
			fault("defect %d: environment, tool and note are required", i+1)
		}
	}
	if len(faults) == 0 {
		return nil
	}
	slices.Sort(faults)
	return &Error{Code: CodeInvalid, Message: "rules: " + strings.Join(faults, "; "), Hint: "correct the names; docs list the valid ones"}
}

func familyNames() []string {
	names := make([]string, 0, len(Families()))
	for _, f := range Families() {
		names = append(names, string(f))
	}
	return names
}

func envelopeNames() []string {
	names := make([]string, 0, len(Envelopes()))
	for _, e := range Envelopes() {
		names = append(names, string(e))
	}
	return names
}
