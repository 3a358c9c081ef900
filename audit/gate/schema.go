package gate

import _ "embed" // the schemas

//go:embed schema/policy.json
var policySchema []byte

//go:embed schema/verdict.json
var verdictSchema []byte

// PolicySchema is the JSON Schema (2020-12) of a gate policy, for editors.
func PolicySchema() []byte { return append([]byte(nil), policySchema...) }

// VerdictSchema is the JSON Schema (2020-12) of the JSON report.
func VerdictSchema() []byte { return append([]byte(nil), verdictSchema...) }
