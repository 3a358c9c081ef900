// Package state is the world of a sandbox: a persistent, insertion-ordered JSON
// tree with one write transaction a call.
//
//	Object, Array   frozen nodes, shared by every snapshot and fork that holds them
//	Tx              one call's transaction: lazy live handles over a frozen root
//	Map, List       the live handles, which Starlark code reads and writes
//
// A commit copies only the path from what was written up to the root; dropping
// the transaction is the rollback; keeping a root pointer is the snapshot and
// copying it is the fork. Diff and Digest are pure functions of the values: two
// calls had the same effect exactly when their deltas are equal.
//
// Scalars are Starlark's own (None, Bool, Int, Float, String), so reading one
// costs no conversion. The package is not a general JSON library: audit/diff
// compares answers, this package keeps worlds.
package state
