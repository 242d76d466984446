package rules

import (
	"encoding/binary"
	"slices"
	"sync/atomic"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/internal/enum"
	"github.com/penstock-io/penstock/storage"
)

// Entitlements are the numbers of limits that are kept outside the document, for example for each tenant or plan.
type Entitlements interface {
	// Entitlement returns the number that a value of an attribute has under a name. It is called for every request and
	// must not wait.
	Entitlement(attribute, value, name string) (Entitlement, bool)
}

// An Entitlement is one number.
type Entitlement struct {
	Number int64
	Until  penstock.Instant // when it stops to apply; 0: never
}

// Data is what the numbers of limits are looked up in.
type Data struct {
	Entitlements Entitlements            // nil: there are none
	Now          func() penstock.Instant // for entitlements that end
}

// Limits are what a rule asks of a request. They are immutable.
type Limits struct {
	Meters   []*algorithm.Meter
	Policies []string
	Dedup    *algorithm.Dedup

	// Data is set if the numbers of some meters come from data: one for each meter, in its order.
	Data []LimitNumber
}

// A LimitNumber is the part of a limit that comes from data.
type LimitNumber struct {
	IsData bool   // otherwise the number is the document's
	Count  int64  // after bounds
	Scope  uint64 // of its counters
}

// A Fallback says that a limit has its default number because data had no valid one for a request.
type Fallback struct {
	Rule   *Rule
	Policy string
	Reason FallbackReason
	Source string // what was read, as the rate names it; "" if there was nothing to read
	Value  string // the text that is not a valid number; "" for an entitlement
	Max    int64  // of the limit
	Number int64  // the default
}

// FallbackReason is why a limit has its default number.
type FallbackReason uint8

const (
	NoFallback  FallbackReason = iota
	NoNumber                   // no source has a number: normal for clients without an entitlement
	NotNumber                  // the value is not a whole number
	AboveMax                   // the number is above the limit's max
	NotPossible                // the limit's algorithm cannot have the number
)

var fallbackNames = []string{"none", "missing", "not_a_number", "above_max", "not_possible"}

func (r FallbackReason) String() string { return enum.Name(fallbackNames, r, "FallbackReason") }

// IsBad reports whether the data is wrong, not only missing.
func (r FallbackReason) IsBad() bool { return r > NoNumber }

// FallbackReasons is how many reasons there are.
const FallbackReasons = int(NotPossible) + 1

// numbers make the limits of a rule or an override whose counts come from data.
type numbers struct {
	limits   []numbered
	defaults Limits // with the default counts
	dedup    *DedupTerms
	seed     uint64 // spreads the numbers of different rules over the cache
	cache    *limitCache
}

// numbered is one limit, with its default count.
type numbered struct {
	limit   penstock.Limit
	max     int64
	sources []numberSource // none: the count is the document's
}

// A numberSource is where a count may come from.
type numberSource struct {
	numberTerm
	text string // as the rate names it
	read string // name of the attribute
	kind Origin
	part int // of the key, if that holds the attribute's whole value; otherwise -1

	// own says that requests of one key may have different values of this source or an earlier one. Each value then has
	// counters of its own.
	own    bool
	scopes storage.RuleHasher // makes their scopes
}

// LimitsFor returns the limits of the rule, or of an override, for a request with a key. It appends to fallbacks, if
// not nil, which limits have their default number and why. It allocates only for numbers that were not used recently.
func (r *Rule) LimitsFor(override int, call *penstock.Call, key []string, data *Data, fallbacks *[]Fallback) Limits {
	n, limits := r.limitsOf(override)
	if n == nil {
		return limits
	}
	return n.resolve(r, call, key, data, fallbacks)
}

// limitsOf returns the limits of the rule, or of an override, and the numbers that replace theirs, or nil.
func (r *Rule) limitsOf(override int) (*numbers, Limits) {
	if override == NoOverride {
		return r.numbers, Limits{Meters: r.Limits, Policies: r.Policies, Dedup: r.Dedup}
	}
	o := &r.Overrides[override]
	return o.numbers, Limits{Meters: o.Limits, Policies: o.Policies, Dedup: o.Dedup}
}

// FromData reports whether numbers of the rule's limits, or of an override's, come from data.
func (r *Rule) FromData(override int) bool {
	n, _ := r.limitsOf(override)
	return n != nil
}

// LimitsWith returns the limits of the rule, or of an override, with numbers that data gave earlier, one for each
// limit whose number comes from data. Numbers above the present max count as max.
func (r *Rule) LimitsWith(override int, given []LimitNumber) (Limits, bool) {
	n, limits := r.limitsOf(override)
	if n == nil {
		return limits, len(given) == 0
	}
	var wanted [storage.MaxCharges]LimitNumber
	for i := range n.limits {
		l := &n.limits[i]
		wanted[i] = LimitNumber{Count: l.limit.Count, Scope: l.limit.Scope}
		if len(l.sources) == 0 {
			continue
		}
		if len(given) == 0 {
			return limits, false
		}
		wanted[i] = LimitNumber{true, max(0, min(given[0].Count, l.max)), given[0].Scope}
		given = given[1:]
	}
	if len(given) > 0 {
		return limits, false
	}
	set := n.with(wanted[:len(n.limits)])
	return set.Limits, set.Meters != nil
}

// resolve looks up the numbers for a request.
func (n *numbers) resolve(r *Rule, call *penstock.Call, key []string, data *Data, fallbacks *[]Fallback) Limits {
	var wanted [storage.MaxCharges]LimitNumber
	isDefault := true
	for i := range n.limits {
		l := &n.limits[i]
		c := l.choose(call, key, data)
		wanted[i] = LimitNumber{len(l.sources) > 0, c.count, c.scope}
		isDefault = isDefault && c.count == l.limit.Count && c.scope == l.limit.Scope
		if c.reason != NoFallback {
			n.addFallback(r, i, &c, fallbacks)
		}
	}
	if isDefault {
		return n.defaults
	}
	if set := n.with(wanted[:len(n.limits)]); set.Meters != nil {
		return set.Limits
	}
	for i := range n.limits {
		if l := &n.limits[i]; wanted[i].Count != l.limit.Count || wanted[i].Scope != l.limit.Scope {
			n.addFallback(r, i, &choice{source: -1, reason: NotPossible}, fallbacks)
		}
	}
	return n.defaults
}

func (n *numbers) addFallback(r *Rule, i int, c *choice, fallbacks *[]Fallback) {
	if fallbacks == nil {
		return
	}
	l := &n.limits[i]
	f := Fallback{Rule: r, Policy: n.defaults.Policies[i], Reason: c.reason, Max: l.max, Number: l.limit.Count}
	if c.source >= 0 {
		s := &l.sources[c.source]
		if f.Source = s.text; s.entitlement == "" {
			f.Value = c.value
		}
	}
	*fallbacks = append(*fallbacks, f)
}

// A choice is the count of a limit for a request, and where it came from.
type choice struct {
	count  int64
	scope  uint64
	source int // index, or -1: the default
	until  penstock.Instant
	reason FallbackReason
	value  string // of the attribute that was read last
}

// choose returns the number of the first source that has one. A source that has an invalid one ends the search: the
// default applies then.
func (l *numbered) choose(call *penstock.Call, key []string, data *Data) choice {
	c := choice{count: l.limit.Count, scope: l.limit.Scope, source: -1}
	if len(l.sources) == 0 {
		return c
	}
	c.reason = NoNumber
	for i := range l.sources {
		s := &l.sources[i]
		value := s.value(call, key)
		if value == "" {
			continue
		}
		if c.value == "" {
			c.value = value
		}
		number, digits, found := s.number(value, data, &c)
		if !found {
			continue
		}
		c.source, c.value, c.reason = i, value, NoFallback
		switch {
		case number < 0:
			c.reason = NotNumber
			return c
		case number > l.max:
			c.reason = AboveMax
			return c
		}
		if c.count = number; s.own {
			scope := s.scopes.Subject(digits)
			c.scope = binary.BigEndian.Uint64(scope[8:]) | 1<<63
		}
		return c
	}
	return c
}

// value returns the value of the attribute that a source reads, or "" if the request lacks it.
func (s *numberSource) value(call *penstock.Call, key []string) string {
	if s.part >= 0 && s.part < len(key) {
		return key[s.part]
	}
	value, _ := call.Attribute(s.read)
	return value
}

// number returns the number that a source has for a value, negative if it is not a number, and the text that names its
// counters.
func (s *numberSource) number(value string, data *Data, c *choice) (number int64, names string, found bool) {
	if s.entitlement == "" {
		number, digits := parseNumber(value)
		return number, digits, true
	}
	if data == nil || data.Entitlements == nil {
		return 0, "", false
	}
	e, ok := data.Entitlements.Entitlement(s.read, value, s.entitlement)
	if !ok || e.Until != 0 && data.Now() >= e.Until {
		return 0, "", false
	}
	c.until = e.Until
	return e.Number, value, true
}

// parseNumber reads a whole number, without allocating for those that are none: it returns -1 for them. One that is
// too large for any limit is larger than algorithm.MaxCount. digits is its only form.
func parseNumber(text string) (number int64, digits string) {
	if text == "" {
		return -1, ""
	}
	for len(text) > 1 && text[0] == '0' {
		text = text[1:]
	}
	for i := range len(text) {
		if !isDigit(text[i]) {
			return -1, ""
		}
		if number <= algorithm.MaxCount {
			number = number*10 + int64(text[i]-'0')
		}
	}
	return number, text
}

// A limitCache holds limits with numbers that were used recently. Its size is fixed: clients that choose numbers can
// displace those of others, but never take more memory.
type limitCache struct {
	slots [limitCacheSize]atomic.Pointer[limitSet]
}

const limitCacheSize = 1 << 14

// A limitSet are limits with numbers from data. Meters is nil if an algorithm cannot have one of the numbers.
type limitSet struct {
	of *numbers
	Limits
}

// with returns limits with these numbers, one for each limit.
func (n *numbers) with(wanted []LimitNumber) *limitSet {
	at := n.slot(wanted)
	for _, slot := range [...]uint64{at, at ^ 1} {
		if known := n.cache.slots[slot].Load(); known != nil && known.of == n && slices.Equal(known.Data, wanted) {
			return known
		}
	}
	made := n.compile(wanted)
	if displaced := n.cache.slots[at].Swap(made); displaced != nil {
		n.cache.slots[at^1].Store(displaced)
	}
	return made
}

// slot returns where limits with these numbers are kept.
func (n *numbers) slot(wanted []LimitNumber) uint64 {
	const odd = 0x9e3779b97f4a7c15
	h := n.seed
	for i := range wanted {
		h = (h ^ uint64(wanted[i].Count)) * odd
		h ^= h >> 32
		h = (h ^ wanted[i].Scope) * odd
		h ^= h >> 29
	}
	return h % limitCacheSize
}

// compile makes limits with these numbers.
func (n *numbers) compile(wanted []LimitNumber) *limitSet {
	set := &limitSet{of: n, Limits: Limits{Data: slices.Clone(wanted)}}
	limits := make([]penstock.Limit, len(n.limits))
	meters := make([]*algorithm.Meter, len(n.limits))
	for i := range n.limits {
		limits[i] = n.limits[i].with(wanted[i].Count)
		limits[i].Scope = wanted[i].Scope
		var err error
		if meters[i], err = limits[i].Compile(); err != nil {
			return set
		}
	}
	if n.dedup != nil {
		dedup, err := dedupTerms(n.dedup, limits).Compile()
		if err != nil {
			return set
		}
		set.Dedup = dedup
	}
	set.Meters, set.Policies = meters, n.defaults.Policies
	return set
}

// with returns the limit with another count. Buckets that get nothing are windows that block.
func (l *numbered) with(count int64) penstock.Limit {
	limit := l.limit
	limit.Count = count
	if count == 0 && (limit.Algorithm == penstock.TokenBucket || limit.Algorithm == penstock.LeakyBucket) {
		// No limit of the document has an ordinal as high.
		limit = penstock.Limit{Algorithm: penstock.FixedWindow, Window: limit.Window, Ordinal: limit.Ordinal + storage.MaxCharges, Scope: limit.Scope}
	}
	return limit
}

// known calls visit with the limits that were used recently.
func (n *numbers) known(visit func(*Limits)) {
	for i := range n.cache.slots {
		if set := n.cache.slots[i].Load(); set != nil && set.of == n && set.Meters != nil {
			visit(&set.Limits)
		}
	}
}

// KnownLimits calls visit with the rule's limits and those of its overrides. Where numbers come from data, it includes
// the limits that this node used recently.
func (r *Rule) KnownLimits(visit func(*Limits)) {
	for override := NoOverride; override < len(r.Overrides); override++ {
		n, limits := r.limitsOf(override)
		visit(&limits)
		if n != nil {
			n.known(visit)
		}
	}
}
