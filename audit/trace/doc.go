// Package trace reads trajectories that somebody already recorded and turns
// them into episodes, and writes audited episodes back into the formats that
// people's tools read.
//
// A file is a stream of JSON records (lines, the elements of one array, or one
// document) or an Inspect log (a zip of them). A format's reader turns records
// into episodes; whatever it cannot use is counted under a reason, never lost
// in silence and never a reason to give up on the neighbours:
//
//	file ── records ──► reader(format) ──► episode ──► yield
//	                        └── skip(reason, calls) ──► Report
package trace
