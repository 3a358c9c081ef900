// Package synth makes sandbox domains from recorded requests, with a language
// model as their author: EnvScaler's two stages (arXiv 2601.05808), with Starlark
// in the place of Python.
//
//	requests ──mine──► themes ──embed, drop near-duplicates──► themes
//	                                                             │ per theme
//	   plan (state, rules, tools) ──► code, tool by tool ──► trial ──► score ≥ threshold?
//	          each piece compiled and guarded       │ testing agent calls,    │ no: mend what failed, try again
//	                                                │ checking agent judges   │
//	                                                ▼                         ▼ yes
//	                                  scenarios: a world, a task, its solution and checks
//
// Nothing that the model writes runs in this process: every draft is compiled and
// called in a sandbox child. A draft lives in a hidden folder until it is
// accepted; what was made stays when a run is cut short.
package synth
