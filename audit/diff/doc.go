// Package diff decodes JSON strictly, hashes it canonically, compares two
// values under a path policy and describes how state changed as a Patch.
// It knows no domain word of ours: values in, typed differences out.
package diff
