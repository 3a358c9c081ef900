// Package envace holds the two roles of an EnvACE policy (arXiv 2608.06197):
// ACT, which emits a tool call, and REHEARSE, which plays the environment and
// answers it. Today it defines the REHEARSE contract: what the role is told,
// and how its text is read. It never imports the sandbox: the policy must not
// see the answer.
package envace
