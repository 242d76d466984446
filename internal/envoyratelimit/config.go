package envoyratelimit

import (
	"cmp"
	"sync/atomic"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/rules"
)

// A Config is a set of valid files. It is immutable and safe for concurrent use.
type Config struct {
	domains map[string]*level
	order   []string // of the domains, as in the files
}

// A level is the descriptors at one depth.
type level struct {
	all   []*descriptor // in the file's order
	exact map[penstock.Attribute]*descriptor
	wild  map[string][]*descriptor // by key
	bare  map[string]*descriptor
}

// A descriptor matches one entry, or many, and has the limit for descriptors that end with it.
type descriptor struct {
	key, value string
	wild       bool // the value has a *
	shared     bool // all values that match are counted as one
	limit      *limit
	below      *level // never nil

	isNamedByValue bool // value_to_metric
}

// A limit is a rate_limit with the other settings of its descriptor.
type limit struct {
	path      string // domain.key_value.key
	name      string // may be empty
	replaces  []string
	unlimited bool
	count     int64
	window    time.Duration
	algorithm penstock.Algorithm // 0: fixed windows
	burst     int64              // of a token bucket; 0: the count
	shadow    bool
	quota     bool
	metadata  map[string]any

	isDetailed bool // detailed_metric

	// Of a limit in a file, for statistics.
	way       []*descriptor // the descriptors that lead to the limit, including its own
	isShared  bool          // some of them are shared
	isByValue bool          // the names of its statistics contain values of the request
	counted   atomic.Pointer[Series]

	// Of a compiled limit, unless it is unlimited.
	rule     *rules.Rule // the engine decides by it
	patterns []string    // what each entry is counted as; "": as its own value
	alone    bool        // it is charged regardless of other limits
}

// policy is the name of the limit that clients see.
func (l *limit) policy() string { return cmp.Or(l.name, l.path) }

// terms returns the limit for the engine. A limit in fixed windows that is charged by itself counts every request.
func (l *limit) terms() penstock.Limit {
	algorithm := cmp.Or(l.algorithm, penstock.FixedWindow)
	return penstock.Limit{
		Algorithm: algorithm, Count: l.count, Window: l.window, Burst: l.burst, CountAll: l.alone && algorithm == penstock.FixedWindow,
	}
}

const day = 24 * time.Hour

// windows are the lengths of the units. A month is always 30 days.
var windows = map[string]time.Duration{
	"second": time.Second, "minute": time.Minute, "hour": time.Hour,
	"day": day, "week": 7 * day, "month": 30 * day, "year": 365 * day,
}

func newLevel() *level {
	return &level{exact: map[penstock.Attribute]*descriptor{}, wild: map[string][]*descriptor{}, bare: map[string]*descriptor{}}
}

// lookUp returns the descriptor with the same key and value, or nil if there is none.
func (l *level) lookUp(d *descriptor) *descriptor {
	if d.value == "" {
		return l.bare[d.key]
	}
	return l.exact[penstock.Attribute{Name: d.key, Value: d.value}]
}

func (l *level) add(d *descriptor) {
	l.all = append(l.all, d)
	if d.value == "" {
		l.bare[d.key] = d
		return
	}
	l.exact[penstock.Attribute{Name: d.key, Value: d.value}] = d // also a *, for requests that send a literal one
	if d.wild {
		l.wild[d.key] = append(l.wild[d.key], d)
	}
}
