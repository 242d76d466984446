// Package naive is a matcher for tests that reads rules as they are written, one after the other. It shares no code
// with the index beyond the normal form of paths, and draws random rules and requests on which both must agree.
package naive

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/urlform"
	"github.com/penstock-io/penstock/rules/internal/index"
)

// A Match is the match of a rule, as texts.
type Match struct {
	Domain     string
	Methods    []string
	Path       string
	Attributes []Attribute
	When       string // "": none; otherwise one of Whens
	OnError    OnError
}

// OnError says what happens if a When cannot be evaluated.
type OnError uint8

const (
	Matches OnError = iota
	Skips
	Denies
)

// An Attribute requires the value of an attribute to match one of the patterns.
type Attribute struct {
	Name   string
	Values []string
}

// Attributes returns one condition on an attribute.
func Attributes(name string, values ...string) []Attribute { return []Attribute{{name, values}} }

// Whens maps expressions to functions with the same meaning. One fails unless plan is a number. One reads
// wildcards, or attributes if the rule's path has none.
var Whens = map[string]func(get func(string) string) bool{
	`user != ""`:                      func(get func(string) string) bool { return get("user") != "" },
	`plan == "gold" || domain == "d"`: func(get func(string) string) bool { return get("plan") == "gold" || get("domain") == "d" },
	`!path.endsWith("/b")`:            func(get func(string) string) bool { return !strings.HasSuffix(get("path"), "/b") },
	FailsUnlessNumber:                 func(get func(string) string) bool { return get("plan") == "7" },
	OverWildcards: func(get func(string) string) bool {
		return slices.Contains([]string{"a", "b", "gold"}, get("x")) || get("r") == "b"
	},
}

// FailsUnlessNumber cannot be evaluated unless plan is a number.
const FailsUnlessNumber = `int(plan) > 1`

// OverWildcards reads wildcards of a path.
const OverWildcards = `x in ["a", "b", "gold"] || r == "b"`

// An Override is an override of a rule.
type Override struct {
	Match   Match
	Expires time.Time
}

// A Rule is the part of a rule that decides whether it matches.
type Rule struct {
	Match     Match
	Ignore    urlform.Ignore
	Key       []index.KeyPart
	Off       bool
	Expires   time.Time
	Overrides []Override
}

// Rules are a set of rules and its lists.
type Rules struct {
	Rules       []Rule
	Allow, Deny []Match
}

// A Verdict is what is found for a request: indexes of rules and overrides, and keys.
type Verdict struct {
	Denied, Allowed bool
	Refused         bool
	Rules           []int
	Overrides       []int
	Keys            [][]string
}

// Decide returns the verdict of the rules on a request at an instant.
func (w *Rules) Decide(call *penstock.Call, now penstock.Instant) Verdict {
	var v Verdict
	listed := func(list []Match, onError OnError) bool {
		return slices.ContainsFunc(list, func(m Match) bool {
			holds, failed := holds(m, call, "", 0)
			return holds || failed && onError == Matches
		})
	}
	if v.Denied = listed(w.Deny, Matches); v.Denied {
		return v
	}
	if v.Allowed = listed(w.Allow, Skips); v.Allowed {
		return v
	}
	for i := range w.Rules {
		w.Rules[i].decide(i, call, now, &v)
	}
	return v
}

// decide adds the rule to a verdict if it matches.
func (r *Rule) decide(i int, call *penstock.Call, now penstock.Instant, v *Verdict) {
	past := func(end time.Time) bool { return !end.IsZero() && !now.Time().Before(end) }
	refused := false
	holds := func(m Match) bool {
		holds, failed := holds(m, call, r.Match.Path, r.Ignore)
		refused = refused || failed && m.OnError == Denies
		return holds || failed && m.OnError != Skips
	}
	if r.Off || past(r.Expires) || !holds(r.Match) {
		return
	}
	key, ok := r.keyOf(call)
	if !ok {
		return
	}
	override := slices.IndexFunc(r.Overrides, func(o Override) bool { return !past(o.Expires) && holds(o.Match) })
	v.Refused = v.Refused || refused
	v.Rules = append(v.Rules, i)
	v.Overrides = append(v.Overrides, override)
	v.Keys = append(v.Keys, key)
}

// keyOf returns the values of the key. ok is false if the request lacks one that is not optional.
func (r *Rule) keyOf(call *penstock.Call) (key []string, ok bool) {
	key = []string{}
	for _, part := range r.Key {
		value, ok := valueOf(call, part.Name, r.Match.Path, r.Ignore&^urlform.Case) // wildcards keep case
		if part.Name == "path" && !strings.Contains(r.Match.Path, "{path") {
			value, ok = attributeOf(call, "path", r.Ignore)
		}
		if !ok && !part.Optional {
			return nil, false
		}
		if network := networks[value]; part.Prefix == 48 && network != "" {
			value = network
		} else if part.Prefix == 48 && addresses[value] != "" {
			value = addresses[value]
		}
		key = append(key, value)
	}
	return key, true
}

// holds reports whether a match holds, for a rule with the given path or none, and whether its expression failed.
func holds(m Match, call *penstock.Call, path string, ignore urlform.Ignore) (holds, failed bool) {
	get := func(name string) string { value, _ := attributeOf(call, name, ignore); return value }
	if m.Domain != "" && m.Domain != get("domain") {
		return false, false
	}
	if len(m.Methods) > 0 && !slices.Contains(m.Methods, get("method")) {
		return false, false
	}
	if path, ok := attributeOf(call, "path", ignore); m.Path != "" && (!ok || !ignoringFits(m.Path, path, ignore)) {
		return false, false
	}
	for _, a := range m.Attributes {
		value, ok := attributeOf(call, a.Name, ignore)
		if !ok || !slices.ContainsFunc(a.Values, func(pattern string) bool { return Fits(pattern, value) }) {
			return false, false
		}
	}
	value := func(name string) string { value, _ := valueOf(call, name, path, ignore); return value }
	if m.When == FailsUnlessNumber && value("plan") != "7" {
		return false, true
	}
	return m.When == "" || Whens[m.When](value), false
}

// valueOf returns the value of a name in the key and the expressions of a rule whose path matches.
func valueOf(call *penstock.Call, name, pattern string, ignore urlform.Ignore) (string, bool) {
	path, _ := attributeOf(call, "path", ignore)
	have := strings.Split(path, "/")
	for i, segment := range strings.Split(pattern, "/") {
		switch segment {
		case "{" + name + "}":
			return have[i], true
		case "{" + name + "...}":
			return strings.Join(have[min(i, len(have)):], "/"), true
		}
	}
	return attributeOf(call, name, ignore)
}

func attributeOf(call *penstock.Call, name string, ignore urlform.Ignore) (string, bool) {
	if name == "domain" {
		if call.Domain == "" {
			return "default", true
		}
		return call.Domain, true
	}
	value, ok := call.Attribute(name)
	if ok && name == "path" {
		value = ignore.Path(urlform.Path(value))
	}
	if ok && name == "ip" && addresses[value] != "" {
		value = addresses[value]
	}
	return value, ok
}

// addresses maps texts to the IPv4 addresses they mean, networks others to their /48.
var (
	addresses = map[string]string{
		"::ffff:10.0.0.9": "10.0.0.9", "64:ff9b::c000:201": "192.0.2.1", "2002:C000:201:5::1": "192.0.2.1",
	}
	networks = map[string]string{"2001:db8::1": "2001:db8::/48", "2001:db9::1": "2001:db9::/48"}
)

// Fits reports whether a value matches a pattern.
func Fits(pattern, text string) bool {
	if strings.Contains(pattern, "*") {
		return wildcardsFit(pattern, text)
	}
	if pattern == text && !strings.Contains(pattern, "/") {
		return true
	}
	if addresses[text] != "" {
		text = addresses[text]
	}
	addr, err := netip.ParseAddr(text)
	if err != nil {
		return pattern == text && !isNetwork(pattern)
	}
	addr = addr.Unmap().WithZone("")
	if one, err := netip.ParseAddr(pattern); err == nil {
		return one.Zone() == "" && one.Unmap() == addr
	}
	network, err := netip.ParsePrefix(pattern)
	if err != nil {
		return pattern == text
	}
	if network.Addr().Is4In6() {
		network = netip.PrefixFrom(network.Addr().Unmap(), network.Bits()-96)
	}
	return network.Contains(addr)
}

func isNetwork(text string) bool {
	_, err := netip.ParsePrefix(text)
	return err == nil
}

// ignoringFits converts the pattern to the form of the path. A subtree includes its root if a trailing slash is
// ignored.
func ignoringFits(pattern, path string, ignore urlform.Ignore) bool {
	var segments []string
	for segment := range strings.SplitSeq(pattern, "/") {
		if !strings.HasPrefix(segment, "{") && ignore&urlform.Case != 0 {
			segment = strings.ToLower(segment)
		}
		if ignore&urlform.MatrixParameters != 0 {
			segment, _, _ = strings.Cut(segment, ";")
		}
		segments = append(segments, segment)
	}
	pattern = strings.Join(segments, "/")
	if ignore&urlform.TrailingSlash == 0 {
		return PathFits(pattern, path)
	}
	if pattern != "/" {
		pattern = strings.TrimSuffix(pattern, "/")
	}
	root := pattern[:strings.LastIndexByte(pattern, '/')]
	return PathFits(pattern, path) || strings.HasSuffix(pattern, "...}") && root != "" && PathFits(root, path)
}

// PathFits reports whether a normalised path matches a pattern.
func PathFits(pattern, path string) bool {
	want, have := strings.Split(pattern, "/")[1:], strings.Split(path, "/")[1:]
	for i, w := range want {
		if strings.HasSuffix(w, "...}") {
			return len(have) > i
		}
		if len(have) <= i || w != have[i] && (w[:min(1, len(w))] != "{" || have[i] == "") {
			return false
		}
	}
	return len(want) == len(have)
}

// wildcardsFit tries every length for every star.
func wildcardsFit(pattern, text string) bool {
	ends := map[int]bool{0: true} // how many bytes of the text the pattern so far can match
	for i := range len(pattern) {
		next := map[int]bool{}
		for end := range ends {
			if pattern[i] == '*' {
				for ; end <= len(text); end++ {
					next[end] = true
				}
			} else if end < len(text) && text[end] == pattern[i] {
				next[end+1] = true
			}
		}
		ends = next
	}
	return ends[len(text)]
}
