package docs_test

import (
	"testing"

	"github.com/penstock-io/penstock/docs"
	"github.com/penstock-io/penstock/internal/baseline"
	"github.com/penstock-io/penstock/internal/openapitest"
)

func TestDecisionAPIIsCompatible(t *testing.T) { compatible(t, docs.OpenAPI, "openapi.baseline") }

func TestAdminAPIIsCompatible(t *testing.T) {
	compatible(t, docs.AdminOpenAPI, "admin-openapi.baseline")
}

func compatible(t *testing.T, text []byte, file string) {
	t.Helper()
	document, err := openapitest.Read(text)
	if err != nil {
		t.Fatal(err)
	}
	baseline.Check(t, file, document.Promises())
}
