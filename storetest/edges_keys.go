package storetest

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
)

// checkKeys exhausts the limit of every hostile key and requires that each had its full limit.
func checkKeys(nodes []storage.Store) error {
	m := algorithm.Limit{Algorithm: algorithm.FixedWindow, Count: 2, Window: time.Hour}.MustCompile()
	domain := newSubject().String()
	var errs []error
	seen := map[storage.Subject]string{}
	for name, subject := range hostileKeys(domain) {
		if twin, taken := seen[subject]; taken {
			errs = append(errs, fmt.Errorf("%s and %s are the same subject", name, twin))
			continue
		}
		seen[subject] = name
		for i, want := range []bool{true, true, false} {
			s := singleCharge(scenarioStart, m, 1, 0, 0)
			out, err := take(nodes, []storage.Subject{subject}, &s)
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", name, err))
			} else if out.Allowed != want {
				errs = append(errs, fmt.Errorf("%s: call %d: pass is %v, want %v: it shares its limit with another key", name, i+1, out.Allowed, want))
			}
		}
	}
	return errors.Join(errs...)
}

// hostileKeys returns keys that a client could choose to be mistaken for another key, to be no valid key, or to
// be too long. The last ones are subjects whose bytes are special in some store.
func hostileKeys(domain string) map[string]storage.Subject {
	key := func(parts ...string) storage.Subject {
		var attributes []storage.Attribute
		for i := 0; i+1 < len(parts); i += 2 {
			attributes = append(attributes, storage.Attribute{Name: parts[i], Value: parts[i+1]})
		}
		return hasher.Subject(domain, "rule", attributes...)
	}
	const long = 10 << 20
	keys := map[string]storage.Subject{
		"no attributes":     key(),
		"empty":             key("", ""),
		"empty twice":       key("", "", "", ""),
		"empty value":       key("user", ""),
		"ab, c":             key("ab", "c"),
		"a, bc":             key("a", "bc"),
		"abc, empty":        key("abc", ""),
		"empty, abc":        key("", "abc"),
		"a, b, c, d":        key("a", "b", "c", "d"),
		"c, d, a, b":        key("c", "d", "a", "b"),
		"{}":                key("user", "{}"),
		"{":                 key("user", "{"),
		"}":                 key("user", "}"),
		"}{":                key("user", "}{"),
		"{user}":            key("user", "{user}"),
		"NUL":               key("user", "\x00"),
		"two NULs":          key("user", "\x00\x00"),
		"a, then NUL":       key("user", "a\x00"),
		"a":                 key("user", "a"),
		"line end":          key("user", "a\r\n"),
		"colon":             key("user", "a:b"),
		"pipe":              key("user", "a|b"),
		"umlaut composed":   key("user", "\u00fc"),
		"umlaut decomposed": key("user", "u\u0308"),
		"not UTF-8":         key("user", "\xff\xfe"),
		"emoji":             key("user", "🚰"),
		"right to left":     key("user", "\u202eresu"),
		"10 MB":             key("user", strings.Repeat("x", long)),
		"10 MB, other end":  key("user", strings.Repeat("x", long-1)+"y"),
		"10 MB, shorter":    key("user", strings.Repeat("x", long-1)),
		"another rule":      hasher.Subject(domain, "rule2"),
		"another domain":    hasher.Subject(domain+"r", "ule"),
	}
	// A subject may consist of any bytes, with a run of its own in the middle.
	for _, b := range []byte{0, '{', '}', '\r', '\n', ' ', '*', 0xff} {
		s := newSubject()
		for i := range s {
			if i < 6 || i >= 10 {
				s[i] = b
			}
		}
		keys[fmt.Sprintf("all but four bytes %q", b)] = s
	}
	return keys
}
