package dashboard

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"understudy/audit"
	"understudy/web/access"
)

// postMark keeps what somebody said about a call, and goes back to it.
func (s *site) postMark(c *gin.Context) {
	run := c.PostForm("run")
	record, err := s.readCall(c.Request.Context(), run, c.PostForm("key"))
	if err != nil {
		s.fail(c, err)
		return
	}
	mark, err := markOf(c, &record.Pair)
	if err != nil {
		s.fail(c, err)
		return
	}
	mark.Run = run
	n, err := s.Store.AddMark(c.Request.Context(), mark)
	if err != nil {
		s.fail(c, err)
		return
	}
	said := "out-"
	if mark.Kind == audit.MarkNoise && mark.Pattern != "" {
		said = "noise-"
	}
	back(c, run, &record, said+strconv.Itoa(n))
}

// markOf reads the form. What the mark is about must be on the call.
func markOf(c *gin.Context, p *audit.Pair) (audit.Mark, error) {
	m := audit.Mark{
		Key: p.Key, Kind: audit.MarkKind(c.PostForm("kind")), Environment: p.Environment, Tool: p.Action.Call.Tool,
		Reason: strings.TrimSpace(c.PostForm("reason")), Author: access.Of(c).Name,
	}
	if !slices.Contains(audit.MarkKinds(), m.Kind) {
		return m, &audit.Error{Code: audit.CodeInvalid, Message: "mark " + string(m.Kind) + " does not exist", Hint: "noise, known_issue or reference_wrong"}
	}
	if days, err := strconv.Atoi(c.PostForm("days")); err == nil && days > 0 && m.Kind != audit.MarkReferenceWrong {
		m.Expires = time.Now().AddDate(0, 0, days)
	}
	if m.Kind == audit.MarkReferenceWrong {
		return m, nil
	}
	if m.Kind == audit.MarkKnownIssue && m.Expires.IsZero() {
		return m, &audit.Error{Code: audit.CodeInvalid, Message: "a known issue needs a day on which it expires", Hint: "choose in how many days it must be looked at again"}
	}
	v := &callView{Pair: p, Verdict: &p.Verdict}
	v.targets()
	for _, t := range v.Targets {
		if t.Value() == c.PostForm("about") {
			m.Pattern, m.Difference = t.Pattern, t.Difference
			return m, nil
		}
	}
	return m, &audit.Error{Code: audit.CodeInvalid, Message: "the mark is about nothing that this call shows", Hint: "choose one of its differences"}
}

func (s *site) postUnmark(c *gin.Context) {
	run := c.PostForm("run")
	record, err := s.readCall(c.Request.Context(), run, c.PostForm("key"))
	if err != nil {
		s.fail(c, err)
		return
	}
	id, err := strconv.Atoi(c.PostForm("mark"))
	if err != nil {
		s.fail(c, &audit.Error{Code: audit.CodeInvalid, Message: "no mark is named", Hint: "use the button beside the mark", Err: err})
		return
	}
	if err := s.Store.RevokeMark(c.Request.Context(), id); err != nil {
		s.fail(c, err)
		return
	}
	back(c, run, &record, "in")
}

// back returns to the call, with what happened in the URL.
func back(c *gin.Context, run string, record *audit.CallRecord, said string) {
	c.Redirect(http.StatusSeeOther, filter{Run: run}.URL("/call", "key", record.Pair.Key.String(), "said", said)+"#marks")
}

// notice is what happened, in words; the URL holds only a code.
func notice(said string) string {
	if n, ok := strings.CutPrefix(said, "out-"); ok {
		if calls, err := strconv.Atoi(n); err == nil {
			return fmt.Sprintf("The mark is kept; %s of this run left the figures.", plural(calls, "call"))
		}
	}
	if n, ok := strings.CutPrefix(said, "noise-"); ok {
		if calls, err := strconv.Atoi(n); err == nil {
			return fmt.Sprintf("The mark is kept: %s re-read without this field, which left the figures because nothing else differs; later audits of this tool do not compare it.", plural(calls, "pair"))
		}
	}
	if said == "in" {
		return "The mark is revoked; its calls count again."
	}
	return ""
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return count(n) + " " + what + "s"
}

// callBody answers with one raw body, whole: ?run=&key=&part=.
func (s *site) callBody(c *gin.Context) {
	record, err := s.readCall(c.Request.Context(), c.Query("run"), c.Query("key"))
	if err != nil {
		s.fail(c, err)
		return
	}
	raw := rawOf(&record.Pair, c.Query("part"))
	if raw == nil {
		s.fail(c, &audit.Error{Code: audit.CodeNotFound, Message: "the call has no body " + c.Query("part"), Hint: "one of " + strings.Join(parts(), ", ")})
		return
	}
	c.Data(http.StatusOK, "text/plain; charset=utf-8", []byte(audit.Plain(string(raw))))
}

// maxTestCalls bounds the history that a copied test replays.
const maxTestCalls = 100

// callTest answers with the episode up to the call as one line of chat JSON: what
// `understudy audit` reads.
func (s *site) callTest(c *gin.Context) {
	ctx, run := c.Request.Context(), c.Query("run")
	record, err := s.readCall(ctx, run, c.Query("key"))
	if err != nil {
		s.fail(c, err)
		return
	}
	lines, _, err := s.Store.EpisodeCalls(ctx, run, record.Episode, audit.Page{Limit: maxTestCalls})
	if err != nil {
		s.fail(c, err)
		return
	}
	var messages []any
	for _, line := range lines {
		if line.Step > record.Pair.Action.Step || line.Sample != 0 || line.Probe != 0 {
			continue
		}
		at := record
		if line.Key != record.Pair.Key {
			if at, err = s.Store.Call(ctx, run, line.Key); err != nil {
				s.fail(c, err)
				return
			}
		}
		messages = append(messages, chatTurn(&at.Pair)...)
	}
	p := &record.Pair
	text, err := json.Marshal(map[string]any{
		"episode_id": "regression-" + p.Key.String()[:12], "prompt_group": p.PromptGroup, "environment": p.Environment + "@" + p.Version, "messages": messages,
	})
	if err != nil {
		s.fail(c, err)
		return
	}
	c.Data(http.StatusOK, "text/plain; charset=utf-8", append(text, '\n'))
}

// chatTurn is one call and its rehearsed answer as chat messages.
func chatTurn(p *audit.Pair) []any {
	id := "call_" + strconv.Itoa(p.Action.Step)
	answer := ""
	if p.Action.Rehearsal != nil {
		answer = string(p.Action.Rehearsal.Raw)
	}
	call := map[string]any{"id": id, "type": "function", "function": map[string]string{"name": p.Action.Call.Tool, "arguments": string(p.Action.Call.Arguments)}}
	return []any{
		map[string]any{"role": "assistant", "tool_calls": []any{call}},
		map[string]any{"role": "tool", "tool_call_id": id, "content": answer},
	}
}
