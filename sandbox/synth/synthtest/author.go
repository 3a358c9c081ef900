// Package synthtest is a scripted author for tests of package synth: it writes a
// library's lending desk, with the mistakes that models make.
package synthtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
)

// Author answers the prompts of a synthesis. On the way it answers once with text
// that is no JSON, once with code that does not compile, once with a tool that
// breaks a rule, and once with a scenario whose check passes at once.
type Author struct {
	mu    sync.Mutex
	asked map[string]int
}

// Answer is the author's answer to a prompt.
func (a *Author) Answer(system, user string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.asked == nil {
		a.asked = map[string]int{}
	}
	switch {
	case strings.Contains(system, "name the backends"):
		return a.themes()
	case strings.Contains(system, "You design the backend"):
		return plan(user)
	case strings.Contains(system, "You write one piece"):
		return a.piece(user)
	case strings.Contains(system, "You test a sandbox"):
		return calls
	case strings.Contains(system, "You check one call"):
		return judge(user)
	case strings.Contains(system, "You write a task"):
		return a.scenario(user)
	}
	return "I do not know what is asked."
}

// once counts what was asked and says whether this is the first time.
func (a *Author) once(what string) bool {
	a.asked[what]++
	return a.asked[what] == 1
}

func (a *Author) themes() string {
	if a.once("themes") {
		return "Here are some themes!"
	}
	return "```json\n" + `{"themes":[
		{"name":"Library lending desk","summary":"Librarians lend books to members and take them back."},
		{"name":"library lending desk","summary":"Librarians lend books to members, and take them back."},
		{"name":"Weather oracle","summary":"Keeps nothing that anyone can change."}]}` + "\n```"
}

func plan(user string) string {
	if strings.Contains(user, "Weather") {
		return `{"name":"weather","title":"Weather","summary":"s","state":[{"name":"a","about":"b","fields":[]}],"rules":[],"operations":[]}`
	}
	return `{"name":"Lending Desk","title":"A lending desk","summary":"Lends books to members.",
		"state":[{"name":"books","about":"what is lent","fields":["copies: int, on the shelf"]},{"name":"members","about":"who borrows","fields":["loans: list of book ids"]}],
		"rules":["A member has at most two loans.","A book without copies cannot be lent."],
		"operations":[
			{"name":"get_member","about":"a member","effect":"read","errors":["not_found"],"refuses":["unknown member"],"response":"the member"},
			{"name":"lend","about":"lend a book","effect":"write","errors":["not_found","limit","precondition"],"refuses":["unknown","two loans","no copies"],"response":"the member"},
			{"name":"take_back","about":"take a book back","effect":"write","errors":["not_found","conflict"],"refuses":["unknown","not lent"],"response":"the member"}]}`
}

// code wraps Starlark as the answer that was asked for.
func code(text string) string {
	answer, _ := json.Marshal(map[string]string{"code": text}) // a map of strings
	return string(answer)
}

func (a *Author) piece(user string) string {
	switch {
	case strings.Contains(user, "Write the state piece."):
		if a.once("state") {
			return code("def state(rng):\n    while True:\n        pass\n")
		}
		return code(state)
	case strings.Contains(user, "Write the rules piece."):
		return code(rules)
	case strings.Contains(user, "piece of the operation get_member"):
		return code(getMember)
	case strings.Contains(user, "piece of the operation lend"):
		if strings.Contains(user, "What is wrong with it:") {
			return code(lend)
		}
		return code(strings.Replace(lend, ">= 2", ">= 200", 1)) // forgets the limit
	default:
		return code(takeBack)
	}
}

const state = `
def state(rng, size=None):
    return {
        "books": {"b1": {"copies": 2}, "b2": {"copies": 0}, "b3": {"copies": 5}, "b4": {"copies": 1}},
        "members": {"m1": {"loans": []}, "m2": {"loans": ["b1", "b3"]}},
        "slips": {},
        "$sys": {"clock": "2025-03-03T09:00:00"},
    }
`

const rules = `
def row(table, key, what):
    if key not in table:
        error("not_found", "no %s %s" % (what, key))
    return table[key]

def shown(db, member):
    return {"member": member, "loans": list(db["members"][member]["loans"])}

def no_negative_shelf(initial, final):
    for key, book in final["books"].items():
        if book["copies"] < 0:
            return "%s has %d copies" % (key, book["copies"])
    return None

invariant(no_negative_shelf)
`

const getMember = `
def get_member(db, member):
    """Look a member up."""
    row(db["members"], member, "member")
    return shown(db, member)

tool(get_member, params={"member": string("the member's id")}, errors=["not_found"])
`

const lend = `
def lend(db, member, book, days):
    """Lend a book to a member."""
    borrower, lent = row(db["members"], member, "member"), row(db["books"], book, "book")
    if len(borrower["loans"]) >= 2:
        error("limit", "%s has two loans already" % member)
    if lent["copies"] == 0:
        error("precondition", "no copies of %s are left" % book)
    lent["copies"] -= 1
    borrower["loans"].append(book)
    slip = new_id("S")
    db["slips"][slip] = {"book": book, "due": date_add(now(), days=days)}
    return dict(shown(db, member), slip=slip, due=db["slips"][slip]["due"])

tool(lend, params={"member": string("who"), "book": string("what"), "days": optional(integer("how long", min=1), default=14)},
     effect="write", errors=["not_found", "limit", "precondition"])
`

const takeBack = `
def take_back(db, member, book):
    """Take a book back."""
    borrower, lent = row(db["members"], member, "member"), row(db["books"], book, "book")
    if book not in borrower["loans"]:
        error("conflict", "%s does not have %s" % (member, book))
    borrower["loans"].remove(book)
    lent["copies"] += 1
    return shown(db, member)

tool(take_back, params={"member": string("who"), "book": string("what")}, effect="write", errors=["not_found", "conflict"])
`

const calls = `{"calls":[
	{"tool":"get_member","arguments":"{\"member\":\"m1\"}","expect":"success","why":"a lookup"},
	{"tool":"lend","arguments":"{\"member\":\"m1\",\"book\":\"b3\"}","expect":"success","why":"copies are there"},
	{"tool":"lend","arguments":"{\"member\":\"m2\",\"book\":\"b4\"}","expect":"refusal","why":"two loans"},
	{"tool":"lend","arguments":"{\"member\":\"m1\",\"book\":\"b2\"}","expect":"refusal","why":"no copies"},
	{"tool":"take_back","arguments":"{\"member\":\"m1\",\"book\":\"b3\"}","expect":"success","why":"it was lent"}]}`

// judge fails a loan beyond the limit and passes everything else.
func judge(user string) string {
	if strings.Contains(user, `The call: lend {"member":"m2","book":"b4"}`) && strings.Contains(user, "The answer (ok)") {
		return `{"verdict":"fail","reason":"a third loan was given"}`
	}
	return `{"verdict":"pass","reason":"as designed"}`
}

func (a *Author) scenario(user string) string {
	_, id, _ := strings.Cut(user, "The prefix of its checks is ")
	id = strings.TrimSpace(id[:strings.IndexAny(id, ".\n")])
	test := `"b3" in final["members"]["m1"]["loans"]`
	if a.once("scenario") {
		test = "True"
	}
	name := id + "_lent"
	check, _ := json.Marshal(fmt.Sprintf("def %s(initial, final):\n    return %s", name, test)) // a string
	world := `""`
	if id == "s2" {
		world = `"{\"books\":{\"b3\":{\"copies\":1}},\"members\":{\"m1\":{\"loans\":[]}},\"slips\":{}}"`
	}
	return fmt.Sprintf(`{"task":"Lend b3 to m1 (%s).","state":%s,"solution":[{"tool":"get_member","arguments":"{\"member\":\"m1\"}"},`+
		`{"tool":"lend","arguments":"{\"member\":\"m1\",\"book\":\"b3\"}"}],"checks":[{"name":%q,"code":%s}]}`, id, world, name, check)
}

// ServeHTTP is the author behind an OpenAI-compatible chat endpoint; each answer
// counts as 100 tokens read and 10 written.
func (a *Author) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var request struct {
		Messages []struct {
			Role    string `json:"role"`
			Content string `json:"content"`
		} `json:"messages"`
	}
	if r.URL.Path == "/v1/models" {
		_, _ = w.Write([]byte(`{"data":[{"id":"author"}]}`))
		return
	}
	if err := json.NewDecoder(r.Body).Decode(&request); err != nil || len(request.Messages) != 2 {
		http.Error(w, "two messages are expected", http.StatusBadRequest)
		return
	}
	text := a.Answer(request.Messages[0].Content, request.Messages[1].Content)
	_ = json.NewEncoder(w).Encode(map[string]any{
		"choices": []any{map[string]any{"finish_reason": "stop", "message": map[string]any{"content": text}}},
		"usage":   map[string]any{"prompt_tokens": 100, "completion_tokens": 10},
	})
}
