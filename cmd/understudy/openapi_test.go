package main_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"understudy/audit"
)

// contract is the served OpenAPI document.
type contract struct {
	Paths map[string]map[string]struct {
		RequestBody struct {
			Content map[string]schemaRef `json:"content"`
		} `json:"requestBody"`
		Responses map[string]struct {
			Content map[string]schemaRef `json:"content"`
		} `json:"responses"`
	} `json:"paths"`
	schemas *jsonschema.Compiler
}

type schemaRef struct {
	Schema struct {
		Ref string `json:"$ref"`
	} `json:"schema"`
}

func readContract(t *testing.T, url string) *contract {
	t.Helper()
	status, text := get(t, url+"/v1/openapi.json")
	if status != http.StatusOK {
		t.Fatalf("openapi.json: %d", status)
	}
	c := &contract{schemas: jsonschema.NewCompiler()}
	if err := json.Unmarshal([]byte(text), c); err != nil {
		t.Fatal(err)
	}
	document, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c.schemas.DefaultDraft(jsonschema.Draft2020)
	c.schemas.AssertFormat()
	if err := c.schemas.AddResource("openapi.json", document); err != nil {
		t.Fatal(err)
	}
	return c
}

// valid validates JSON against a schema of the document; several lines are
// several values.
func (c *contract) valid(t *testing.T, what, ref, text string) {
	t.Helper()
	schema, err := c.schemas.Compile("openapi.json" + ref)
	if err != nil {
		t.Fatalf("%s: schema %q: %v", what, ref, err)
	}
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	for n := 0; ; n++ {
		var v any
		if err := decoder.Decode(&v); err != nil {
			if n == 0 || !errors.Is(err, io.EOF) {
				t.Errorf("%s: value %d of %q: %v", what, n, text, err)
			}
			return
		}
		if err := schema.Validate(v); err != nil {
			t.Errorf("%s: %v\n%s", what, err, text)
			return
		}
	}
}

// exchange is one request and what must come back.
type exchange struct {
	method, path string // as documented
	query, body  string // query may replace {name}
	status       int
	reason       string
}

func exchanges(t *testing.T, cases []trainerCase) []exchange {
	t.Helper()
	jsonOf := func(v any) string {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	batch := audit.ScoreBatch{Policy: "contract", Checkpoint: 2, Outputs: outputs(cases, "contract")}
	lie := outputs(cases, "lies")
	for i := range lie {
		lie[i].Rehearsal = new(`{"made":"up"}`)
	}
	batch.Outputs = append(batch.Outputs, lie...)
	batch.Outputs = append(batch.Outputs, audit.Output{Environment: "retail-mini@1", Call: cases[0].Call, Rehearsal: new(""), Role: audit.RoleAct})
	late := batch
	late.Policy, late.DeadlineMS = "late", 1
	nobody := batch
	nobody.Policy = ""
	nowhere := batch
	nowhere.Outputs = []audit.Output{{Environment: "retial", Call: cases[0].Call, Rehearsal: new("")}}
	many := batch
	many.Outputs = make([]audit.Output, audit.MaxOutputs+1)
	place := map[string]any{"policy": "contract", "environment": "retail-mini@1", "call": cases[0].Call, "episode": "place"}
	message := map[string]any{"output": []any{map[string]any{"type": "message", "content": []any{map[string]any{"type": "output_text", "text": cases[0].Truth}}}}}
	episode := `{"policy":"contract","environment":"retail-mini@1","episode":"s"}` + "\n" + jsonOf(map[string]any{"call": cases[0].Call, "rehearsal": "{}"}) + "\n"
	return []exchange{
		{"post", "/v1/score", "", jsonOf(batch), 200, "a batch with honest answers, lies and an ACT output"},
		{"post", "/v1/score", "", jsonOf(late), 200, "a deadline that cannot be met"},
		{"post", "/v1/score", "", `{"polcy":1}`, 400, "an unknown member"},
		{"post", "/v1/score", "", `{`, 400, "half a request"},
		{"post", "/v1/score", "", jsonOf(nobody), 422, "nobody to pay"},
		{"post", "/v1/score", "", jsonOf(nowhere), 422, "an environment that does not exist"},
		{"post", "/v1/score", "", jsonOf(many), 413, "too many outputs"},
		{"get", "/v1/scores/{id}", "{id}=" + strings.Repeat("0a", 32), "", 404, "a batch that nobody sent"},
		{"get", "/v1/scores/{id}", "{id}=x", "", 400, "an id that is none"},
		{"post", "/v1/episodes", "", episode, 200, "an episode of one step"},
		{"post", "/v1/episodes", "", "", 400, "an empty episode"},
		{"post", "/v1/episodes", "", "{}\n{\"x\":1}\n", 400, "a step that is none"},
		{"post", "/v1/score/openrlhf", "", jsonOf(map[string]any{"query": []string{"pa"}, "prompts": []string{"p"}, "labels": []any{place}}), 200, "one sample"},
		{"post", "/v1/score/openrlhf", "", jsonOf(map[string]any{"query": []string{"a", "b"}, "labels": []any{place, place}}), 200, "two samples"},
		{"post", "/v1/score/openrlhf", "", jsonOf(map[string]any{"query": []string{"a"}, "labels": []any{"gold"}}), 422, "a label that is no place"},
		{"post", "/v1/score/slime", "", jsonOf(map[string]any{"response": "a", "label": place}), 200, "a number"},
		{"post", "/v1/score/slime", "full=1", jsonOf(map[string]any{"response": "a", "label": place}), 200, "an object"},
		{"get", "/v1/alarms", "", "", 200, "alarms"},
		{"get", "/v1/alarms", "limit=0", "", 400, "a limit that is none"},
		{"get", "/v1/openapi.json", "", "", 200, "the document itself"},
		{"post", "/v1/gates", "", `{"policy":"version: 1\ndefaults:\n  leaf_f1: {min: 0.9}\n","run":"training contract"}`, 200, "a gate on a training"},
		{"get", "/v1/gates", "", "", 200, "gates"},
		{"get", "/v1/gate", "run=x&decided=2001-01-01T00:00:00Z", "", 404, "a gate that was not decided"},
		{"post", "/v1/trainings", "", `{"experiment":"contract","arm":"a","seed":1}`, 200, "a training"},
		{"post", "/v1/trainings/{id}/metrics", "{id}=1", `{"metrics":[{"name":"reward","step":1,"value":0.5}]}`, 200, "a metric of it"},
		{"post", "/v1/trainings/{id}/metrics", "{id}=x", `{"metrics":[]}`, 400, "an id that is none"},
		{"post", "/v1/trainings/{id}/finish", "{id}=1", `{}`, 200, "its end"},
		{"post", "/gym/seed_session", "", `{"environment":"retail-mini@1"}`, 200, "a world"},
		{"post", "/gym/seed_session", "", `{}`, 400, "no world"},
		{"post", "/gym/verify", "", jsonOf(map[string]any{"response": message, "understudy": place}), 200, "a rehearsal"},
		{"post", "/gym/verify", "", jsonOf(map[string]any{"response": message}), 404, "neither place nor session"},
		{"post", "/gym/aggregate_metrics", "", `{"verify_responses":[{"reward":1,"_ng_task_index":0}]}`, 200, "rollouts"},
		{"post", "/gym/{tool}", "{tool}=get_user", `{"user":"U1"}`, 404, "a tool without a session"},
	}
}

// keepsContract sends requests to every documented route and holds requests and
// answers against the document.
func keepsContract(t *testing.T, at string, cases []trainerCase) {
	t.Helper()
	c := readContract(t, at)
	tried := map[string]bool{}
	for _, e := range exchanges(t, cases) {
		what := e.method + " " + e.path + ", " + e.reason
		tried[e.method+" "+e.path] = true
		operation, ok := c.Paths[e.path][e.method]
		if !ok {
			t.Errorf("%s is not documented", what)
			continue
		}
		path, query := e.path, e.query
		if name, value, found := strings.Cut(query, "="); found && strings.HasPrefix(name, "{") {
			path, query = strings.Replace(path, name, url.PathEscape(value), 1), ""
		}
		status, kind, answer := send(t, strings.ToUpper(e.method), at+path+"?"+query, e.body)
		if status != e.status {
			t.Errorf("%s: got %d %s, want %d", what, status, answer, e.status)
			continue
		}
		for _, schema := range operation.RequestBody.Content {
			if status == http.StatusOK && e.path != "/v1/episodes" && schema.Schema.Ref != "" {
				c.valid(t, what+": request", schema.Schema.Ref, e.body)
			}
		}
		schema, ok := operation.Responses[strconv.Itoa(status)].Content[kind]
		if !ok {
			t.Errorf("%s: an answer of status %d and type %s is not documented", what, status, kind)
			continue
		}
		ref := schema.Schema.Ref
		if ref == "" { // written in place
			ref = fragment("paths", e.path, e.method, "responses", strconv.Itoa(status), "content", kind, "schema")
		}
		c.valid(t, what, ref, answer)
	}
	for path, operations := range c.Paths {
		for method := range operations {
			if !tried[method+" "+path] {
				t.Errorf("%s %s is documented and not tried", method, path)
			}
		}
	}
}

// fragment is the JSON Pointer of a place in the document, as a URL's fragment.
func fragment(tokens ...string) string {
	var pointer strings.Builder
	pointer.WriteByte('#')
	for _, token := range tokens {
		token = strings.ReplaceAll(strings.ReplaceAll(token, "~", "~0"), "/", "~1")
		pointer.WriteString("/" + url.PathEscape(token))
	}
	return pointer.String()
}

func send(t *testing.T, method, url, body string) (status int, kind, answer string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	kind, _, _ = strings.Cut(response.Header.Get("Content-Type"), ";")
	return response.StatusCode, kind, string(text)
}
