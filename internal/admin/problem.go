package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/ruledb"
	"github.com/penstock-io/penstock/internal/wire"
	"github.com/penstock-io/penstock/rules"
)

// A Code says for programs why something was refused.
type Code string

const (
	Invalid      Code = "invalid"
	NotFound     Code = "not_found"
	Conflict     Code = "conflict"
	Unavailable  Code = "unavailable"
	Forbidden    Code = "forbidden"
	Unauthorized Code = "unauthorized"
	Limited      Code = "limited"
	Internal     Code = "internal"
)

// A Problem is the body of an answer that is not what was asked for (RFC 9457), of type about:blank.
type Problem struct {
	Title  string         `json:"title"`
	Status int            `json:"status"`
	Code   Code           `json:"code"`
	Detail string         `json:"detail,omitempty"`
	Errors []wire.Mistake `json:"errors,omitempty"` // every mistake in what was asked

	Problems rules.Problems `json:"problems,omitempty"` // with rules, in their places
	Current  *Version       `json:"current,omitempty"`  // that a change collided with
	Diff     string         `json:"diff,omitempty"`     // of what others changed meanwhile

	retryAfter int64 // seconds
}

func (p *Problem) Error() string { return p.Detail }

func problem(status int, code Code, detail string) *Problem {
	return &Problem{Title: http.StatusText(status), Status: status, Code: code, Detail: detail}
}

func invalid(format string, args ...any) *Problem {
	return problem(http.StatusBadRequest, Invalid, fmt.Sprintf(format, args...))
}

// mistaken is about what was asked, with all that is wrong with it; nil if nothing is.
func mistaken(mistakes []wire.Mistake) error {
	if len(mistakes) == 0 {
		return nil
	}
	listed := wire.Mistakes{List: mistakes}
	p := problem(http.StatusBadRequest, Invalid, listed.Error())
	p.Errors = mistakes
	return p
}

// problemOf says what an error means to who asked. Of what should not happen it tells nothing.
func problemOf(err error) *Problem {
	if p, ok := errors.AsType[*Problem](err); ok {
		return p
	}
	if mistakes, ok := errors.AsType[rules.Problems](err); ok {
		p := invalid("the rules have %s", counted(len(mistakes), "mistake"))
		p.Problems = mistakes
		return p
	}
	if conflict, ok := errors.AsType[*ruledb.Conflict](err); ok {
		p := problem(http.StatusConflict, Conflict, conflict.Error())
		current := versionOf(&conflict.Current)
		p.Current, p.Diff = &current, conflict.Diff()
		return p
	}
	switch {
	case errors.Is(err, ruledb.ErrNotFound):
		return problem(http.StatusNotFound, NotFound, err.Error())
	case errors.Is(err, penstock.ErrUnavailable), errors.Is(err, ruledb.ErrUnavailable), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return problem(http.StatusServiceUnavailable, Unavailable, err.Error())
	case errors.Is(err, penstock.ErrInvalid):
		return problem(http.StatusBadRequest, Invalid, err.Error())
	}
	return problem(http.StatusInternalServerError, Internal, "this is a fault of the server, whose log says more")
}

// fail answers with a problem.
func fail(w http.ResponseWriter, p *Problem) {
	body, _ := json.Marshal(p) // texts and numbers: it cannot fail
	h := w.Header()
	h.Set("Content-Type", wire.ProblemType)
	if p.Status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", "Bearer")
	}
	if p.Status == http.StatusTooManyRequests {
		h.Set("Connection", "close") // every further guess takes a new connection, of which a client has few
	}
	if p.retryAfter > 0 {
		h.Set("Retry-After", strconv.FormatInt(p.retryAfter, 10))
	}
	w.WriteHeader(p.Status)
	_, _ = w.Write(body) // who went away is not told
}

func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
