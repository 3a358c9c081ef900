package main

import (
	"fmt"
	"slices"
	"strings"

	"understudy/audit"
	"understudy/envace/train"
	"understudy/gpu"
	"understudy/gpu/cuda"
)

// planAhead is planAll before the tasks are made, which takes long, or as much of it as is known by then: whether there
// is the card, and what a model of a folder takes. Words of the tiny format come with the tasks.
func (t *training) planAhead(runs []train.Config) error {
	o, err := t.flags.card()
	if o == nil || err != nil || t.flags.ceiling {
		return err
	}
	if _, _, err := t.flags.cardMemory(*o); err != nil {
		return err
	}
	if t.recipe.Format == "tiny" || t.recipe.Model.Dir == "" {
		return nil
	}
	return t.planAll(runs)
}

// planAll is planned for all runs, before the first of them trains: of a sweep that takes days, an arm that does not fit
// is told of now.
func (t *training) planAll(runs []train.Config) error {
	for _, c := range runs {
		if err := t.planned(c); err != nil {
			return ofRun(c, err)
		}
	}
	return nil
}

// planned prints what a run will take of a card, once for all that take the same, before anything of it is there, and
// refuses what does not fit with what could be lowered. On the CPU nothing is said: --dry-run does.
func (t *training) planned(c train.Config) error {
	o, err := t.flags.card()
	if o == nil || err != nil {
		return err
	}
	card, free, err := t.flags.cardMemory(*o)
	if err != nil {
		return err
	}
	c.Recipe, c.Format, c.KVMemory = t.recipe, t.common.Format, t.flags.chat.kv.bytes()
	sets, err := c.Plans(o.KVType())
	if err != nil {
		return err
	}
	plan := cardPlan{sets: sets, products: o.Products, mode: t.recipe.EngineMode()}
	text, err := plan.text()
	if err != nil {
		return err
	}
	if !slices.Contains(t.printed, text) {
		t.printed = append(t.printed, text)
		fmt.Fprintf(t.inv.stdout, "memory that the training takes of %s (%s, of which %s GiB are free):\n%s", t.flags.device, card.Name, gibibytes(free), text)
	}
	return plan.refuse(free, t.flags.device)
}

// cardPlan is what a run takes of a card.
type cardPlan struct {
	sets     []train.Plan
	products gpu.DType
	mode     gpu.Mode
}

// parts are the memory of each parameter set and, beside it, of its reference policy.
func (c cardPlan) parts() (all cuda.Plan, err error) {
	for _, set := range c.sets {
		of := ""
		if len(c.sets) > 1 {
			of = fmt.Sprintf("%s: ", set.Set)
		}
		parts, err := c.partsOf(set)
		if err != nil {
			return nil, err
		}
		for _, part := range parts {
			all = append(all, cuda.Part{What: of + part.What, Bytes: part.Bytes})
		}
	}
	return all, nil
}

func (c cardPlan) partsOf(set train.Plan) (cuda.Plan, error) {
	job := cuda.Job{
		Model: set.Model, Products: c.products, Mode: c.mode, Trained: true, Training: &set.Trainer, Moments: set.Moments, Rollouts: &set.Rollouts,
	}
	plan, err := job.Plan()
	if err != nil || !set.Reference {
		return plan, err
	}
	scorer := set.Trainer
	scorer.ScoreOnly = true
	reference, err := cuda.Job{Model: set.Model, Products: c.products, Mode: c.mode, Stored: set.Stored, Training: &scorer}.Plan()
	for _, part := range reference {
		if !strings.HasPrefix(part.What, "scratch") && !strings.HasPrefix(part.What, "room") { // one device's, for both
			plan = append(plan, cuda.Part{What: "the reference policy: " + part.What, Bytes: part.Bytes})
		}
	}
	return plan, err
}

// text is the parts, one a line.
func (c cardPlan) text() (string, error) {
	plan, err := c.parts()
	return plan.String(), err
}

// refuse is an error when there is less memory than the plan takes.
func (c cardPlan) refuse(free int64, device string) error {
	plan, err := c.parts()
	if err != nil {
		return err
	}
	if err := plan.Fits(free); err != nil {
		return &audit.Error{
			Code: audit.CodeLimit, Message: fmt.Sprintf("the training takes %s GiB and %s has %s GiB free", gibibytes(plan.Total()), device, gibibytes(free)),
			Hint: c.lowered(plan.Total()),
		}
	}
	return nil
}

// lowered says what each change would save, alone.
func (c cardPlan) lowered(whole int64) string {
	var changes []string
	try := func(change string, edit func(*train.Plan)) {
		less := c
		less.sets = slices.Clone(c.sets)
		for i := range less.sets {
			edit(&less.sets[i])
		}
		if plan, err := less.parts(); err == nil && plan.Total() < whole {
			changes = append(changes, fmt.Sprintf("%s saves %s GiB", change, gibibytes(whole-plan.Total())))
		}
	}
	try("gradient_checkpoints: true", func(p *train.Plan) { p.Trainer.Checkpoint = true })
	try("optimizer.moments: bfloat16", func(p *train.Plan) { p.Moments = gpu.BF16 })
	half := "half of micro_tokens"
	if one := c.sets[0]; one.Trainer.Tokens/2 < one.Longest { // a micro-batch holds the longest row
		half += ", with prompt_tokens and response_tokens of half their length (other rollouts),"
	}
	try(half, func(p *train.Plan) { p.Trainer.Tokens, p.Trainer.Expanded = p.Trainer.Tokens/2, p.Trainer.Expanded/2 })
	try("half of --kv-memory", func(p *train.Plan) { p.Rollouts.Pages /= 2 })
	try("kl: 0 (another objective)", func(p *train.Plan) { p.Reference = false })
	if len(c.sets) > 1 {
		one := c
		one.sets = c.sets[:1]
		if plan, err := one.parts(); err == nil {
			changes = append(changes, fmt.Sprintf("another arm, of one parameter set, saves %s GiB", gibibytes(whole-plan.Total())))
		}
	}
	return "lower one of these: " + strings.Join(changes, "; ")
}
