// Package pyclass mounts environments that are Python classes: EnvScaler-style
// (class text, initial configuration, check functions), BFCL multi-turn and
// ACEBench classes (_load_scenario, public methods), and tau2 toolkits;
// several classes may share a world, as BFCL's tasks have it. A bundled runner of the standard library executes them in a jailed child
// process over JSON lines; many sessions share one runner, and a runner that
// dies or hangs is replaced and its sessions rebuilt by replaying their calls.
//
// The class is not ours and is not trusted: only declared tools are dispatched,
// arguments are validated before they reach it, memory and file writes are
// limited always, and the network is closed where the system allows it (Jail
// says what holds).
package pyclass
