package rules

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/attribute"
	"github.com/penstock-io/penstock/internal/bounds"
	"github.com/penstock-io/penstock/internal/enum"
	"github.com/penstock-io/penstock/internal/spelling"
	"github.com/penstock-io/penstock/internal/strictdoc"
	"github.com/penstock-io/penstock/rules/internal/index"
	"github.com/penstock-io/penstock/rules/internal/pattern"
	"github.com/penstock-io/penstock/storage"
)

// The following methods read and write single values.

func (r *Rate) readText(text string) (c *valueProblem) {
	*r, c = parseRate(text)
	return c
}

func (d *Duration) readText(text string) *valueProblem {
	length, c := parseDuration(text, false)
	*d = Duration(length)
	if c == nil && length == 0 {
		return complain("the duration %s is zero", text).suggest("at least %s", Duration(algorithm.MinWindow))
	}
	return c
}

func (s *Seconds) readText(text string) *valueProblem {
	if isDigits(text) {
		text += "s"
	}
	return (*Duration)(s).readText(text)
}

func (b *Budget) readText(text string) *valueProblem {
	number, isPercent := strings.CutSuffix(text, "%")
	n, c := parseCount(number)
	if c != nil {
		return complain("replay_budget must be a number or a percentage, not %.40q", text).suggest("as in 10%%")
	}
	*b = Budget{Count: n}
	most := int64(algorithm.MaxCount)
	if isPercent {
		*b, most = Budget{Percent: n}, 100
	}
	if n < 1 || n > most {
		return complain("replay_budget %s must be from 1 to %d", text, most).suggest("leave dedup out to charge every duplicate")
	}
	return nil
}

func (k *KeyPart) readText(text string) *valueProblem {
	text, k.Optional = strings.CutSuffix(text, "?")
	name, bits, prefixed := strings.Cut(text, "/")
	k.Name = name
	if c := checkAttributeName(name); c != nil || !prefixed {
		return c
	}
	n, err := strconv.Atoi(bits)
	if err != nil || strconv.Itoa(n) != bits || n < minPrefix || n > maxPrefix {
		return complain("the prefix /%.16s must be from /%d to /%d", bits, minPrefix, maxPrefix).suggest("the prefix applies to IPv6 addresses, for example ip/48; IPv4 addresses are counted individually")
	}
	k.Prefix = n
	return nil
}

// Bounds of a prefix. A shorter one would look like an IPv4 network.
const minPrefix, maxPrefix = 33, 128

func (k KeyPart) String() string {
	if k.Optional {
		return k.value() + "?"
	}
	return k.value()
}

// value names what is counted: an attribute, or its network.
func (k KeyPart) value() string { return index.KeyPart(k).Value() }

func checkAttributeName(name string) *valueProblem {
	if len(name) > bounds.AttributeName || !pattern.IsName(name) {
		return complain("invalid attribute name %.80q", name).suggest("use up to %d letters, digits, - and _", bounds.AttributeName)
	}
	return nil
}

var (
	modeNames        = []string{"enforce", "shadow", "off"}
	onErrorNames     = []string{"match", "skip", "deny"}
	consistencyNames = []string{"exact", "leased"}
	failureNames     = []string{"local", "divided", "allow", "deny"}
	pathNames        = []string{"", "loose", "exact", "express", "rails", "spring", "nginx", "go"}
)

func (m Mode) String() string        { return enum.Name(modeNames, m, "Mode") }
func (o OnError) String() string     { return enum.Name(onErrorNames, o, "OnError") }
func (c Consistency) String() string { return enum.Name(consistencyNames, c, "Consistency") }
func (f Failure) String() string     { return enum.Name(failureNames, f, "Failure") }

func (m Mode) MarshalText() ([]byte, error)        { return []byte(m.String()), nil }
func (o OnError) MarshalText() ([]byte, error)     { return []byte(o.String()), nil }
func (c Consistency) MarshalText() ([]byte, error) { return []byte(c.String()), nil }
func (f Failure) MarshalText() ([]byte, error)     { return []byte(f.String()), nil }

func (m *Mode) readText(text string) *valueProblem { return readName(m, modeNames, text, "mode") }

func (o *OnError) readText(text string) *valueProblem {
	return readName(o, onErrorNames, text, "on_error")
}

func (c *Consistency) readText(text string) *valueProblem {
	return readName(c, consistencyNames, text, "consistency")
}

func readName[T ~uint8](v *T, names []string, text, kind string) *valueProblem {
	at := slices.Index(names, text)
	if at < 0 {
		return meantName(complain("unknown %s %.64q", kind, text), text, names)
	}
	*v = T(at)
	return nil
}

// namesOf returns the allowed names of an enumeration type, or nil for any other type.
func namesOf(t reflect.Type) []string {
	switch t {
	case reflect.TypeFor[penstock.Algorithm]():
		return namesFrom(penstock.FixedWindow, penstock.Concurrency)
	case reflect.TypeFor[penstock.Refill]():
		return namesFrom(penstock.Continuous, penstock.Interval)
	case reflect.TypeFor[algorithm.Overage]():
		return namesFrom(algorithm.OverageDeny, algorithm.OverageDebt)
	case reflect.TypeFor[attribute.CertificatePart]():
		return namesFrom(attribute.CommonName, attribute.Fingerprint)
	case reflect.TypeFor[attribute.OnUnreadable]():
		return namesFrom(attribute.DenyUnreadable, attribute.DefaultUnreadable)
	case reflect.TypeFor[Mode]():
		return modeNames
	case reflect.TypeFor[PathMatching]():
		return pathNames[1:]
	case reflect.TypeFor[OnError]():
		return onErrorNames
	case reflect.TypeFor[Consistency]():
		return consistencyNames
	}
	return nil
}

func namesFrom[T interface {
	~uint8
	fmt.Stringer
}](first, last T) (names []string) {
	for v := first; v <= last; v++ {
		names = append(names, v.String())
	}
	return names
}

// The following values can be written in more than one form.

func (l *LimitTerms) readNode(r *reader, n *node) {
	switch n.Kind {
	case strictdoc.Mapping:
		r.readFields(n, reflect.ValueOf(l).Elem(), nil)
		return
	case strictdoc.List:
		r.fail(n, complain("a limit must be a rate or a mapping, not a list").suggest("as in 100/1m"))
		return
	}
	r.readAs(n, reflect.ValueOf(&l.Rate).Elem())
}

func (l *LimitTerms) toNode() *node {
	if *l == (LimitTerms{Rate: l.Rate}) {
		return textNode(l.Rate.String())
	}
	return fieldsToNode(reflect.ValueOf(l).Elem())
}

func (c *CostTerms) readNode(r *reader, n *node) {
	if n.Kind != strictdoc.Scalar {
		r.readFields(n, reflect.ValueOf(c).Elem(), nil)
		return
	}
	before := r.mistakes
	r.readNumber(n, reflect.ValueOf(&c.Fixed).Elem())
	if r.mistakes == before && c.Fixed == 0 {
		r.fail(n, complain("cost 0 must be from 1 to %d", int64(algorithm.MaxCount)).suggest("use mode: off for a rule that charges nothing"))
	}
}

func (c *CostTerms) toNode() *node {
	if c.Fixed != 0 {
		return scalarOf(strconv.FormatInt(c.Fixed, 10))
	}
	return fieldsToNode(reflect.ValueOf(c).Elem())
}

const maxOverrideLimits = storage.MaxCharges

func (l *OverrideLimits) readNode(r *reader, n *node) {
	if n.Kind == strictdoc.Scalar {
		if l.Unlimited = n.Text == "unlimited"; !l.Unlimited {
			r.fail(n, meantName(complain("limits must be a list or the word unlimited, not %.40q", n.Text), n.Text, []string{"unlimited"}))
		}
		return
	}
	r.readBounded(n, &field{name: "limits", min: 1, max: maxOverrideLimits}, reflect.ValueOf(&l.Limits).Elem())
}

func (l *OverrideLimits) toNode() *node {
	if l.Unlimited {
		return scalarOf("unlimited")
	}
	return valueToNode(reflect.ValueOf(&l.Limits).Elem())
}

func (f *Failure) readNode(r *reader, n *node) {
	if n.Kind == strictdoc.Mapping {
		var local struct {
			Local string `rules:"local,required" as:"{local: divided}"`
		}
		before := r.mistakes
		r.readFields(n, reflect.ValueOf(&local).Elem(), nil)
		if *f = FailDivided; r.mistakes == before && local.Local != "divided" {
			r.readBelow("local", func() {
				r.fail(n.Step("local"), meantName(complain("unknown kind of local %.40q", local.Local), local.Local, []string{"divided"}))
			})
		}
		return
	}
	if text, ok := r.scalar(n); ok {
		if text == "divided" {
			r.fail(n, complain("divided is a kind of local").suggest("write {local: divided}"))
		} else if c := readName(f, failureNames, text, "on_store_error"); c != nil {
			r.fail(n, meantName(complain("%s", c.message), text, []string{"local", "allow", "deny"}))
		}
	}
}

func (f *Failure) toNode() *node {
	if *f != FailDivided {
		return scalarOf(f.String())
	}
	n := &node{Kind: strictdoc.Mapping}
	n.Add("local", scalarOf("divided"))
	return n
}

const (
	maxValues   = 10_000 // per attribute
	maxPatterns = 64     // attributes per match
)

func (v *Values) readNode(r *reader, n *node) {
	switch n.Kind {
	case strictdoc.Scalar:
		if text, ok := r.scalar(n); ok {
			*v = Values{text}
		}
		return
	case strictdoc.Mapping:
		r.fail(n, complain("%s must be a value or a list of them, not a mapping", r.partName()))
		return
	}
	list := []string(nil)
	r.readBounded(n, &field{name: r.partName(), min: 1, max: maxValues}, reflect.ValueOf(&list).Elem())
	*v = list
}

func (v *Values) toNode() *node {
	if len(*v) == 1 {
		return textNode((*v)[0])
	}
	list := []string(*v)
	return valueToNode(reflect.ValueOf(&list).Elem())
}

// readNode treats fields that a match does not have as attributes: {plan: gold} is short for {attributes: {plan:
// gold}}. A name that looks like a misspelt field is not an attribute.
func (m *MatchTerms) readNode(r *reader, n *node) {
	if r.tooMany(n, r.partName(), 0, maxPatterns) {
		return
	}
	short := Patterns{}
	r.readFields(n, reflect.ValueOf(m).Elem(), func(item *node) bool {
		if !r.isAttribute(item.Key) {
			return false
		}
		r.readBelow(item.Key, func() {
			var values Values
			if item.Kind == strictdoc.Null {
				r.fail(item, complain("%.64s is empty", item.Key))
				return
			}
			values.readNode(r, item)
			short[item.Key] = values
		})
		return true
	})
	for name, values := range short {
		if _, twice := m.Attributes[name]; twice {
			c := complain("%s is given twice", name).suggest("here and under attributes")
			r.add(Mistake, r.path.with(name), n.Step(name).KeyAt, c)
			continue
		}
		if m.Attributes == nil {
			m.Attributes = Patterns{}
		}
		m.Attributes[name] = values
	}
}

// isAttribute reports whether a name is an attribute and not a misspelt field of a match.
func (r *reader) isAttribute(name string) bool {
	if checkAttributeName(name) != nil {
		return false
	}
	if r.declared == nil {
		r.declared = map[string]bool{}
		if sources := r.source.root.Step("attributes"); sources != nil {
			for i := range sources.Items {
				r.declared[sources.Items[i].Key] = true
			}
		}
	}
	if slices.Contains(builtin, name) || r.declared[name] {
		return true
	}
	field := spelling.Closest(strings.ToLower(name), []string{"domain", "method", "path", "attributes", "when", "on_error"})
	return field == "" || isRepeated(name, field)
}

func (m *MatchTerms) toNode() *node { return fieldsToNode(reflect.ValueOf(m).Elem()) }
