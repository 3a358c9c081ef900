// Package adapter holds what every adapter to somebody else's environment
// needs: arguments are validated on our side before anything foreign sees them,
// refusals have one shape, and states that come as JSON text become exact
// deltas. The adapters themselves (pyclass, mcp, openenv, openapi) never know
// each other.
package adapter
