// Package openenv mounts OpenEnv servers as environments, over their WebSocket.
// The HTTP routes /reset, /step and /state are never used: they make and destroy
// an environment for each request.
//
// One connection is one environment. The server's own classification of errors
// goes by words in their texts ("not found" is a missing tool), so errors are
// classified again here. What the protocol calls state holds an episode's id and
// its number of steps, and whatever else the server shows; Viewer leaves the
// first two out.
package openenv
