package main_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"understudy/audit"
	"understudy/web/client"
)

// service is a real `understudy serve` in a process of its own.
type service struct {
	t      *testing.T
	cmd    *exec.Cmd
	url    string
	said   *lockedBuffer
	exited chan struct{}
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// serve starts the program and waits until it serves.
func serve(t *testing.T, env []string, args ...string) *service {
	t.Helper()
	return serveIn(t, t.TempDir(), env, args...)
}

func serveIn(t *testing.T, dir string, env []string, args ...string) *service {
	t.Helper()
	s := &service{t: t, said: &lockedBuffer{}, exited: make(chan struct{})}
	s.cmd = program(t, dir, env, append([]string{"serve", "--listen", "127.0.0.1:0"}, args...)...)
	s.cmd.Stdout, s.cmd.Stderr = s.said, s.said
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = s.cmd.Wait() // a killed program says so
		close(s.exited)
	}()
	t.Cleanup(s.stop)
	serving := regexp.MustCompile(`"serving","url":"([^"]+)"`)
	for deadline := time.Now().Add(patience); ; {
		if found := serving.FindStringSubmatch(s.said.String()); found != nil {
			s.url = found[1]
			return s
		}
		select {
		case <-s.exited:
			t.Fatalf("it does not serve: %s", s.said)
		case <-time.After(10 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			t.Fatalf("it does not serve: %s", s.said)
		}
	}
}

// stop ends the program in order, kill at once.
func (s *service) stop() {
	_ = s.cmd.Process.Signal(syscall.SIGTERM) // it may be gone
	<-s.exited
}

func (s *service) kill() {
	_ = s.cmd.Process.Kill()
	<-s.exited
}

// trainerCase is one call with its history and the truth about it.
type trainerCase struct {
	Call    audit.Call   `json:"call"`
	History []audit.Call `json:"history"`
	Truth   string       `json:"truth"`
	Refused bool         `json:"refused"`
}

func trainerCases(t *testing.T) []trainerCase {
	t.Helper()
	calls := []audit.Call{
		{Tool: "get_user", Arguments: json.RawMessage(`{"user":"U1"}`)},
		{Tool: "get_user", Arguments: json.RawMessage(`{"user":"U99"}`)},
		{Tool: "get_order", Arguments: json.RawMessage(`{"order":"O1"}`)},
	}
	truths := replay(t, world(t, "retail-mini@1"), calls...)
	var cases []trainerCase
	for i, call := range calls {
		cases = append(cases, trainerCase{call, calls[:i:i], truths[i], strings.Contains(truths[i], "error")})
	}
	if cases[0].Refused || !cases[1].Refused {
		t.Fatalf("the cases are not what they should be: %+v", cases)
	}
	return cases
}

func python(t *testing.T, dir string, env []string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "python3", args...)
	cmd.Dir = dir
	cmd.Env = append(append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1"), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("python3 %s: %v (python3 is needed: make deps)\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// TestTrainersAgainstALiveService drives every client as its trainer does, runs
// every snippet of their README, and asks over NATS.
func TestTrainersAgainstALiveService(t *testing.T) {
	t.Parallel()
	ns, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: t.TempDir(), NoSigs: true})
	if err != nil {
		t.Fatal(err)
	}
	ns.Start()
	t.Cleanup(func() { ns.Shutdown(); ns.WaitForShutdown() })
	if !ns.ReadyForConnections(patience) {
		t.Fatal("the NATS server does not start")
	}
	s := serve(t, nil, "--database-url", postgres.URL(t), "--nats-url", ns.ClientURL())
	cases := trainerCases(t)
	text, err := json.Marshal(cases)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "cases.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	clients, err := filepath.Abs("../../web/clients/python")
	if err != nil {
		t.Fatal(err)
	}
	env := []string{"UNDERSTUDY_URL=" + s.url, "UNDERSTUDY_CASES=" + file, "PYTHONPATH=" + clients}
	t.Run("clients", func(t *testing.T) {
		if out := python(t, clients, env, "-W", "error", "-m", "unittest", "discover", "-s", "tests"); !strings.Contains(out, "OK") {
			t.Errorf("%s", out)
		}
	})
	t.Run("snippets", func(t *testing.T) {
		readme, err := os.ReadFile(filepath.Join(clients, "README.md"))
		if err != nil {
			t.Fatal(err)
		}
		blocks := regexp.MustCompile("(?s)```python\n(.*?)```").FindAllStringSubmatch(string(readme), -1)
		if len(blocks) < 7 {
			t.Fatalf("%d snippets in the README, want one a trainer", len(blocks))
		}
		for _, block := range blocks {
			python(t, t.TempDir(), env, "-W", "error", "-c", block[1])
		}
	})
	t.Run("contract", func(t *testing.T) { keepsContract(t, s.url, cases) })
	t.Run("nats", func(t *testing.T) { askOverNATS(t, ns.ClientURL(), cases) })
	t.Run("go", func(t *testing.T) { askOverGo(t, s.url, cases) })
	s.stop() // what it said is whole
	line := fmt.Sprintf(`"msg":"batch scored","policy":"go","checkpoint":0,"outputs":%d,"scored":%[1]d,"masked":0,"pending":0,`, len(cases))
	if said := s.said.String(); strings.Count(said, line) != 1 {
		t.Errorf("want one line %s of the batch that was scored:\n%s", line, said)
	}
}

func outputs(cases []trainerCase, episode string) []audit.Output {
	var all []audit.Output
	for _, c := range cases {
		o := audit.Output{Environment: "retail-mini@1", Episode: episode, Call: c.Call, Rehearsal: &c.Truth}
		for _, call := range c.History {
			o.History = append(o.History, audit.Earlier{Call: call})
		}
		all = append(all, o)
	}
	return all
}

func askOverNATS(t *testing.T, url string, cases []trainerCase) {
	t.Helper()
	nc, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	request, err := json.Marshal(audit.ScoreBatch{Policy: "nats", DeadlineMS: patience.Milliseconds(), Outputs: outputs(cases, "nats")})
	if err != nil {
		t.Fatal(err)
	}
	var scores audit.ScoredBatch
	ask := func(subject string, request []byte) {
		t.Helper()
		reply, err := nc.Request(subject, request, patience)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(reply.Data, &scores); err != nil || len(scores.Scores) != len(cases) {
			t.Fatalf("%s: %v", reply.Data, err)
		}
	}
	ask("audit.ask.score", request)
	first := scores
	ask("audit.ask.scores", fmt.Appendf(nil, `{"id":%q}`, scores.ID))
	for i := range scores.Scores {
		if *scores.Scores[i].Phi != 1 || *first.Scores[i].Phi != 1 {
			t.Errorf("%+v", scores.Scores[i])
		}
	}
	reply, err := nc.Request("audit.ask.score", []byte(`{`), patience)
	if err != nil || !strings.Contains(string(reply.Data), `"code":"invalid"`) {
		t.Errorf("a request that is none: %s %v", reply.Data, err)
	}
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	consumer, err := js.CreateConsumer(t.Context(), "AUDIT_SCORES", jetstream.ConsumerConfig{AckPolicy: jetstream.AckNonePolicy})
	if err != nil {
		t.Fatal(err)
	}
	for range 100 { // other tests of the service are on the stream, too
		m, err := consumer.Next(jetstream.FetchMaxWait(patience))
		if err != nil {
			t.Fatalf("the batch is not on the stream: %v", err)
		}
		var streamed audit.ScoredBatch
		if err := json.Unmarshal(m.Data(), &streamed); err != nil {
			t.Fatal(err)
		}
		if streamed.ID == first.ID {
			return
		}
	}
	t.Error("the batch is not on the stream")
}

func askOverGo(t *testing.T, url string, cases []trainerCase) {
	t.Helper()
	var scorer audit.Scorer = &client.Client{URL: url}
	batch := audit.ScoreBatch{Policy: "go", DeadlineMS: patience.Milliseconds(), Outputs: outputs(cases, "go")}
	scores, err := scorer.Score(t.Context(), batch)
	if err != nil || scores.Pending != 0 {
		t.Fatalf("%+v %v", scores, err)
	}
	pulled, err := scorer.Scores(t.Context(), scores.ID, patience)
	if err != nil || len(pulled.Scores) != len(cases) {
		t.Fatalf("%+v %v", pulled, err)
	}
	batch.Policy = ""
	if _, err := scorer.Score(t.Context(), batch); audit.ErrorCode(err) != audit.CodeUnprocessable || audit.ErrorHint(err) == "" {
		t.Errorf("a batch without a policy: %v", err)
	}
	streamed := streamEpisode(t, url, cases)
	for slices.ContainsFunc(streamed, func(r audit.Reward) bool { return r.Status == audit.RewardPending }) {
		streamed = streamEpisode(t, url, cases) // a step has half a minute; the same again goes on with it
	}
	for i, r := range streamed {
		if r.Status != audit.RewardScored || *r.Phi != 1 || r.Step != i {
			t.Errorf("streamed step %d: %+v", i, r)
		}
	}
}

// streamEpisode sends each step only after the one before was answered.
func streamEpisode(t *testing.T, url string, cases []trainerCase) []audit.Reward {
	t.Helper()
	reader, writer := io.Pipe()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/v1/episodes", reader)
	if err != nil {
		t.Fatal(err)
	}
	answered := make(chan *json.Decoder, 1)
	go func() {
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Error(err)
			close(answered)
			return
		}
		defer func() { _ = response.Body.Close() }()
		answered <- json.NewDecoder(response.Body)
		<-t.Context().Done() // until then the test reads it
	}()
	fmt.Fprintln(writer, `{"policy":"go","environment":"retail-mini@1","episode":"streamed"}`)
	var (
		rewards []audit.Reward
		decoder *json.Decoder
	)
	for _, c := range cases {
		line, err := json.Marshal(map[string]any{"call": c.Call, "rehearsal": c.Truth})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := writer.Write(append(line, '\n')); err != nil {
			t.Fatal(err)
		}
		if decoder == nil {
			if decoder = <-answered; decoder == nil {
				t.FailNow()
			}
		}
		var r audit.Reward
		if err := decoder.Decode(&r); err != nil {
			t.Fatal(err)
		}
		rewards = append(rewards, r)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	if err := decoder.Decode(new(audit.Reward)); !errors.Is(err, io.EOF) {
		t.Errorf("after the episode: %v, want the end", err)
	}
	return rewards
}

// TestKilledInMidBatch kills a serving process with SIGKILL while it scores.
// Whatever it had answered by then, nothing is 0 that is not known, the same
// batch is scored by the next process, and every payee is paid once.
func TestKilledInMidBatch(t *testing.T) {
	t.Parallel()
	url := postgres.URL(t)
	cases := trainerCases(t)
	batch := audit.ScoreBatch{Policy: "killed", DeadlineMS: 1}
	for i := range 400 {
		batch.Outputs = append(batch.Outputs, outputs(cases, fmt.Sprint("e", i))...)
	}
	seen := map[audit.Digest]float64{} // by payee: what was said once stays
	note := func(s audit.ScoredBatch) {
		for i, r := range s.Scores {
			if (r.Phi == nil) == (r.Status == audit.RewardScored) || r.Status != audit.RewardScored && (r.Term != 0 || r.Weight != 0) {
				t.Errorf("output %d: %+v", i, r)
			}
			if r.Phi == nil {
				continue
			}
			if before, ok := seen[r.ID]; ok && before != r.Term {
				t.Errorf("output %d was paid %v and then %v", i, before, r.Term)
			}
			seen[r.ID] = r.Term
		}
	}
	for range 2 {
		s := serve(t, nil, "--database-url", url, "--work=false")
		scores, err := (&client.Client{URL: s.url, Retries: -1}).Score(t.Context(), batch)
		if err != nil {
			t.Fatal(err)
		}
		note(scores)
		s.kill()
	}
	s := serve(t, nil, "--database-url", url)
	batch.DeadlineMS = patience.Milliseconds()
	scores, err := (&client.Client{URL: s.url}).Score(t.Context(), batch)
	if err != nil || scores.Pending != 0 {
		t.Fatalf("%d pending: %v", scores.Pending, err)
	}
	note(scores)
	if len(seen) != len(batch.Outputs) {
		t.Errorf("%d payees of %d outputs", len(seen), len(batch.Outputs))
	}
	s.stop()
	got := run(t, program(t, t.TempDir(), []string{"UNDERSTUDY_DATABASE_URL=" + url}, "verify"))
	if got.status != 0 {
		t.Errorf("verify: %+v", got)
	}
}
