// Package starlark runs sandbox domains: folders of Starlark files whose tools,
// rules, checks and tasks act on a state tree of package state.
//
//	Load ──► Domain (one version, one compat mode; immutable, shared)
//	            │ NewEnvironment
//	            ▼
//	        Environment ── Open ──► Session ── Call ──► Observation
//
// Every call is one transaction: arguments are validated, the handler runs under
// a step limit and a guard, a refusal rolls its writes back, and the delta is the
// canonical difference of the state before and after. Clock, ids and randomness
// live in the state under "$sys", so that a rehearsed and a real call agree.
//
// The guard and the limits narrow accidents. Domains that were not shipped with
// the binary run in a child process instead (NewChildEnvironment).
package starlark
