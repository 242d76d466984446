package gateway

import (
	"encoding/json"
	"net/http"
	"strconv"
)

// A problem is why the gateway itself does not forward a request: RFC 9457.
type problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`

	retryAfter int // seconds
}

func problemOf(status int, detail string) *problem {
	return &problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: detail}
}

func (p *problem) Error() string { return p.Detail }

func (p *problem) write(rw http.ResponseWriter) {
	body, err := json.Marshal(p)
	if err != nil {
		panic(err) // of a few strings
	}
	h := rw.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	if p.retryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(p.retryAfter))
	}
	rw.WriteHeader(p.Status)
	rw.Write(body) // a client that has left needs no answer
}
