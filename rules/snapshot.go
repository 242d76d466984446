package rules

import (
	"time"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/attribute"
	"github.com/penstock-io/penstock/rules/internal/index"
	"github.com/penstock-io/penstock/storage"
)

// A Snapshot is a document that was found sound, with everything worked out that a match needs. It
// is immutable and may be shared by any number of goroutines.
type Snapshot struct {
	Version  int64  // the one that Compile was given
	Checksum string // SHA-256 of the text, in hex: the same text has the same; empty where there is a Matcher

	Rules   []*Rule            // in the document's order
	Sources []attribute.Source // of attributes, by name
	Hasher  storage.Hasher     // of call ids; rules make their subjects themselves

	// Matcher finds the rules in place of Match, which finds none of them; nil: Match does. Its type is
	// known to the package that made it.
	Matcher any

	byNumber map[uint64]*Rule

	all         []Rule // in a row
	allow, deny []index.Conditions
	index       *index.Index
}

// NewSnapshot returns a snapshot without rules. Whoever adds rules brings a Matcher for them.
func NewSnapshot(o Options) *Snapshot {
	return &Snapshot{Version: o.Version, Hasher: storage.NewHasher(o.Secret), index: index.Build(nil, nil, nil, nil)}
}

// Numbered returns the rule whose subjects' hasher has the number; nil if there is none.
func (s *Snapshot) Numbered(n uint64) *Rule { return s.byNumber[n] }

// A Rule is one rule of a snapshot.
type Rule struct {
	Name  string
	Index int // in the document

	Key      []KeyPart
	Subjects storage.RuleHasher // from the key's values, in its order

	Limits    []*algorithm.Meter // at least one
	Policies  []string           // what each limit is called: the rule's name, or rule:1m if there are several
	Overrides []Override         // the first that holds replaces the limits

	Cost           Cost
	Penalty        *algorithm.Penalty // nil: nobody is banned
	Dedup          *algorithm.Dedup   // nil: no repeats are recognised
	DedupAttribute string             // that holds the call's id; "": the call's own
	Reserve        time.Duration      // 0: nothing can be settled later
	Overage        algorithm.Overage

	Mode         Mode
	OnStoreError Failure
	Leased       bool
	Owner        string
	Expires      time.Time // zero: never

	item    *index.Item // which calls the rule is for
	onError OnError
}

// An Override replaces a rule's limits for some of its calls.
type Override struct {
	Limits    []*algorithm.Meter // none if Unlimited
	Policies  []string
	Dedup     *algorithm.Dedup // with the budget that goes with these limits
	Unlimited bool

	// OwnCounters says that the limits have counters of their own, named by MatchID. Otherwise they
	// share the rule's: everything the match reads is part of the key, so that a key always gets
	// the same limits.
	OwnCounters bool
	MatchID     uint64 // names what the match asks for, wherever the override stands; never 0

	Expires time.Time // zero: never

	item    *index.Item // which of the rule's calls the override is for
	onError OnError
}

// A Cost says what a call costs under a rule. The zero Cost is what the call itself says. Whatever
// the rule says, a call of cost 0 is a peek.
type Cost struct {
	Fixed int64

	// Where the cost is found; none of them: Fixed.
	Attribute      string
	ResponseHeader string
	ResponseBytes  bool

	Default int64 // where it is missing or no number
	Max     int64 // what exceeds it counts as this much
}

// Afterwards tells whether the cost is known only with the response.
func (c *Cost) Afterwards() bool { return c.ResponseHeader != "" || c.ResponseBytes }

// Domain returns the domain of the calls that the rule is for; "" if a Matcher finds it.
func (r *Rule) Domain() string {
	if r.item == nil {
		return ""
	}
	return r.item.Domain
}
