package rls

import (
	"context"
	"time"

	"github.com/penstock-io/penstock"
)

// A Limiter answers requests. Like a [penstock.Decider] it still answers while its store is unavailable, if it can.
// An error that wraps [penstock.ErrInvalid] means that the request is invalid; any other error, that nothing could be
// decided.
type Limiter interface {
	Limit(ctx context.Context, r *Request) (*Answers, error)
}

// A Request is what Envoy asks about one request of a client.
type Request struct {
	Domain      string
	Descriptors []Descriptor

	answers Answers // of the call that this is part of
}

// Answers returns answers to fill, one for each descriptor. They are valid until the response is encoded.
func (r *Request) Answers() *Answers {
	n, all := len(r.Descriptors), &r.answers
	if cap(all.Each) < n {
		all.Each = make([]Answer, n)
	}
	all.Allowed, all.Each = true, all.Each[:n]
	for i := range all.Each {
		limits := all.Each[i].Verdict.Limits[:0]
		all.Each[i] = Answer{}
		all.Each[i].Verdict.Limits = limits
	}
	return all
}

// A Descriptor is one way to count a request.
type Descriptor struct {
	Entries []penstock.Attribute // in order; names may be empty or repeated, values of any length: see Countable
	Cost    int64                // 0 is a peek
	Refund  bool                 // the cost is refunded
	ID      string               // of the request, by which its charge can be refunded; may be empty
	Limit   *Override            // nil: according to the rules
}

// An Override is a limit in a descriptor that replaces the rules.
type Override struct {
	Count  int64
	Window time.Duration
}

// Answers are the decisions, one for each descriptor, in order.
type Answers struct {
	Allowed bool // the whole request
	Each    []Answer
}

// An Answer is the decision for one descriptor.
type Answer struct {
	Verdict penstock.Verdict

	// Told is the limit that is reported to Envoy, which need not be the one that decided; nil: none applied.
	Told *penstock.LimitVerdict
	Name string // its name; may be empty

	Unlimited bool           // a rule says that there is no limit
	Quota     bool           // the limit is in quota mode: being over it does not deny the request by itself
	Metadata  map[string]any // for Envoy's dynamic metadata, as in JSON
}
