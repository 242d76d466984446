package gateway

import (
	"net/http"

	"github.com/penstock-io/penstock/internal/problem"
)

// problemOf returns the problem for a request that the gateway itself refuses to forward.
func problemOf(status int, detail string) *problem.Document {
	p := problem.New(status, detail)
	p.Type = "about:blank"
	return p
}

func write(rw http.ResponseWriter, p *problem.Document) { problem.Write(rw, p.Status, p) }
