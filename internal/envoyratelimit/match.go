package envoyratelimit

import (
	"strings"

	"github.com/penstock-io/penstock"
)

// find walks down one level for each entry: by its exact value, else by the first wildcard that matches, else by its
// key. It does not backtrack, and only a limit at the depth of the last entry counts. It returns nil if there is
// none.
func (c *Config) find(domain string, entries []penstock.Attribute) (found *limit) {
	at := c.domains[domain]
	if at == nil {
		return nil
	}
	for i := range entries {
		d := at.find(entries[i])
		if d == nil {
			return nil
		}
		found, at = d.limit, d.below
	}
	return found
}

// appendKey appends the key that a descriptor is counted by: its values, or the pattern if all values that match are
// counted as one.
func (l *limit) appendKey(key []string, entries []penstock.Attribute) []string {
	for i := range entries {
		if l.patterns[i] != "" {
			key = append(key, l.patterns[i])
		} else {
			key = append(key, entries[i].Value)
		}
	}
	return key
}

func (l *level) find(e penstock.Attribute) *descriptor {
	if d := l.exact[e]; d != nil {
		return d
	}
	for _, d := range l.wild[e.Name] {
		if fits(d.value, e.Value) {
			return d
		}
	}
	return l.bare[e.Name]
}

// fits reports whether a value matches a pattern, in which each * matches any characters, or none.
func fits(pattern, value string) bool {
	parts := strings.Split(pattern, "*")
	first, last := parts[0], parts[len(parts)-1]
	if len(value) < len(first)+len(last) || !strings.HasPrefix(value, first) || !strings.HasSuffix(value, last) {
		return false
	}
	rest := value[len(first) : len(value)-len(last)]
	for _, part := range parts[1 : len(parts)-1] {
		i := strings.Index(rest, part)
		if i < 0 {
			return false
		}
		rest = rest[i+len(part):]
	}
	return true
}
