// Package proof tries a sandbox domain before anyone is judged by it: it runs
// every task's reference solution, mutates the solutions to see whether the
// checks notice (the kill rate), lets agents that do nothing or do too much
// attempt the tasks, and soaks the rules in random calls that know the state
// while the domain's invariants are watched.
//
//	Tasks    solvable? does the initial state fail?
//	Mutants  dropped step, changed argument, changed target, extra step: killed?
//	Agents   idle and destroyer: must score 0
//	Soak     N seeded calls: invariants, refusals without effects, families reached
//
// It works on any audit.Environment whose sessions are Staters and Checkers;
// what it draws depends only on the seed. It judges domains, never policies.
package proof
