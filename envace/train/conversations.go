package train

import (
	"fmt"

	"understudy/audit"
	"understudy/envace"
	"understudy/envace/chat"
	"understudy/envace/cm2"
	"understudy/envace/judge"
	chatml "understudy/gpu/chat"
	"understudy/gpu/tokenizer"
)

// Conversations are CM2-style samples as a training takes them.
type Conversations struct {
	Train, Test []audit.Task
	Scenes      map[string]Scene
	Items       map[string][]envace.Item   // the reference conversations, by task
	Turns       map[string][]audit.Turn    // their calls with the recorded answers
	Checklists  map[string]judge.Checklist // by task
	First       []int                      // tokens that ACT reads before its first output, of each task kept
	TooLong     []string                   // tasks left out: their first prompt leaves too little room
}

// roomForTurns is how many tokens of a prompt the first one must leave for what
// follows (the published filter's).
const roomForTurns = 500

// Split makes tasks of samples: the first Data.Heldout are held out, as published, the
// next Data.Train are trained on. A sample whose first prompt leaves no room for what
// follows is left out and named.
func (r Recipe) Split(samples []cm2.Sample, f *chat.Format) (Conversations, error) {
	c := Conversations{
		Scenes: map[string]Scene{}, Items: map[string][]envace.Item{}, Turns: map[string][]audit.Turn{}, Checklists: map[string]judge.Checklist{},
	}
	for _, s := range samples {
		if len(c.Train) == r.Data.Train {
			break
		}
		tokens, err := f.First(&envace.Transcript{Task: s.Task, Policy: s.Told, Tools: s.Tools})
		if err != nil {
			return c, fmt.Errorf("prompt of conversation %s: %w", s.Task.ID, err)
		}
		if tokens > r.Rollout.PromptTokens-min(roomForTurns, r.Rollout.PromptTokens/4) {
			c.TooLong = append(c.TooLong, s.Task.ID)
			continue
		}
		c.First = append(c.First, tokens)
		c.Scenes[s.Task.ID] = Scene{Told: s.Told, Tools: s.Tools, User: envace.Scripted(s.Users)}
		c.Items[s.Task.ID], c.Checklists[s.Task.ID] = s.Items, s.Checklist
		c.Turns[s.Task.ID] = s.Turns
		if len(c.Test) < r.Data.Heldout {
			c.Test = append(c.Test, s.Task)
			continue
		}
		c.Train = append(c.Train, s.Task)
	}
	if len(c.Train) == 0 {
		return c, &audit.Error{
			Code: audit.CodeUnprocessable, Message: fmt.Sprintf("no conversation is left to train on: of %d, %d are held out and %d too long", len(samples), len(c.Test), len(c.TooLong)),
			Hint: "give more data, or lower data.heldout in the recipe",
		}
	}
	return c, nil
}

// examples are what REHEARSE is shown of recorded calls: those of the tasks trained
// on, so that nothing of what is held out is seen in training, and of the sample's own
// only as the published code does.
func (c Conversations) examples(r Rollout) *envace.Examples {
	if r.FutureExamples {
		return envace.NewExamples(c.Turns, 0, true)
	}
	if r.Examples == 0 {
		return nil
	}
	turns := map[string][]audit.Turn{}
	for _, task := range c.Train {
		turns[task.ID] = c.Turns[task.ID]
	}
	return envace.NewExamples(turns, r.Examples, false)
}

// Take puts the conversations into the configuration of a training in their format.
func (c *Config) Take(all Conversations, f *chat.Format) {
	f.Examples = all.examples(c.Recipe.Rollout)
	c.Format, c.Train, c.Test, c.Scenes, c.Conversations = f, all.Train, all.Test, all.Scenes, all.Items
}

// ChatFormat is the format of a model's folder: its tokenizer, and its chat template
// or the one that the recipe names.
func (r Recipe) ChatFormat() (*chat.Format, error) {
	words, err := tokenizer.Load(r.Model.Dir)
	if err != nil {
		return nil, &audit.Error{Code: audit.CodeInvalid, Message: "load the tokenizer of " + r.Model.Dir, Err: err, Hint: "give a folder with config.json, tokenizer.json and *.safetensors"}
	}
	var template *chatml.Template
	if r.Model.Template != "" {
		template, err = chatml.New(chatml.Format(r.Model.Template))
	} else {
		template, err = chatml.Load(r.Model.Dir)
	}
	if err != nil {
		return nil, &audit.Error{Code: audit.CodeInvalid, Message: "read the chat template of " + r.Model.Dir, Err: err, Hint: "name the template that renders the same as chat_template in the recipe's model"}
	}
	return &chat.Format{Template: template, Tokenizer: words, PromptTokens: r.Rollout.PromptTokens, ThinkingSeen: r.Rollout.ThinkingSeen}, nil
}

// Grading is the judge of the conversations, as the recipe has it.
func (r Recipe) Grading(ask judge.AskFunc, all Conversations) *judge.Judge {
	return &judge.Judge{Ask: ask, Checklists: all.Checklists, Temperature: r.Reward.JudgeTemperature, MaxUnknown: r.Reward.MaxUnknown}
}
