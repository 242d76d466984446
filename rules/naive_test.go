package rules

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/urlform"
)

// The naive matcher reads rules as they are written, one after the other. It shares no code with
// the index beyond the normalising of paths.

// A written is what a match says, as texts.
type written struct {
	domain     string
	methods    []string
	path       string
	attributes []writtenAttribute
	when       string // "": none; otherwise one of writtenWhens
	onError    OnError
}

type writtenAttribute struct {
	name   string
	values []string
}

// writtenWhens are expressions with what they mean. One fails unless plan is a number; one is over
// wildcards, or attributes where the rule's path has none.
var writtenWhens = map[string]func(get func(string) string) bool{
	`user != ""`:                      func(get func(string) string) bool { return get("user") != "" },
	`plan == "gold" || domain == "d"`: func(get func(string) string) bool { return get("plan") == "gold" || get("domain") == "d" },
	`!path.endsWith("/b")`:            func(get func(string) string) bool { return !strings.HasSuffix(get("path"), "/b") },
	failsUnlessNumber:                 func(get func(string) string) bool { return get("plan") == "7" },
	overWildcards: func(get func(string) string) bool {
		return slices.Contains([]string{"a", "b", "gold"}, get("x")) || get("r") == "b"
	},
}

const failsUnlessNumber = `int(plan) > 1`

const overWildcards = `x in ["a", "b", "gold"] || r == "b"`

type writtenOverride struct {
	match   written
	expires time.Time
}

type writtenRule struct {
	match     written
	ignore    urlform.Ignore
	key       []KeyPart
	off       bool
	expires   time.Time
	overrides []writtenOverride
}

type writtenRules struct {
	rules       []writtenRule
	allow, deny []written
}

// A verdict is what is found for a call: positions of rules, of overrides, and keys.
type verdict struct {
	denied, allowed bool
	refused         bool
	rules           []int
	overrides       []int
	keys            [][]string
}

func (w *writtenRules) naive(call *penstock.Call, now penstock.Instant) verdict {
	var v verdict
	listed := func(list []written, onError OnError) bool {
		return slices.ContainsFunc(list, func(m written) bool {
			holds, failed := naiveHolds(m, call, "", 0)
			return holds || failed && onError == ErrorMatches
		})
	}
	if v.denied = listed(w.deny, ErrorMatches); v.denied {
		return v
	}
	if v.allowed = listed(w.allow, ErrorSkips); v.allowed {
		return v
	}
	past := func(end time.Time) bool { return !end.IsZero() && !now.Time().Before(end) }
rules:
	for i, r := range w.rules {
		refused := false
		holds := func(m written) bool {
			holds, failed := naiveHolds(m, call, r.match.path, r.ignore)
			refused = refused || failed && m.onError == ErrorDenies
			return holds || failed && m.onError != ErrorSkips
		}
		if r.off || past(r.expires) || !holds(r.match) {
			continue
		}
		key := []string{}
		for _, part := range r.key {
			value, ok := naiveValue(call, part.Name, r.match.path, r.ignore)
			if !ok && !part.Optional {
				continue rules
			}
			if network := naiveNetworks[value]; part.Prefix == 48 && network != "" {
				value = network
			} else if part.Prefix == 48 && naiveAddresses[value] != "" {
				value = naiveAddresses[value]
			}
			key = append(key, value)
		}
		override := slices.IndexFunc(r.overrides, func(o writtenOverride) bool { return !past(o.expires) && holds(o.match) })
		v.refused = v.refused || refused
		v.rules = append(v.rules, i)
		v.overrides = append(v.overrides, override)
		v.keys = append(v.keys, key)
	}
	return v
}

// naiveHolds tells whether a match holds, of a rule with the given path or none, and whether it would
// if its expression did not fail.
func naiveHolds(m written, call *penstock.Call, path string, ignore urlform.Ignore) (holds, failed bool) {
	get := func(name string) string { value, _ := naiveAttribute(call, name, ignore); return value }
	if m.domain != "" && m.domain != get("domain") {
		return false, false
	}
	if len(m.methods) > 0 && !slices.Contains(m.methods, get("method")) {
		return false, false
	}
	if path, ok := naiveAttribute(call, "path", ignore); m.path != "" && (!ok || !naiveIgnoringFits(m.path, path, ignore)) {
		return false, false
	}
	for _, a := range m.attributes {
		value, ok := naiveAttribute(call, a.name, ignore)
		if !ok || !slices.ContainsFunc(a.values, func(pattern string) bool { return naiveFits(pattern, value) }) {
			return false, false
		}
	}
	value := func(name string) string { value, _ := naiveValue(call, name, path, ignore); return value }
	if m.when == failsUnlessNumber && value("plan") != "7" {
		return false, true
	}
	return m.when == "" || writtenWhens[m.when](value), false
}

// naiveValue returns what a name stands for in the key and the expressions of a rule whose path fits.
func naiveValue(call *penstock.Call, name, pattern string, ignore urlform.Ignore) (string, bool) {
	path, _ := naiveAttribute(call, "path", ignore)
	have := strings.Split(path, "/")
	for i, segment := range strings.Split(pattern, "/") {
		switch segment {
		case "{" + name + "}":
			return have[i], true
		case "{" + name + "...}":
			return strings.Join(have[min(i, len(have)):], "/"), true
		}
	}
	return naiveAttribute(call, name, ignore)
}

func naiveAttribute(call *penstock.Call, name string, ignore urlform.Ignore) (string, bool) {
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
	if ok && name == "ip" && naiveAddresses[value] != "" {
		value = naiveAddresses[value]
	}
	return value, ok
}

// naiveAddresses are IPv4 addresses that texts stand for, naiveNetworks the /48 of others.
var (
	naiveAddresses = map[string]string{
		"::ffff:10.0.0.9": "10.0.0.9", "64:ff9b::c000:201": "192.0.2.1", "2002:C000:201:5::1": "192.0.2.1",
	}
	naiveNetworks = map[string]string{"2001:db8::1": "2001:db8::/48", "2001:db9::1": "2001:db9::/48"}
)

func naiveFits(pattern, text string) bool {
	if strings.Contains(pattern, "*") {
		return naiveWildcards(pattern, text)
	}
	if pattern == text && !strings.Contains(pattern, "/") {
		return true
	}
	if naiveAddresses[text] != "" {
		text = naiveAddresses[text]
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

// naiveIgnoringFits brings the pattern into the form of the path, and has a subtree include its root if
// that has no slash to end with.
func naiveIgnoringFits(pattern, path string, ignore urlform.Ignore) bool {
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
		return naivePathFits(pattern, path)
	}
	if pattern != "/" {
		pattern = strings.TrimSuffix(pattern, "/")
	}
	root := pattern[:strings.LastIndexByte(pattern, '/')]
	return naivePathFits(pattern, path) || strings.HasSuffix(pattern, "...}") && root != "" && naivePathFits(root, path)
}

func naivePathFits(pattern, path string) bool {
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
