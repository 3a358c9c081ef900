// Package grpo is the arithmetic of role-wise GRPO (arXiv 2608.06197, the
// method's baseline and objective): which outputs share a baseline, what each
// output's advantage is, and what each sampled token adds to the loss and to its
// derivative. It holds numbers only: no model, no text, no I/O.
//
//	outputs of K rollouts ──Advantages──► A per output ──Loss.Row──► loss, ∂loss/∂logprob per token
//
// Options beside the paper's recipe (clip-higher, dual clip, division by the
// standard deviation, sequence ratios, truncated importance weights) are off in
// the zero value.
package grpo
