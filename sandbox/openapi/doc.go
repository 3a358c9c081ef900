// Package openapi mounts HTTP backends that an OpenAPI 3 document describes, in
// JSON or YAML: every operation is a tool, its parameters and the fields of its
// JSON body are the arguments. Episodes are kept apart by a header with a value
// of its own for each, by cookies, or by what a seeding request returns; NeMo
// Gym's resources servers are of the last kind.
//
// The HTTP status says what became of a call (outcome.go), except where the body
// of a success is an error.
package openapi
