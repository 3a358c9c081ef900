// Package sandbox opens the executable environments that rehearsals are measured
// against: the built-in domains by name, and domains that somebody else wrote, in
// a child process. sandbox/starlark is the engine, sandbox/state the world it
// keeps, sandbox/sandboxtest the suite that every environment passes.
package sandbox
