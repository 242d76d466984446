package rules

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/internal/spelling"
	"github.com/penstock-io/penstock/internal/strictdoc"
	"github.com/penstock-io/penstock/internal/urlform"
	"github.com/penstock-io/penstock/rules/internal/expr"
	"github.com/penstock-io/penstock/rules/internal/index"
	"github.com/penstock-io/penstock/rules/internal/pattern"
	"github.com/penstock-io/penstock/storage"
)

// Options configure compilation with what a document does not contain.
type Options struct {
	Secret  string // secret of the hasher that makes subjects; all nodes that share a store use the same
	Version int64  // version of the snapshot

	// Provided lists attributes that requests have without a source in the document: those of Envoy descriptors, or
	// those that clients pass in themselves.
	Provided []string

	// MaxDelay is the longest time a request can be held for a leaky bucket. Compile warns about queues that take
	// longer. 0 means no bound.
	MaxDelay time.Duration

	Now time.Time // time by which warnings about expired rules are decided; zero means now
}

// Compile turns a document into a snapshot. Warnings are returned with or without a snapshot. The error is of
// type [Problems] and contains every error, including those of [Parse].
//
// Compile writes and parses a document that was not parsed, or was changed since: positions then refer to the result
// of [Document.YAML].
func Compile(doc *Document, o Options) (snapshot *Snapshot, warnings Problems, err error) {
	switch {
	case doc.found == nil:
		doc = parse(context.Background(), "", string(doc.YAML()))
	case doc.changed() && doc.found.mistakes > 0:
		return nil, nil, doc.found.sorted(Mistake) // what could not be read would be missing from what is written
	case doc.changed():
		doc = parse(context.Background(), doc.found.source.name, string(doc.YAML()))
	}
	return compile(doc, o)
}

// changed reports whether the values differ from those that the text has. Compiling looks at both.
func (d *Document) changed() bool {
	written := &Document{found: d.found}
	if root := d.found.source.root; root != nil {
		r := &reader{problemCollector: &problemCollector{ctx: context.Background(), source: d.found.source}}
		r.read(root, reflect.ValueOf(written).Elem())
	}
	return !reflect.DeepEqual(written, d)
}

func compile(doc *Document, o Options) (snapshot *Snapshot, warnings Problems, err error) {
	c := newCompiler(doc, o)
	s := c.snapshot()
	if c.stopped != nil {
		return nil, nil, c.stopped
	}
	warnings = c.sorted(Warning)
	if c.mistakes > 0 {
		return nil, warnings, c.sorted(Mistake)
	}
	return s, warnings, nil
}

type compiler struct {
	*problemCollector
	doc     *Document
	options Options
	hasher  storage.Hasher

	provided map[string]bool // attributes that requests can have
	missing  map[string]bool // attributes that rules name but nothing provides
	names    map[string]int  // rule names and the index of each

	unknownMethods int

	quiet bool // nothing is reported

	attributes []string // result of attributeNames; made when first needed

	// Values that many rules share are kept once.
	meters      map[penstock.Limit]*algorithm.Meter
	zones       map[string]*time.Location
	languages   map[string]*expr.Language // keyed by the wildcards added to the attributes
	expressions map[string]*expr.Expression
	written     int // total bytes of all distinct expressions

	named map[string]Source // sources that rates name, by attribute
	sets  *limitCache       // of limits whose numbers come from data; made when first needed
}

func newCompiler(doc *Document, o Options) *compiler {
	if o.Now.IsZero() {
		o.Now = time.Now()
	}
	c := &compiler{
		problemCollector: doc.found.copied(),
		doc:              doc,
		options:          o,
		hasher:           storage.NewHasher(o.Secret),
		provided:         map[string]bool{},
		missing:          map[string]bool{},
		names:            map[string]int{},
		meters:           map[penstock.Limit]*algorithm.Meter{},
		zones:            map[string]*time.Location{},
		languages:        map[string]*expr.Language{},
		expressions:      map[string]*expr.Expression{},
	}
	c.named = namedSources(doc)
	for _, name := range slices.Concat(builtin, o.Provided, slices.Collect(maps.Keys(doc.Attributes)), slices.Collect(maps.Keys(c.named))) {
		c.provided[name] = true
	}
	return c
}

// fail reports an error at a path.
func (c *compiler) fail(at path, complaint *valueProblem) { c.report(Mistake, at, complaint) }

// warn reports something that is allowed but probably unintended.
func (c *compiler) warn(at path, complaint *valueProblem) { c.report(Warning, at, complaint) }

func (c *compiler) report(severity Severity, at path, complaint *valueProblem) {
	if c.quiet {
		return
	}
	n := c.source.find(at)
	c.add(severity, at, c.source.within(n, complaint.offset), complaint)
}

// has reports whether the document sets the field at a path.
func (c *compiler) has(at path) bool {
	n := c.source.root
	for _, step := range at {
		if n = n.Step(step); n == nil {
			return false
		}
	}
	return true
}

func (c *compiler) snapshot() *Snapshot {
	if c.source.root == nil {
		return nil
	}
	sum := sha256.Sum256([]byte(c.source.text))
	s := &Snapshot{Version: c.options.Version, Checksum: hex.EncodeToString(sum[:]), Hasher: c.hasher, byNumber: map[uint64]*Rule{}}
	s.Sources = c.sources()
	s.all = make([]Rule, len(c.doc.Rules))
	items := make([]index.Item, len(s.all))
	for i := 0; i < len(s.all) && c.goOn(); i++ {
		r := &s.all[i]
		c.rule(i, r, &items[i])
		s.Rules = append(s.Rules, r)
		s.byNumber[r.Subjects.Number()] = r
	}
	s.allow = c.list(c.doc.Lists.Allow, path{"lists", "allow"}, 0)
	s.deny = c.list(c.doc.Lists.Deny, path{"lists", "deny"}, c.ignored(nil))
	if c.mistakes == 0 && c.stopped == nil {
		c.uncounted(s.all)
		s.index = index.Build(items, s.allow, s.deny, c.work)
		for _, r := range s.bodies.build(s, c.work) {
			c.warn(path{"rules", r.Index, "match", "domain"}, complain("listeners that read bodies ask for the domain %s only, so attributes of a body have their default here unless a client of the decision API sends them", penstock.DefaultDomain))
		}
	}
	return s
}

var (
	ruleName   = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,62}$`)
	httpToken  = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")
	methodName = regexp.MustCompile(`^[A-Z][A-Z_-]{0,31}$`)
)

func (c *compiler) list(entries []Patterns, at path, ignore urlform.Ignore) []index.Conditions {
	list := make([]index.Conditions, 0, len(entries))
	everyPath := pattern.Path{Ignore: ignore}
	for i := 0; i < len(entries) && c.goOn(); i++ {
		entry, at := entries[i], at.with(i)
		if len(entry) == 0 && c.isValid(at) {
			c.fail(at, complain("an entry without conditions would match every request").suggest("name an attribute, as in {ip: 192.0.2.0/24}"))
		}
		list = append(list, index.Conditions{Attributes: c.patterns(entry, at, everyPath, ""), Path: everyPath})
	}
	return list
}

func (c *compiler) rule(i int, r *Rule, item *index.Item) {
	t, at := &c.doc.Rules[i], path{"rules", i}
	*r = Rule{
		Name: t.Name, Index: i, Key: t.Key,
		Mode: t.Mode, OnStoreError: t.OnStoreError, Leased: t.Consistency == Leased,
		Owner: t.Owner, Expires: t.ExpiresAt,
		item: item, onError: t.Match.OnError,
	}
	if c.source.find(at).Kind != strictdoc.Mapping {
		return // already reported
	}
	c.name(t, i, at)
	*item = index.Item{
		Conditions: c.conditions(&t.Match, at.with("match"), nil, c.ignored(t)),
		Key:        indexKey(t.Key), Expires: endOf(t.ExpiresAt), Off: t.Mode == Off,
	}
	c.wildcards(item.Path, at.with("match", "path"))
	c.key(t, at.with("key"), item.Path)
	c.expiry(t.ExpiresAt, at, "the rule")
	if t.Mode == Off {
		c.warn(at.with("mode"), complain("the rule %s is off and limits nothing", t.Name))
	}
	r.Cost = c.cost(t.Cost, t.CountDenied, at.with("cost"), item.Path)
	r.Penalty = c.penalty(t, at)
	r.Outcome = c.outcome(t, at)
	if t.Dedup != nil {
		r.DedupAttribute = t.Dedup.Attribute
		c.needs(t.Dedup.Attribute, at.with("dedup", "attribute"), item.Path)
	}
	c.reserve(r, t, at)

	own := c.ownLimits(t, at)
	limits := c.limits(own, t, at)
	c.checkUnused(limits, t, at)
	r.Limits, r.Policies = limits.meters, policies(t.Name, limits.compiled)
	r.Dedup = c.dedup(t.Dedup, limits, at.with("dedup"))
	c.checkReplays(r, at)
	r.numbers = c.numbers(r.Name, &limits, r.Policies, r.Dedup, t)
	r.Overrides = c.overrides(t, at, item, &limits)

	names := make([]string, len(t.Key))
	for k := range t.Key {
		names[k] = t.Key[k].value()
	}
	r.Subjects = c.hasher.Rule(item.Domain, t.Name, names...)
}

func (c *compiler) name(t *RuleTerms, i int, at path) {
	at = at.with("name")
	if !c.isValid(at) {
		return
	}
	if !ruleName.MatchString(t.Name) {
		c.fail(at, complain("%.80q cannot be the name of a rule", t.Name).
			suggest("use lower-case letters, digits, '.', '_' and '-', at most 63, beginning with a letter or digit"))
		return
	}
	if first, taken := c.names[t.Name]; taken {
		where := c.source.find(path{"rules", first, "name"}).At
		c.fail(at, complain("the name %s is taken", t.Name).suggest("by the rule at line %d", where.Line))
		return
	}
	c.names[t.Name] = i
}

func (c *compiler) key(t *RuleTerms, at path, p pattern.Path) {
	if !c.isValid(at) {
		return
	}
	for i, part := range t.Key {
		if slices.ContainsFunc(t.Key[:i], func(k KeyPart) bool { return k.Name == part.Name }) {
			c.fail(at.with(i), complain("%s is in the key twice", part.Name))
		}
		_, isWildcard := p.Wildcard(part.Name)
		if !isWildcard {
			c.needs(part.Name, at.with(i), p)
		}
		if part.Prefix != 0 && (isWildcard || slices.Contains([]string{"method", "host", "path"}, part.Name)) {
			c.fail(at.with(i), complain("%s is not an address and has no prefix", part.Name).suggest("write %s", part.Name))
		}
	}
}

// needs warns about an attribute that no request has. A name that is probably misspelt is an error, because the
// rule would silently limit no one. p is the path of the rule.
func (c *compiler) needs(name string, at path, p pattern.Path) {
	if name == "" || !c.isValid(at) {
		return
	}
	if problem := checkAttributeName(name); problem != nil {
		c.fail(at, problem)
		return
	}
	if c.provided[name] {
		return
	}
	if _, ok := p.Wildcard(name); ok {
		c.fail(at, complain("%s is a wildcard of the rule's path and no attribute", name).suggest("only key and when can use it"))
		return
	}
	if !c.missing[name] {
		if len(c.missing) == maxMissing {
			c.fail(at, complain("the rules name more than %d attributes that nothing provides", maxMissing).suggest("define them under attributes"))
			return
		}
		c.missing[name] = true
	}
	var known []string
	if len(c.missing) <= maxSuggestions {
		known = append(slices.Sorted(maps.Keys(c.provided)), p.Wildcards()...)
	}
	missing := complain("no attribute provides %s", name)
	if meant := spelling.Closest(strings.ToLower(name), known); meant == "" {
		c.warn(at, missing.suggest("define it under attributes"))
	} else if len(name) < minMisspelt || isRepeated(name, meant) {
		c.warn(at, missing.suggest("did you mean %s?", meant))
	} else {
		c.fail(at, missing.suggest("did you mean %s? If not, say under attributes where %s comes from", meant, name))
	}
}

// isRepeated reports whether name is the attribute of with a number appended. Envoy descriptors may contain a key
// several times.
func isRepeated(name, of string) bool {
	number, ok := strings.CutPrefix(name, of+"_")
	return ok && number != "" && strings.Trim(number, "0123456789") == ""
}

const (
	maxMissing     = 1000 // attributes that nothing provides
	maxSuggestions = 50   // of these, how many get a suggested name
	minMisspelt    = 3    // letters a name needs to be considered misspelt: id is close to ip, and common
)

func (c *compiler) expiry(end time.Time, at path, what string) {
	at = at.with("expires_at")
	switch {
	case end.IsZero() || !c.isValid(at):
	case end.After(algorithm.MaxInstant.Time()) || end.Before(time.Unix(0, 0)):
		c.fail(at, complain("expires_at %v must be from 1970 to %d", end.Format(time.RFC3339), algorithm.MaxInstant.Time().Year()-1))
	case !end.After(c.options.Now):
		c.warn(at, complain("%s has expired and can never match", what))
	}
}

// endOf returns the instant at which something expires, or 0 if it never does.
func endOf(t time.Time) penstock.Instant {
	if t.IsZero() {
		return 0
	}
	return max(penstock.InstantOf(t), 1)
}

func indexKey(key []KeyPart) (parts []index.KeyPart) {
	for _, part := range key {
		parts = append(parts, index.KeyPart(part))
	}
	return parts
}

// failKey reports an error at a field's name instead of its value.
func (c *compiler) failKey(at path, complaint *valueProblem) {
	c.add(Mistake, at, c.source.find(at).KeyAt, complaint)
}

// fieldErrors returns the field errors inside an error of the root package.
func fieldErrors(err error) (fields []*penstock.FieldError) {
	switch e := any(err).(type) { // errors.As would find only the first
	case nil:
	case *penstock.FieldError:
		fields = append(fields, e)
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			fields = append(fields, fieldErrors(inner)...)
		}
	default:
		fields = fieldErrors(errors.Unwrap(err))
	}
	return fields
}
