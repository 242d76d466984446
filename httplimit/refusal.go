package httplimit

import (
	"fmt"
	"net/http"

	"github.com/penstock-io/penstock"
)

// A RequestError says why a request could not be read. It wraps [penstock.ErrInvalid].
type RequestError struct {
	Status int    // to answer with: 400, 401, 408, 413, 414, 431 or 503; functions of the program may set any from 400 to 599
	Detail string // what is wrong, for the client; it repeats nothing the client sent, except an invalid Host
	Err    error  // the cause, for Options.OnError and not for the client; may be nil
}

func (e *RequestError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("read the request: %s: %v", e.Detail, e.Err)
	}
	return "read the request: " + e.Detail
}

func (e *RequestError) Unwrap() []error {
	if e.Err == nil {
		return []error{penstock.ErrInvalid}
	}
	return []error{penstock.ErrInvalid, e.Err}
}

func refuse(status int, format string, args ...any) *RequestError {
	return &RequestError{Status: status, Detail: fmt.Sprintf(format, args...)}
}

// badRequest rejects a request for a reason that the client may see.
func badRequest(err error) *RequestError { return refuse(http.StatusBadRequest, "%s", err.Error()) }

func tooLong(status int, what string, n int) *RequestError {
	return refuse(status, "%s has %d bytes; at most %d", what, n, MaxValue)
}
