// Package docs holds the documents that the program serves as they are.
package docs

import _ "embed"

// OpenAPI describes the decision API.
//
//go:embed openapi.json
var OpenAPI []byte

// AdminOpenAPI describes the admin API.
//
//go:embed admin-openapi.json
var AdminOpenAPI []byte
