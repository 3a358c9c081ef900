// Package tau2 brings tau2-bench's own data into our domains and replays its
// recordings against them.
//
// [Import] reads a data folder (retail/db.json, airline/db.json, telecom/db.toml
// and user_db.toml, tasks.json, policy.md) and returns one [Bundle] a domain: our
// domain's rules under compat mode "tau2", with the folder's state, tasks and
// policy. [Replay] runs a recording through a bundle and reports each line on
// which the two disagree.
//
// The data never becomes part of this repository; it is read from where the user
// has it.
package tau2
