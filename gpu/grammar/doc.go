// Package grammar says which tokens may come next, so that what a model writes
// is JSON that its schema accepts, whatever the logits are.
//
//	JSON Schema ──compile──► nodes ──Start──► State ──Mask──► allowed tokens
//	                                            ▲                  │ sample
//	                                            └────Write─────────┘
//
// A State is a set of stacks over the bytes written so far (a pushdown
// automaton, nondeterministic only where anyOf leaves a choice). Mask walks the
// vocabulary's trie of token bytes against it, so a token that spans structure
// (`"},{"`) or half a character is judged byte by byte. What a stack's top frame
// decides alone is computed once and kept; only the tokens that leave the frame
// are walked again.
//
// Every state knows the fewest bytes that complete it. A mask with a limit
// admits only tokens after which the shortest completion still fits, so a
// generation of bounded length always ends in a whole document.
//
// What is written is compact JSON, with at most one space after ':' and ','.
// Keys that the schema does not declare are written without escapes; nothing
// stops a model from writing such a key twice. Integers have at most 15 digits,
// other numbers 12 digits before and 6 after the point; a text with a `pattern` is
// plain ASCII without quotes. `format` and the
// contents of strings (`contentEncoding`) are not enforced: Grammar.Ignored
// lists them. A keyword that cannot be kept is refused by name.
//
// It is not a validator, and it knows no tokenizer: a Vocabulary is the bytes of
// each token id.
package grammar
