package envoyratelimit

import (
	"strings"

	"github.com/penstock-io/penstock"
)

// find walks down one level for each entry: by its value to the letter, else by the first wildcard
// that fits, else by its key. There is no way back, and only a limit at the depth of the last entry
// counts. It returns nil if there is none.
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

// appendKey appends what a descriptor is counted by: its values, or the pattern where all that fit it
// are counted as one.
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

// fits tells whether a value is as a pattern says, in which each * stands for any characters, also
// none.
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
