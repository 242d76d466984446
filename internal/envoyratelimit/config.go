package envoyratelimit

import (
	"cmp"
	"sync/atomic"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/rules"
)

// A Config is files that were found sound. It is immutable and may be shared by any number of
// goroutines.
type Config struct {
	domains map[string]*level
	order   []string // of the domains, as in the files
}

// A level is what descriptors may be at one depth.
type level struct {
	all   []*descriptor // in the file's order
	exact map[penstock.Attribute]*descriptor
	wild  map[string][]*descriptor // by key
	bare  map[string]*descriptor
}

// A descriptor is an entry, or many, and what holds for what ends with it.
type descriptor struct {
	key, value string
	wild       bool // the value has a *
	shared     bool // what fits it is counted as one
	limit      *limit
	below      *level // never nil

	isNamedByValue bool // value_to_metric
}

// A limit is a rate_limit, with what else is said of its descriptor.
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
	way       []*descriptor // to the limit and with it
	isShared  bool          // some of the way are
	isByValue bool          // its statistics are called by values of the request
	counted   atomic.Pointer[Series]

	// Of a limit that is compiled, unless it is unlimited.
	rule     *rules.Rule // that the engine decides by
	patterns []string    // that entries are counted as, one for each; "": as their own value
	alone    bool        // it is charged whatever other limits say
}

// policy is what clients are told that the limit is called.
func (l *limit) policy() string {
	if l.name != "" {
		return l.name
	}
	return l.path
}

// terms are the limit for the engine. One in fixed windows that is charged by itself counts every request.
func (l *limit) terms() penstock.Limit {
	algorithm := cmp.Or(l.algorithm, penstock.FixedWindow)
	return penstock.Limit{
		Algorithm: algorithm, Count: l.count, Window: l.window, Burst: l.burst, CountAll: l.alone && algorithm == penstock.FixedWindow,
	}
}

const day = 24 * time.Hour

// windows are how long the units are. A month is 30 days, whatever the calendar says.
var windows = map[string]time.Duration{
	"second": time.Second, "minute": time.Minute, "hour": time.Hour,
	"day": day, "week": 7 * day, "month": 30 * day, "year": 365 * day,
}

func newLevel() *level {
	return &level{exact: map[penstock.Attribute]*descriptor{}, wild: map[string][]*descriptor{}, bare: map[string]*descriptor{}}
}

// have returns the descriptor of the same key and value, nil if there is none.
func (l *level) have(d *descriptor) *descriptor {
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
	l.exact[penstock.Attribute{Name: d.key, Value: d.value}] = d // a * too: who sends one means it
	if d.wild {
		l.wild[d.key] = append(l.wild[d.key], d)
	}
}
