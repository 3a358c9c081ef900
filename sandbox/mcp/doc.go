// Package mcp mounts MCP servers as environments, and offers environments as an
// MCP server (Handler and Serve).
//
// A server is a command that speaks over stdin and stdout, one process an
// episode, or a URL that speaks streamable HTTP. Both eras of the protocol are
// spoken: server/discover first (2026-07-28, without sessions), else initialize
// with its session id. MCP itself can neither export nor fork a state. A server
// that advertises the extension understudy/sandbox can (wire.go); of any other,
// declared probes show what a write did (adapter.Probe).
//
// Numbers are taken from the bytes on the wire, never from the SDK's decoded
// values, which are doubles. A call that gets no answer has an unknown outcome:
// it may have happened, and the episode is given up.
package mcp
