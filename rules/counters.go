package rules

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"

	"github.com/penstock-io/penstock/internal/urlform"
	"github.com/penstock-io/penstock/rules/internal/index"
	"github.com/penstock-io/penstock/rules/internal/pattern"
)

// An override shares its rule's counters if a key always gets the same override, because the limit that refills
// and expires a counter is then the same for every request. Otherwise, requests with the same key would read one
// counter under different limits, so the override gets its own counters.

// sharesCounters reports whether everything that an override's match reads is part of the rule's key. rule holds
// the conditions of the rule.
func sharesCounters(rule *index.Conditions, key []KeyPart, override *index.Conditions) bool {
	k := keyReader{rule, key}
	if override.Path.Ignore != rule.Path.Ignore && override.ReadsPath() {
		return false // one key may be of several paths
	}
	if len(override.Methods) > 0 && !k.determines("method") || !k.tellsPath(override.Path) {
		return false
	}
	for i := range override.Attributes {
		if !k.tellsAttribute(&override.Attributes[i]) {
			return false
		}
	}
	if override.When == nil {
		return true
	}
	return !slices.ContainsFunc(override.When.Reads, func(name string) bool { return !k.determines(name) })
}

// A keyReader says what the key of a request determines, given that the rule matches it.
type keyReader struct {
	rule *index.Conditions
	key  []KeyPart
}

// has reports whether a part of the key holds the whole value of a name. ip/48 does not hold all of ip.
func (k keyReader) has(name string) bool {
	return slices.ContainsFunc(k.key, func(p KeyPart) bool { return p.value() == name })
}

// determines reports whether requests with the same key have the same value of a name, as expressions see it: a
// missing value is empty.
func (k keyReader) determines(name string) bool {
	if k.has(name) {
		return true
	}
	switch name {
	case "domain":
		return true // the rule fixes it to one value
	case "path": // built of literals and wildcards
		return k.rule.Path.Text != "" && !slices.ContainsFunc(k.rule.Path.Wildcards(), func(name string) bool { return !k.has(name) })
	}
	return false
}

// tellsAttribute reports whether the condition holds for all requests with the same key or for none. A condition
// distinguishes a missing attribute from an empty one; an optional part of a key does not.
func (k keyReader) tellsAttribute(a *index.Attribute) bool {
	if _, isWildcard := k.rule.Path.Wildcard(a.Name); isWildcard || !k.determines(a.Name) {
		return false
	}
	return !slices.Contains(k.key, KeyPart{Name: a.Name, Optional: true}) || !a.Fits("")
}

// tellsPath reports whether a path matches for all requests with the same key or for none. It compares segments
// with those of the rule's path, which already matches.
func (k keyReader) tellsPath(p pattern.Path) bool {
	if p.Text == "" || k.determines("path") {
		return true
	}
	known, asked := k.rule.Path.Text, p.Text
	if known == "" {
		return false
	}
	for known != "" && asked != "" {
		var have, want string
		have, known = pattern.NextSegment(known)
		want, asked = pattern.NextSegment(asked)
		switch {
		case pattern.IsRest(want):
			return true // regardless of what follows
		case !pattern.IsWildcard(have):
		case pattern.IsRest(have):
			return k.has(pattern.WildcardName(have))
		case !pattern.IsWildcard(want) && !k.has(pattern.WildcardName(have)):
			return false
		}
	}
	if known != "" && k.rule.Path.Ignore&urlform.TrailingSlash != 0 {
		// {name...} is empty in the one path that matches both.
		have, _ := pattern.NextSegment(known)
		return !pattern.IsRest(have) || k.has(pattern.WildcardName(have))
	}
	return true // if one is longer, it never matches
}

// matchID returns an identifier of a match that does not depend on its position or on the order of its
// conditions. It is part of the counter names of overrides, so it must not change between releases.
func matchID(c *index.Conditions) uint64 {
	var text []byte
	add := func(parts ...string) {
		text = binary.AppendUvarint(text, uint64(len(parts)))
		for _, part := range parts {
			text = append(binary.AppendUvarint(text, uint64(len(part))), part...)
		}
	}
	add(sortedSet(c.Methods)...)
	add(c.Path.Shape())
	if c.When == nil {
		add()
	} else {
		add(c.When.Text)
	}
	for i := range c.Attributes {
		a := &c.Attributes[i]
		patterns := make([]string, len(a.Patterns))
		for k := range a.Patterns {
			patterns[k] = a.Patterns[k].Text
			if network := a.Patterns[k].Network; network.IsValid() {
				patterns[k] = network.String()
			}
		}
		add(a.Name)
		add(sortedSet(patterns)...)
	}
	sum := sha256.Sum256(text)
	return binary.BigEndian.Uint64(sum[:]) | 1<<63 // never 0, which is the scope of the rule itself
}

func sortedSet(texts []string) []string {
	texts = slices.Clone(texts)
	slices.Sort(texts)
	return slices.Compact(texts)
}

// separate reports an override whose counters collide with those of an override with a different match, because
// their names are hashes. One in seventy million rules with a thousand overrides has such a pair.
func (c *compiler) separate(names map[uint64]uint64, o *Override, at path) {
	meters := slices.Clone(o.Limits)
	if o.Dedup != nil {
		meters = append(meters, o.Dedup.Budget)
	}
	for _, m := range meters {
		if other, taken := names[m.Fingerprint]; taken && other != o.MatchID {
			c.fail(at.with("match"), complain("the hash of this match is that of another override's, so they would share counters").
				suggest("write it differently, for example with a condition that always holds"))
			return
		}
		names[m.Fingerprint] = o.MatchID
	}
}
