// Package gate decides whether a policy may be released: a gate policy (YAML)
// plus the counts of a run, and of a baseline run, give PASS, FAIL, INCONCLUSIVE
// or ERROR.
//
//	Load(yaml) ─► Policy ┐
//	                     ├─► Decide ─► Verdict ─► Report* (JUnit, SARIF, Markdown, JSON, badge, HTML)
//	Collect(source) ─► Evidence ┘         │  └──► Buy (the calls that are missing)
//	                                      └─────► Verify (the JSON, offline, to the same bytes)
//
// Decide is pure: it reads no clock, no file and no store, so that a verdict can
// be recomputed from its own report.
//
// A check passes when the confidence bound clears its limit, fails when the
// opposite bound breaks it, and is inconclusive otherwise: no data is never a
// pass. The unit of evidence is the prompt group. With looks: anytime (the
// default) the bounds stay valid however often the gate is asked while calls
// come in; with looks: once they are Clopper-Pearson bounds on n/deff, a little
// sharper, for a run that is judged exactly once.
package gate
