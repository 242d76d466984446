package api

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/problem"
	"github.com/penstock-io/penstock/internal/webguard"
)

// A requestState is the memory for one request. It is reused for later ones.
type requestState struct {
	body    bytes.Buffer
	call    penstock.Call
	verdict penstock.Verdict
	answer  []byte
}

// maxKept bounds the memory that an exchange keeps, so that the memory of a large batch is freed.
const maxKept = 64 << 10

func (a *api) begin() *requestState { return a.exchanges.Get().(*requestState) }

func (a *api) end(x *requestState) {
	if x.body.Cap() > maxKept || cap(x.answer) > maxKept {
		return
	}
	a.exchanges.Put(x)
}

// read reads the body of a request, which must be JSON of at most the given number of bytes. If it is not, read has
// sent a response.
func (x *requestState) read(w http.ResponseWriter, r *http.Request, most int64) bool {
	if err := webguard.CheckJSON(r.Header); err != nil {
		w.Header().Set("Accept-Post", "application/json")
		fail(w, http.StatusUnsupportedMediaType, err.Error())
		return false
	}
	x.body.Reset()
	_, err := x.body.ReadFrom(http.MaxBytesReader(w, r.Body, most))
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		fail(w, http.StatusRequestEntityTooLarge, fmt.Sprintf("the body has more than %d bytes", most))
		return false
	}
	if err != nil {
		fail(w, http.StatusBadRequest, "the body ended early")
		return false
	}
	return true
}

var jsonType = []string{"application/json"}

// reply sends the response.
func (x *requestState) reply(w http.ResponseWriter) {
	problem.Header(w.Header(), jsonType)
	_, _ = w.Write(x.answer) // a client that has gone away needs no error
}
