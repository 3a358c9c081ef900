package web

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gin-gonic/gin"

	"understudy/audit"
	"understudy/web/access"
)

// gym is a resources server of NeMo Gym: its agents seed a session, call tools in
// the sandbox, and have a rollout verified.
type gym struct {
	cfg Config

	mu       sync.Mutex
	sessions map[string]*gymSession
}

// gymSession is one rollout's world.
type gymSession struct {
	mu      sync.Mutex // one call after the other
	session audit.Session
	task    string
	used    time.Time
}

const (
	gymCookie = "understudy_gym"
	// gymSessions and gymIdle bound the worlds that agents left behind.
	gymSessions = 2000
	gymIdle     = time.Hour
	gymCall     = 60 * time.Second
	maxRollouts = 200_000 // that are aggregated at once: no more than have room
)

// mountGym serves /gym: what NeMo Gym calls a resources server.
func (cfg Config) mountGym(engine *gin.Engine) {
	if cfg.Environments == nil || cfg.Scorer == nil {
		return
	}
	g := &gym{cfg: cfg, sessions: make(map[string]*gymSession)}
	group := engine.Group("/gym", access.SameOrigin(cfg.fail), access.Require(audit.AuditorRole, cfg.fail))
	group.POST("/seed_session", g.seed)
	group.POST("/verify", g.verify)
	group.POST("/aggregate_metrics", g.aggregate)
	group.POST("/:tool", g.call)
	if cfg.Closing != nil {
		go func() {
			<-cfg.Closing
			g.sweep(time.Now().Add(2 * gymIdle))
		}()
	}
}

// seed opens a world: {"environment", "start"} of the task's fields, the others
// are the agent's.
func (g *gym) seed(c *gin.Context) {
	var req struct {
		Environment string      `json:"environment"`
		Start       audit.Start `json:"start"`
		Task        string      `json:"task"`
	}
	text, err := readBody(c, maxTrainerRequest)
	if err != nil {
		g.cfg.fail(c, err)
		return
	}
	if err := json.Unmarshal(text, &req); err != nil || req.Environment == "" {
		g.cfg.fail(c, invalid("the task names no environment", `give each task {"environment": "name@version", "start": {"task": ...}}`))
		return
	}
	if req.Start.Task == "" {
		req.Start.Task = req.Task
	}
	ctx, cancel := context.WithTimeout(c.Request.Context(), gymCall)
	defer cancel()
	env, err := g.cfg.Environments.Environment(ctx, req.Environment)
	if err != nil {
		g.cfg.fail(c, err)
		return
	}
	session, err := env.Open(ctx, req.Start)
	if err != nil {
		g.cfg.fail(c, err)
		return
	}
	id := rand.Text()
	g.sweep(time.Now())
	g.mu.Lock()
	g.sessions[id] = &gymSession{session: session, task: req.Start.Task, used: time.Now()}
	g.mu.Unlock()
	http.SetCookie(c.Writer, &http.Cookie{Name: gymCookie, Value: id, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode})
	c.JSON(http.StatusOK, gin.H{})
}

// sweep ends the sessions that nobody has used for long, and the oldest one where
// there are too many.
func (g *gym) sweep(now time.Time) {
	for _, s := range g.abandoned(now) { // a foreign environment takes its time to say good-bye
		_ = s.session.Close() // nobody is there to be told
	}
}

func (g *gym) abandoned(now time.Time) []*gymSession {
	g.mu.Lock()
	defer g.mu.Unlock()
	var out []*gymSession
	oldest := ""
	for id, s := range g.sessions {
		if now.Sub(s.used) > gymIdle {
			out = append(out, s)
			delete(g.sessions, id)
			continue
		}
		if oldest == "" || s.used.Before(g.sessions[oldest].used) {
			oldest = id
		}
	}
	if len(g.sessions) >= gymSessions {
		out = append(out, g.sessions[oldest])
		delete(g.sessions, oldest)
	}
	return out
}

// find is the session of a request, or nil.
func (g *gym) find(c *gin.Context) *gymSession {
	id, err := c.Cookie(gymCookie)
	if err != nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.sessions[id]
	if s != nil {
		s.used = time.Now()
	}
	return s
}

// call executes one tool in the session's world and answers as the tool does.
func (g *gym) call(c *gin.Context) {
	s := g.find(c)
	if s == nil {
		g.cfg.fail(c, &audit.Error{Code: audit.CodeNotFound, Message: "the session is not known", Hint: "POST /gym/seed_session first, and send its cookie along"})
		return
	}
	arguments, err := readBody(c, maxTrainerRequest)
	if err != nil {
		g.cfg.fail(c, err)
		return
	}
	ctx, cancel := context.WithTimeout(c.Request.Context(), gymCall)
	defer cancel()
	s.mu.Lock()
	observation, err := s.session.Call(ctx, audit.Call{Tool: toolName(c.Param("tool")), Arguments: arguments})
	s.mu.Unlock()
	if err != nil {
		g.cfg.fail(c, err)
		return
	}
	if observation.Status == audit.StatusFault || observation.Status == audit.StatusUnknown {
		g.cfg.fail(c, &audit.Error{Code: audit.CodeInfrastructure, Message: "the sandbox gave no answer"})
		return
	}
	if json.Valid(observation.Raw) {
		c.Data(http.StatusOK, "application/json", observation.Raw)
		return
	}
	c.JSON(http.StatusOK, string(observation.Raw))
}

// toolName drops the prefix that MCP agents put before a tool's name.
func toolName(name string) string {
	if rest, found := strings.CutPrefix(name, "mcp__"); found {
		if _, tool, found := strings.Cut(rest, "__"); found {
			return tool
		}
	}
	return name
}

// gymResponse is what a verification needs of NeMo Gym's response: the text of
// its last message.
type gymResponse struct {
	Output []struct {
		Type    string `json:"type"`
		Content []struct {
			Type string `json:"type"`
			Text string `json:"text"`
		} `json:"content"`
	} `json:"output"`
}

func (r *gymResponse) text() string {
	var b strings.Builder
	for i := range slices.Backward(r.Output) {
		if r.Output[i].Type != "message" {
			continue
		}
		for _, part := range r.Output[i].Content {
			b.WriteString(part.Text)
		}
		break
	}
	return b.String()
}

// verify rewards a rollout and answers with the request and the reward. Where
// the task carries a place ("understudy"), the response is a rehearsal and the
// reward its calibration term; else the reward is 1 where all terminal checks of
// the session's task pass, and 0 where one fails.
func (g *gym) verify(c *gin.Context) {
	text, err := readBody(c, maxTrainerRequest)
	if err != nil {
		g.cfg.fail(c, err)
		return
	}
	var (
		members map[string]json.RawMessage // answered as they came
		req     struct {
			Response   gymResponse     `json:"response"`
			Understudy json.RawMessage `json:"understudy"`
		}
	)
	if json.Unmarshal(text, &members) != nil || json.Unmarshal(text, &req) != nil || isNull(members["response"]) {
		g.cfg.fail(c, invalid("the request is not NeMo Gym's", `send {"responses_create_params", "response", ...}`))
		return
	}
	whole := make(map[string]any, len(members))
	for name, value := range members {
		whole[name] = value
	}
	if len(req.Understudy) > 0 {
		err = g.rehearsed(c, req.Understudy, req.Response.text(), whole)
	} else {
		err = g.checked(c, whole)
	}
	if err != nil {
		g.cfg.fail(c, err)
		return
	}
	c.JSON(http.StatusOK, whole)
}

func isNull(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }

func (g *gym) rehearsed(c *gin.Context, place json.RawMessage, rehearsal string, into map[string]any) error {
	l, err := readLabel(place)
	if err != nil {
		return err
	}
	r, err := g.cfg.scalar(c, l, rehearsal)
	if err != nil {
		return err
	}
	into["reward"], into["reward_components"] = r.Term, metrics(&r)
	into["calibration"] = r
	return nil
}

func (g *gym) checked(c *gin.Context, into map[string]any) error {
	s := g.find(c)
	if s == nil {
		return &audit.Error{Code: audit.CodeNotFound, Message: "neither a place nor a session", Hint: `give the task "understudy": {...}, or seed a session first`}
	}
	checker, ok := s.session.(audit.Checker)
	if !ok || s.task == "" {
		return &audit.Error{Code: audit.CodeUnprocessable, Message: "the session's environment checks no task", Hint: `seed it with {"start": {"task": ...}} of an environment that has tasks`}
	}
	ctx, cancel := context.WithTimeout(c.Request.Context(), gymCall)
	defer cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	result, err := checker.Check(ctx, s.task)
	if err != nil {
		return err
	}
	reward := 0.0
	if result.Success() {
		reward = 1
	}
	into["reward"] = reward
	into["reward_components"] = map[string]float64{"checks": float64(result.Checks), "passed": float64(result.Passed)}
	return nil
}

// aggregate sums up verified rollouts: means of reward and components, per task
// and over all, in NeMo Gym's members.
func (g *gym) aggregate(c *gin.Context) {
	text, err := readBody(c, audit.MaxScoreBytes)
	if err != nil {
		g.cfg.fail(c, err)
		return
	}
	if err := (audit.Crowd{2: maxRollouts}).Check(text); err != nil {
		g.cfg.fail(c, err)
		return
	}
	var req struct {
		Responses []struct {
			Task       *int64             `json:"_ng_task_index"`
			Reward     float64            `json:"reward"`
			Components map[string]float64 `json:"reward_components"`
		} `json:"verify_responses"`
	}
	if err := json.Unmarshal(text, &req); err != nil {
		g.cfg.fail(c, invalid("the request is not NeMo Gym's", `send {"verify_responses": [...]}`))
		return
	}
	all, tasks := means{}, map[int64]means{}
	for _, r := range req.Responses {
		groups := []means{all}
		if r.Task != nil {
			if tasks[*r.Task] == nil {
				tasks[*r.Task] = means{}
			}
			groups = append(groups, tasks[*r.Task])
		}
		for _, m := range groups {
			m.add("reward", r.Reward)
			for name, x := range r.Components {
				m.add(name, x)
			}
		}
	}
	perTask := make([]map[string]any, 0, len(tasks))
	for _, index := range sortedKeys(tasks) {
		of := tasks[index].of()
		of["_ng_task_index"] = index
		perTask = append(perTask, of)
	}
	key := gin.H{}
	if reward, ok := all["reward"]; ok {
		key["mean/reward"] = reward.mean
	}
	c.JSON(http.StatusOK, gin.H{"group_level_metrics": perTask, "agent_metrics": all.of(), "key_metrics": key})
}

// means are those of named numbers; what is not finite is not a number.
type means map[string]*struct{ mean, n float64 }

func (m means) add(name string, x float64) {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return
	}
	if m[name] == nil {
		m[name] = &struct{ mean, n float64 }{}
	}
	m[name].n++
	m[name].mean += x/m[name].n - m[name].mean/m[name].n // a sum could overflow
}

func (m means) of() map[string]any {
	out := make(map[string]any, len(m))
	for name, x := range m {
		out["mean/"+name] = x.mean
	}
	return out
}

func sortedKeys(m map[int64]means) []int64 {
	keys := make([]int64, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
