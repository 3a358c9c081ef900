// Package audit is the domain of Understudy: what a policy did (Action,
// Rehearsal), what really happens (Environment, Session, Observation), and the
// judgement of one against the other (Pair, Verdict, Figures, Reward).
//
// It knows no technology. Stores, queues, environments, policies and pages are
// packages of their own that implement the ports declared here; cmd/understudy
// alone wires them. Read Auditor.Audit first.
package audit
