package web

import _ "embed"

//go:embed openapi.json
var openAPIText string

// openAPI is the description of the API, OpenAPI 3.1.
func openAPI() []byte { return []byte(openAPIText) }
