package main

import (
	"fmt"
	"io"
	"strings"

	"understudy/audit"
	"understudy/envace/train"
	"understudy/gpu"
	"understudy/gpu/cuda"
)

// planned prints what a parameter set will take of a card before anything of it is there, and refuses
// what does not fit with what could be lowered. On the CPU nothing is said: --dry-run does.
func (t *training) planned(device gpu.Device, p train.Plan) error {
	card, ok := device.(*cuda.Device)
	if !ok {
		return nil
	}
	free, err := card.FreeMemory()
	if err != nil {
		return err
	}
	set := cardPlan{Plan: p, products: card.Products, mode: card.Mode()}
	if err := set.print(t.inv.stdout, fmt.Sprintf("memory that the training takes of %s (%s, of which %s GiB are free)", t.flags.device, card.Name(), gibibytes(free))); err != nil {
		return err
	}
	return set.refuse(free, t.flags.device)
}

// cardPlan is what a parameter set takes of a card.
type cardPlan struct {
	train.Plan
	products gpu.DType
	mode     gpu.Mode
}

// parts are the memory of the policy and, beside it, of the reference policy.
func (c cardPlan) parts() (cuda.Plan, error) {
	job := cuda.Job{
		Model: c.Model, Products: c.products, Mode: c.mode, Trained: true, Training: &c.Trainer, Moments: c.Moments, Rollouts: &c.Rollouts,
	}
	plan, err := job.Plan()
	if err != nil || !c.Reference {
		return plan, err
	}
	scorer := c.Trainer
	scorer.ScoreOnly = true
	reference, err := cuda.Job{Model: c.Model, Products: c.products, Mode: c.mode, Stored: c.Stored, Training: &scorer}.Plan()
	for _, part := range reference {
		if !strings.HasPrefix(part.What, "scratch") && !strings.HasPrefix(part.What, "room") { // one device's, for both
			plan = append(plan, cuda.Part{What: "the reference policy: " + part.What, Bytes: part.Bytes})
		}
	}
	return plan, err
}

func (c cardPlan) print(w io.Writer, title string) error {
	plan, err := c.parts()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s:\n%s", title, plan)
	return err
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
	try := func(change string, edit func(*cardPlan)) {
		less := c
		edit(&less)
		if plan, err := less.parts(); err == nil && plan.Total() < whole {
			changes = append(changes, fmt.Sprintf("%s saves %s GiB", change, gibibytes(whole-plan.Total())))
		}
	}
	try("gradient_checkpoints: true", func(p *cardPlan) { p.Trainer.Checkpoint = true })
	try("optimizer.moments: bfloat16", func(p *cardPlan) { p.Moments = gpu.BF16 })
	half := "half of micro_tokens"
	if c.Trainer.Tokens/2 < c.Longest { // a micro-batch holds the longest row
		half += ", with prompt_tokens and response_tokens of half their length (other rollouts),"
	}
	try(half, func(p *cardPlan) { p.Trainer.Tokens, p.Trainer.Expanded = p.Trainer.Tokens/2, p.Trainer.Expanded/2 })
	try("half of --kv-memory", func(p *cardPlan) { p.Rollouts.Pages /= 2 })
	try("kl: 0 (another objective)", func(p *cardPlan) { p.Reference = false })
	return "lower one of these: " + strings.Join(changes, "; ")
}
