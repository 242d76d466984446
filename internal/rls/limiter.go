package rls

import (
	"context"
	"time"

	"github.com/penstock-io/penstock"
)

// A Limiter answers requests. Like a [penstock.Decider] it answers while its store does not, if it
// can: an error that wraps [penstock.ErrInvalid] blames the request, with any other nothing could be
// decided.
type Limiter interface {
	Limit(ctx context.Context, r *Request) (*Answers, error)
}

// A Request is what Envoy wants to know of one call.
type Request struct {
	Domain      string
	Descriptors []Descriptor
}

// A Descriptor is one way in which a call is counted.
type Descriptor struct {
	Entries []penstock.Attribute // in order; a name may be empty or there twice, a value of any length: see Countable
	Cost    int64                // 0 is a peek
	Refund  bool                 // the cost is given back
	ID      string               // of the request, by which what it is charged can be given back; may be empty
	Limit   *Override            // nil: as the rules say
}

// An Override is a limit that comes with a descriptor, in place of what the rules say.
type Override struct {
	Count  int64
	Window time.Duration
}

// Answers are what was decided, one for each descriptor in order.
type Answers struct {
	Allowed bool // the whole request
	Each    []Answer
}

// An Answer is about one descriptor.
type Answer struct {
	Verdict penstock.Verdict

	// Told is the limit that Envoy is told of, which need not have had a say; nil: none applied.
	Told *penstock.LimitVerdict
	Name string // what it is called there; may be empty

	Unlimited bool           // a rule says that there is no limit
	Quota     bool           // the limit is in quota mode: being over it does not deny the request by itself
	Metadata  map[string]any // for Envoy's dynamic metadata, as in JSON
}
