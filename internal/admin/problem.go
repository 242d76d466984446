package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/problem"
	"github.com/penstock-io/penstock/internal/ruledb"
	"github.com/penstock-io/penstock/internal/spelling"
	"github.com/penstock-io/penstock/internal/wire"
	"github.com/penstock-io/penstock/rules"
)

// A Code is the machine-readable reason of a refusal.
type Code = string

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

// A Problem is the body of an error response (RFC 9457), of type about:blank.
type Problem struct {
	problem.Document

	Problems rules.Problems `json:"problems,omitempty"` // in the rules, with positions
	Current  *Version       `json:"current,omitempty"`  // the version a change conflicts with
	Diff     string         `json:"diff,omitempty"`     // what others have changed since
}

func refuse(status int, code Code, detail string) *Problem {
	p := &Problem{Document: *problem.New(status, detail)}
	p.Code = code
	return p
}

func invalid(format string, args ...any) *Problem {
	return refuse(http.StatusBadRequest, Invalid, fmt.Sprintf(format, args...))
}

// mistake returns an error for a request in which one thing is wrong.
func mistake(at, format string, args ...any) error {
	var m wire.FieldErrors
	m.Add(at, format, args...)
	return m.Err()
}

// problemOf returns the problem for an error. It reveals nothing about unexpected errors.
func problemOf(err error) *Problem {
	if p, ok := errors.AsType[*Problem](err); ok {
		return p
	}
	if mistakes, ok := errors.AsType[*wire.FieldErrors](err); ok {
		p := invalid("%v", mistakes)
		p.Errors = mistakes.List
		return p
	}
	if mistakes, ok := errors.AsType[rules.Problems](err); ok {
		p := invalid("the rules have %s", spelling.Count(len(mistakes), "mistake"))
		p.Problems = mistakes
		return p
	}
	if conflict, ok := errors.AsType[*ruledb.Conflict](err); ok {
		p := refuse(http.StatusConflict, Conflict, conflict.Error())
		p.Current, p.Diff = new(versionOf(&conflict.Current)), conflict.Diff()
		return p
	}
	switch {
	case errors.Is(err, ruledb.ErrRefused):
		return refuse(http.StatusConflict, Conflict, err.Error())
	case errors.Is(err, ruledb.ErrNotFound), errors.Is(err, ruledb.ErrNobody):
		return refuse(http.StatusNotFound, NotFound, err.Error())
	case errors.Is(err, penstock.ErrUnavailable), errors.Is(err, ruledb.ErrUnavailable), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return refuse(http.StatusServiceUnavailable, Unavailable, err.Error())
	case errors.Is(err, penstock.ErrInvalid):
		return refuse(http.StatusBadRequest, Invalid, err.Error())
	}
	return refuse(http.StatusInternalServerError, Internal, "internal error; see the server log")
}

// fail writes a problem as the response.
func fail(w http.ResponseWriter, p *Problem) {
	h := w.Header()
	if p.Status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", "Bearer")
	}
	if p.Status == http.StatusTooManyRequests {
		h.Set("Connection", "close") // every further guess takes one of the few connections of a client
	}
	problem.Write(w, p.Status, p)
}
