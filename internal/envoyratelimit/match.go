package envoyratelimit

import (
	"slices"
	"strings"

	"github.com/penstock-io/penstock"
)

// A match is the limit of one descriptor of a request, and what is counted under it.
type match struct {
	limit   *limit               // nil: none
	entries []penstock.Attribute // with the pattern for the value where all that fit it are one
	shared  uint64               // a bit for each of those

	counted counted          // what is counted alone; zero: nothing is
	isOver  bool             // it is known to be over, without asking
	overAt  penstock.Instant // the store's time then
}

// find walks down one level for each entry: by its value to the letter, else by the first wildcard
// that fits, else by its key. There is no way back, and only a limit at the depth of the last entry
// counts.
func (c *Config) find(domain string, entries []penstock.Attribute) (m match) {
	at := c.domains[domain]
	if at == nil {
		return match{}
	}
	m.entries = entries
	for i := range entries {
		d := at.find(entries[i])
		if d == nil {
			return match{}
		}
		if d.shared {
			m.share(i, d.value)
		}
		m.limit, at = d.limit, d.below
	}
	return m
}

// share counts an entry as its pattern. The request's own entries stay as they are.
func (m *match) share(i int, pattern string) {
	if m.shared == 0 {
		m.entries = slices.Clone(m.entries)
	}
	m.shared |= 1 << i
	m.entries[i].Value = pattern
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
