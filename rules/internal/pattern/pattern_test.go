package pattern_test

import (
	"strings"
	"testing"

	"github.com/penstock-io/penstock/rules/internal/naive"
	"github.com/penstock-io/penstock/rules/internal/pattern"
)

func TestPatterns(t *testing.T) {
	for _, test := range []struct {
		pattern  string
		fits     []string
		fitsNone []string
	}{
		{"gold", []string{"gold"}, []string{"", "Gold", "golden", "old"}},
		{"*", []string{"", "anything", "*"}, nil},
		{"team-*", []string{"team-", "team-7"}, []string{"team", "a team-7"}},
		{"*.example.com", []string{".example.com", "a.b.example.com"}, []string{"example.com", "a.example.com."}},
		{"a*a", []string{"aa", "aba", "a*a"}, []string{"a", "ab"}},
		{"a*b*c", []string{"abc", "axxbxbxc", "abcbc"}, []string{"acb", "ab", "bc"}},
		{"*a*", []string{"a", "bab"}, []string{"", "b"}},
		{"a**", []string{"a", "ab"}, []string{"b"}},
		{"10.0.0.0/8", []string{"10.0.0.0", "10.255.1.2", "::ffff:10.1.2.3"}, []string{"11.0.0.0", "", "10", "10.0.0.0/8", "10.0.0.1:80"}},
		{"::ffff:10.0.0.0/104", []string{"10.1.2.3", "::ffff:10.1.2.3"}, []string{"11.0.0.0", "::10.1.2.3"}},
		{"2001:db8::/32", []string{"2001:db8::1", "2001:DB8:0::1", "2001:db8::1%eth0"}, []string{"2001:db9::1", "10.0.0.1"}},
		{"::/0", []string{"::1"}, []string{"10.0.0.1", "::ffff:10.0.0.1"}},
		{"0.0.0.0/0", []string{"10.0.0.1"}, []string{"::1"}},
		{"2001:DB8::1", []string{"2001:db8::1", "2001:db8:0:0:0:0:0:1"}, []string{"2001:db8::2"}},
		{"10.0.0.1", []string{"10.0.0.1", "::ffff:10.0.0.1"}, []string{"10.0.0.2", "010.0.0.1"}},
		{"fe80::1%eth0", []string{"fe80::1%eth0"}, []string{"fe80::1", "fe80::1%eth1"}},
		{"10/8", []string{"10/8"}, []string{"10.0.0.1"}},
		{"text/html", []string{"text/html"}, []string{"text/plain"}},
		{"10.0.*", []string{"10.0.", "10.0.0.1"}, []string{"10.1.0.1"}},
	} {
		p, err := pattern.ParseValue(test.pattern)
		if err != nil {
			t.Errorf("%q: %v", test.pattern, err)
			continue
		}
		for _, text := range test.fits {
			if !p.Fits(text) {
				t.Errorf("%q does not fit %q", test.pattern, text)
			}
		}
		for _, text := range test.fitsNone {
			if p.Fits(text) {
				t.Errorf("%q fits %q", test.pattern, text)
			}
		}
	}
}

func TestBadPatterns(t *testing.T) {
	for written, want := range map[string]string{
		"":                        "* stands for any value",
		"10.0.0.0/33":             "from 0 to 32",
		"10.0.0.0/":               "from 0 to 32",
		"10.0.0.0/x":              "from 0 to 32",
		"::/129":                  "from 0 to 128",
		"10.0.0.1/8":              "write 10.0.0.0/8 for the network or 10.0.0.1 for the address",
		"::ffff:10.0.0.0/90":      "bits beyond",
		strings.Repeat("a", 1025): "at most 1024",
		strings.Repeat("*a", 9):   "at most 8",
	} {
		if _, err := pattern.ParseValue(written); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: error %v; want one that says %q", written, err, want)
		}
	}
}

// FuzzPattern compares patterns with a naive implementation.
func FuzzPattern(f *testing.F) {
	for _, seed := range [][2]string{{"gold", "gold"}, {"a*b*c", "abbc"}, {"*", ""}, {"10.0.0.0/8", "10.1.1.1"}, {"::1", "0::1"}, {"1.1.1.1/40", "1"}, {"*a*a*", "aa"}} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, written, text string) {
		p, err := pattern.ParseValue(written)
		if err != nil {
			return
		}
		got := p.Fits(text)
		if want := naive.Fits(written, text); got != want {
			t.Errorf("%q fits %q: %v, want %v", written, text, got, want)
		}
		if !p.Wild && !p.Fits(written) && !strings.Contains(written, "/") {
			t.Errorf("%q does not fit itself", written)
		}
	})
}
