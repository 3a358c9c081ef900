package synth

import "fmt"

// Report says what a run made and what it cost.
type Report struct {
	Requests     int           `json:"requests"`
	Mined        int           `json:"mined"` // themes, before near-duplicates were dropped
	Themes       int           `json:"themes"`
	MiningTokens Tokens        `json:"mining_tokens"`
	Threshold    float64       `json:"threshold"`
	Compat       bool          `json:"compat"`
	Environments []Environment `json:"environments"`
}

// Environment reports on one environment, made or rejected.
type Environment struct {
	Theme      string   `json:"theme"`
	Name       string   `json:"name"`
	Accepted   bool     `json:"accepted"`
	Reason     string   `json:"reason,omitempty"` // why it was not accepted
	Tools      int      `json:"tools"`
	Dropped    []string `json:"dropped,omitempty"` // operations whose code stayed broken, and why
	Categories int      `json:"categories"`        // kinds of record
	Rules      int      `json:"rules"`
	Score      Score    `json:"score"`
	Rounds     int      `json:"rounds"` // of mending
	Steps      []Step   `json:"steps,omitempty"`
	Scenarios  int      `json:"scenarios"`
	Refused    []string `json:"refused,omitempty"` // scenarios that did not hold, and why

	Tokens         Tokens `json:"tokens"` // of the environment, without its scenarios
	ScenarioTokens Tokens `json:"scenario_tokens"`
}

func (e Environment) line(compat bool) string {
	verdict := "accepted"
	if !e.Accepted {
		verdict = "rejected: " + e.Reason
	}
	return fmt.Sprintf("%s: %d tools, %d of %d calls passed (%.2f), %d scenarios, %d tokens: %s",
		e.Theme, e.Tools, e.Score.Pass, e.Score.Steps, e.Score.Rate(compat), e.Scenarios, e.AllTokens(), verdict)
}

// AllTokens counts what the environment and its scenarios cost, read and written.
func (e Environment) AllTokens() int { return e.Tokens.total() + e.ScenarioTokens.total() }

// Cost is what they cost in US dollars.
func (e Environment) Cost(p Price) float64 { return p.of(e.Tokens) + p.of(e.ScenarioTokens) }

// Averages are means over the accepted environments; costs are in US dollars and
// 0 when no price is known.
type Averages struct {
	Tools        float64 `json:"tools"`
	Categories   float64 `json:"categories"`
	Rules        float64 `json:"rules"`
	Environment  float64 `json:"usd_environment"`
	Scenario     float64 `json:"usd_scenario"`
	Environments int     `json:"environments"` // how many were accepted
	Scenarios    int     `json:"scenarios"`
}

// Price is what a million tokens cost, in US dollars.
type Price struct{ Prompt, Completion float64 }

func (p Price) of(t Tokens) float64 {
	return (p.Prompt*float64(t.Prompt) + p.Completion*float64(t.Completion)) / 1e6
}

// Averages of the report. A rejected environment's cost is part of what the
// accepted ones cost.
func (r Report) Averages(price Price) Averages {
	var a Averages
	spent, scenarios := price.of(r.MiningTokens), 0.0
	for _, e := range r.Environments {
		spent += price.of(e.Tokens)
		scenarios += price.of(e.ScenarioTokens)
		if !e.Accepted {
			continue
		}
		a.Environments++
		a.Scenarios += e.Scenarios
		a.Tools += float64(e.Tools)
		a.Categories += float64(e.Categories)
		a.Rules += float64(e.Rules)
	}
	if n := float64(a.Environments); n > 0 {
		a.Tools, a.Categories, a.Rules, a.Environment = a.Tools/n, a.Categories/n, a.Rules/n, spent/n
	}
	if a.Scenarios > 0 {
		a.Scenario = scenarios / float64(a.Scenarios)
	}
	return a
}

// EnvScaler are the published averages of 191 environments and about 7,000
// scenarios (arXiv 2601.05808).
func EnvScaler() Averages {
	return Averages{Tools: 18.58, Categories: 21.38, Rules: 4.58, Environment: 1, Scenario: 0.06, Environments: 191, Scenarios: 7000}
}
