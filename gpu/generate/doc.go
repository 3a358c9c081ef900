// Package generate writes text with a model: many requests at once, over one
// paged KV arena, with prefixes computed once.
//
//	Engine.Generate ──► queue ──► scheduler ──► gpu.Runner.Step ──► sample ──► Result
//	(any goroutine)               one goroutine; each turn is one step of decode
//	                              rows and, in the room that is left, prefill rows
//
// A request's life:
//
//	        submit                admit                  prefix is there
//	(new) ─────────► queued ─────────────► waiting ◄───► prefill ──────► decode ──┐
//	  │ cannot ever    │   pages for the     │  another     │ its own      │  ▲    │ one token
//	  │ fit: ErrBudget │   whole of it are   │  request     │ chunks       │  └────┘ a step
//	  ▼                │   reserved          │  computes it │              │
//	refused            ▼                     ▼              ▼              ▼
//	                 (cancelled: pages are free again before Generate returns)
//	                                                                       │
//	              stop: an end token, a stop string, a complete grammar ◄──┤
//	              length: Max tokens ◄─────────────────────────────────────┤
//	              error: logits that are no numbers; the others go on ◄────┘
//
// Pages are reserved for the whole of a request when it is admitted, first come
// first served, so that one that runs is never short of memory, and nothing is
// swapped out. Prefixes form a tree (tree.go): a node is a run of tokens with its
// pages, shared by all that begin so, such as the K rollouts of a prompt. What
// was generated stays in the tree until its room is needed, so that a
// conversation that goes on is not computed again; Hold keeps it there.
//
// Where the device draws tokens (gpu.Sampler), only rows whose logits serve for more come to the host.
//
// The same seed gives the same text whatever else is in the batch: on a device
// in gpu.Exact mode a row's logits have the same bits alone and in company, and
// each token's random number is a function of seed and place alone.
//
// It knows no text but the bytes of each token, and no templates: prompts are
// token ids. Read next: request.go, engine.go, scheduler.go.
package generate
