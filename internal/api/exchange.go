package api

import (
	"bytes"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strings"

	"github.com/penstock-io/penstock"
)

// An exchange is the memory of one request, used again for later ones.
type exchange struct {
	body    bytes.Buffer
	call    penstock.Call
	verdict penstock.Verdict
	answer  []byte
}

// maxKept is how much memory an exchange may keep: a large batch must not stay for ever.
const maxKept = 64 << 10

func (a *api) begin() *exchange { return a.exchanges.Get().(*exchange) }

func (a *api) end(x *exchange) {
	if x.body.Cap() > maxKept || cap(x.answer) > maxKept {
		return
	}
	a.exchanges.Put(x)
}

// read takes the body of a request, which must be JSON of so many bytes. If it is not, read has
// answered.
func (x *exchange) read(w http.ResponseWriter, r *http.Request, most int64) bool {
	if err := acceptable(r.Header); err != nil {
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
		fail(w, http.StatusBadRequest, "the body broke off")
		return false
	}
	return true
}

// acceptable tells why a body cannot be read. A browser asks before it sends application/json to
// another site, so that insisting on it keeps foreign pages out.
func acceptable(h http.Header) error {
	given := h.Get("Content-Type")
	media, parameters, err := mime.ParseMediaType(given)
	if err != nil || media != "application/json" {
		return fmt.Errorf("content type %.100q must be application/json", given)
	}
	for name, value := range parameters {
		if name != "charset" || !strings.EqualFold(value, "utf-8") {
			return fmt.Errorf("content type %.100q must be application/json, in UTF-8", given)
		}
	}
	if coding := h.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		return fmt.Errorf("content encoding %.100q is not read: send the body as it is", coding)
	}
	return nil
}

// reply sends the answer.
func (x *exchange) reply(w http.ResponseWriter) {
	header(w, "application/json")
	_, _ = w.Write(x.answer) // who went away is not told
}
