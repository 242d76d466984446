package rules

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"

	"github.com/penstock-io/penstock/internal/urlform"
)

// An override shares its rule's counters if a key always gets the same override: the limit that a
// counter is refilled and expires by is then the same for every request. Otherwise requests of one
// key would look at one counter by different limits, and the override has counters of its own.

// sharesCounters tells whether everything that an override's match reads is part of the key of the
// rule with these conditions.
func sharesCounters(rule *conditions, key []KeyPart, override *conditions) bool {
	k := keyReader{rule, key}
	if len(override.methods) > 0 && !k.tells("method") || !k.tellsPath(override.path) {
		return false
	}
	for i := range override.attributes {
		if !k.tellsAttribute(&override.attributes[i]) {
			return false
		}
	}
	if override.when == nil {
		return true
	}
	return !slices.ContainsFunc(override.when.reads, func(name string) bool { return !k.tells(name) })
}

// A keyReader tells what follows from the key of a request that a rule matches.
type keyReader struct {
	rule *conditions
	key  []KeyPart
}

// part returns the part of the key that has the whole value of a name: ip/48 says less than ip.
func (k keyReader) part(name string) (part KeyPart, ok bool) {
	i := slices.IndexFunc(k.key, func(p KeyPart) bool { return p.value() == name })
	if i < 0 {
		return KeyPart{}, false
	}
	return k.key[i], true
}

func (k keyReader) has(name string) bool {
	_, ok := k.part(name)
	return ok
}

// tells reports whether requests with the same key have the same value of a name, as expressions see
// it: one that is missing is empty.
func (k keyReader) tells(name string) bool {
	if k.has(name) {
		return true
	}
	switch name {
	case "domain":
		return true // the rule is for one
	case "path": // made of literals and wildcards
		return k.rule.path.text != "" && !slices.ContainsFunc(k.rule.path.wildcards(), func(name string) bool { return !k.has(name) })
	}
	return false
}

// tellsAttribute reports whether the condition holds for all requests with the same key or for none.
// A condition tells a missing attribute from an empty one; an optional part of a key does not.
func (k keyReader) tellsAttribute(a *attributeCondition) bool {
	if _, isWildcard := k.rule.path.wildcard(a.name); isWildcard || !k.tells(a.name) {
		return false
	}
	part, _ := k.part(a.name)
	return !part.Optional || !a.holds(&value{there: true})
}

// tellsPath reports whether a path fits for all requests with the same key or for none. It compares
// segments with those of the rule's path, which fits already.
func (k keyReader) tellsPath(p pathPattern) bool {
	if p.text == "" || k.tells("path") {
		return true
	}
	known, asked := k.rule.path.text, p.text
	if known == "" {
		return false
	}
	for known != "" && asked != "" {
		var have, want string
		have, known = nextSegment(known)
		want, asked = nextSegment(asked)
		switch {
		case isWildcard(want) && isRest(want):
			return true // whatever follows
		case !isWildcard(have):
		case isRest(have):
			return k.has(wildcardName(have))
		case !isWildcard(want) && !k.has(wildcardName(have)):
			return false
		}
	}
	if known != "" && k.rule.path.ignore&urlform.TrailingSlash != 0 {
		// {name...} stands for nothing in the one path that fits both.
		have, _ := nextSegment(known)
		return !isWildcard(have) || !isRest(have) || k.has(wildcardName(have))
	}
	return true // if one is longer, it never fits
}

// matchID names a match, wherever it stands and in whatever order it is written. The counters of
// overrides are named by it, so it must not change between releases.
func (c *conditions) matchID() uint64 {
	var text []byte
	add := func(parts ...string) {
		text = binary.AppendUvarint(text, uint64(len(parts)))
		for _, part := range parts {
			text = append(binary.AppendUvarint(text, uint64(len(part))), part...)
		}
	}
	add(sortedSet(c.methods)...)
	add(c.path.shape())
	if c.when == nil {
		add()
	} else {
		add(c.when.text)
	}
	for i := range c.attributes {
		a := &c.attributes[i]
		patterns := make([]string, len(a.patterns))
		for k := range a.patterns {
			patterns[k] = a.patterns[k].text
			if network := a.patterns[k].network; network.IsValid() {
				patterns[k] = network.String()
			}
		}
		add(a.name)
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

// separate complains about an override that has the counters of another one with another match, as
// their names are hashes. Among seventy million rules with a thousand overrides each, one has such a pair.
func (c *compiler) separate(names map[uint64]uint64, o *Override, at path) {
	meters := slices.Clone(o.Limits)
	if o.Dedup != nil {
		meters = append(meters, o.Dedup.Budget)
	}
	for _, m := range meters {
		if other, taken := names[m.Fingerprint]; taken && other != o.MatchID {
			c.fail(at.with("match"), complain("the hash of this match is that of another override's, so they would share counters").
				but("write it differently, for example with a condition that always holds"))
			return
		}
		names[m.Fingerprint] = o.MatchID
	}
}
