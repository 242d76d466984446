package gateway

import (
	"net/http"

	"github.com/penstock-io/penstock/internal/problem"
)

// problemOf is why the gateway itself does not forward a request.
func problemOf(status int, detail string) *problem.Document {
	p := problem.New(status, detail)
	p.Type = "about:blank"
	return p
}

func write(rw http.ResponseWriter, p *problem.Document) { problem.Write(rw, p.Status, p) }
