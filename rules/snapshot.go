package rules

import (
	"time"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/attribute"
	"github.com/penstock-io/penstock/rules/internal/expr"
	"github.com/penstock-io/penstock/rules/internal/index"
	"github.com/penstock-io/penstock/storage"
)

// A Snapshot is a valid document, compiled for matching. It is immutable and may be shared by any number of
// goroutines.
type Snapshot struct {
	Version  int64  // the one passed to Compile
	Checksum string // SHA-256 of the text in hex; empty with a Matcher

	Rules   []*Rule            // in document order
	Sources []attribute.Source // of attributes, by name
	Hasher  storage.Hasher     // of request ids; rules make their own subjects

	// Matcher, if not nil, finds the rules instead of Match, which then finds none. Its type is known to the package
	// that made it.
	Matcher any

	byNumber map[uint64]*Rule

	all         []Rule // contiguous
	allow, deny []index.Conditions
	index       *index.Index
	bodies      bodyReaders
}

// NewSnapshot returns a snapshot without rules. Code that adds rules must also set a Matcher for them.
func NewSnapshot(o Options) *Snapshot {
	return &Snapshot{Version: o.Version, Hasher: storage.NewHasher(o.Secret), index: index.Build(nil, nil, nil, nil)}
}

// Numbered returns the rule whose subject hasher has the number, or nil.
func (s *Snapshot) Numbered(n uint64) *Rule { return s.byNumber[n] }

// A Rule is one rule of a snapshot.
type Rule struct {
	Name  string
	Index int // in the document

	Key      []KeyPart
	Subjects storage.RuleHasher // made from the key's values, in its order

	// Limits has at least one limit. Where numbers come from data, it has the defaults: see LimitsFor.
	Limits    []*algorithm.Meter
	Policies  []string   // name of each limit: the rule's name, or rule:1m if there are several
	Overrides []Override // the first that holds replaces the limits

	Cost           Cost
	Outcome        *Outcome           // nil: no condition about the response
	Penalty        *algorithm.Penalty // nil: no bans
	Dedup          *algorithm.Dedup   // nil: duplicates are not recognised
	DedupAttribute string             // attribute that holds the request's id; "": the id of the call
	Reserve        time.Duration      // 0: nothing can be settled later
	Overage        algorithm.Overage

	Mode         Mode
	OnStoreError Failure
	Leased       bool
	Owner        string
	Expires      time.Time // zero: never

	item      *index.Item // which requests the rule applies to
	onError   OnError
	numbers   *numbers // of Limits; nil: all are the document's
	readsBody bool
}

// An Override replaces a rule's limits for some of its requests.
type Override struct {
	Limits    []*algorithm.Meter // none if Unlimited
	Policies  []string
	Dedup     *algorithm.Dedup // with the budget that belongs to these limits
	Unlimited bool

	// OwnCounters says that the limits have their own counters, named by MatchID. Otherwise they share the rule's:
	// everything the match reads is part of the key, so a key always gets the same limits.
	OwnCounters bool
	MatchID     uint64 // identifies the match, wherever the override is written; never 0

	Expires time.Time // zero: never

	item    *index.Item // which of the rule's requests the override applies to
	onError OnError
	numbers *numbers // of Limits; nil: all are the document's
}

// A Cost says what a request costs under a rule. The zero Cost means the cost that the call states. A call of
// cost 0 is always a peek, whatever the rule says.
type Cost struct {
	Fixed int64

	// Source of the cost; if none is set, Fixed applies.
	Attribute      string
	ResponseHeader string
	ResponseBytes  bool
	ResponseJSON   string // a field of the response's body

	Cut bool // end a response for which the limits allow no more

	estimate *expr.Expression // the cost, or what to charge until the response tells it; nil: none

	Default int64 // used if the cost is missing or not a number
	Max     int64 // larger costs count as this
}

// Afterwards reports whether the cost is known only with the response.
func (c *Cost) Afterwards() bool {
	return c.ResponseHeader != "" || c.ResponseBytes || c.ResponseJSON != ""
}

// Most returns what a request may cost in the end if that is known only with the response; otherwise 0.
func (c *Cost) Most() int64 {
	if !c.Afterwards() {
		return 0
	}
	return c.Max
}

// IsEstimated reports whether an expression estimates the cost: see [MatchedRule].
func (c *Cost) IsEstimated() bool { return c.estimate != nil }

// Domain returns the domain of the rule's requests, or "" if a Matcher finds it.
func (r *Rule) Domain() string {
	if r.item == nil {
		return ""
	}
	return r.item.Domain
}
