// Package gpu is the engine: one narrow transformer, forward and backward by
// hand, for training and for rollouts with the same numbers.
//
// It knows decoder-only models of the Qwen3 and Llama types: RMSNorm, rotary
// positions, grouped-query attention with or without norms of queries and keys,
// SwiGLU, a tied or an untied head. It is no graph compiler and differentiates
// nothing by itself: a step is a list of calls of a [Device], in the order in
// which one reads them (the manner of llm.c).
//
//	config.json, *.safetensors ──► Model ──► Runner.Step   rows → logits      (gpu/generate)
//	                                 │
//	                                 └─────► Trainer.Forward  packed sequences → log-probabilities, entropy
//	                                         Trainer.Backward gradients of any loss on those
//	                                         AdamW.Update
//
// A [Device] holds memory and the list of operations: gpu/reference is plain
// Go in float64, the oracle of all tests; gpu/host runs on the CPU's vector
// units; gpu/cuda on a GPU. Shapes are written beside every buffer, one letter a
// dimension:
//
//	R rows of a step   T tokens of a micro-batch   C width of the model   F width of the MLP
//	H query heads      G key/value heads           D width of a head      V vocabulary
//	L layers           S slots of the KV arena     B sequences            P pages of a sequence
//	M rows to score    E rows of attention when sequences share beginnings (tree.go)
//
// Read next: example_test.go, device.go, model.go, step.go, batch.go, train.go.
package gpu
