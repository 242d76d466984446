package rules

import (
	"fmt"
	"strings"
	"testing"
)

const prefixRules = `
rules:
  - {name: whole, key: [ip], limits: [1/1m]}
  - {name: site, key: [ip/48], limits: [1/1m], overrides: [{match: {ip: 2001:db8::/32}, limits: [2/1m]}]}
  - {name: peer, key: ["remote/64?"], limits: [1/1m], match: {attributes: {remote: "*"}}}
  - {name: both, key: [ip/56, user], limits: [1/1m]}
`

func TestKeysOfPrefixes(t *testing.T) {
	s := compiled(t, prefixRules)
	var m Match
	for _, test := range []struct{ attributes, want string }{
		{"ip=2001:db8:1:2::", "whole(2001:db8:1:2::) site[0](2001:db8:1::/48)"},
		{"ip=2001:db8:1:ffff:1:2:3:4", "whole(2001:db8:1:ffff:1:2:3:4) site[0](2001:db8:1::/48)"},
		{"ip=2001:DB9:0:0::1", "whole(2001:db9::1) site(2001:db9::/48)"},
		{"ip=192.0.2.1", "whole(192.0.2.1) site(192.0.2.1)"},
		{"ip=::ffff:192.0.2.1", "whole(192.0.2.1) site(192.0.2.1)"},
		{"ip=64:ff9b::192.0.2.1", "whole(192.0.2.1) site(192.0.2.1)"},
		{"ip=2002:c000:201:7::", "whole(192.0.2.1) site(192.0.2.1)"},
		{"ip=nonsense", "whole(nonsense) site(nonsense)"},
		{"ip=2001:db9:1::/48", "whole(2001:db9:1::/48) site(2001:db9:1::/48)"}, // as a key is shown
		{"remote=2001:db8:1:2:3::", "peer(2001:db8:1:2::/64)"},
		{"remote=64:ff9b::c000:202", "peer(192.0.2.2)"},
		{"ip=2001:db9:1:2ff::,user=u", "whole(2001:db9:1:2ff::) site(2001:db9:1::/48) both(2001:db9:1:200::/56,u)"},
		{"user=u", ""},
	} {
		var pairs []string
		for _, pair := range strings.Split(test.attributes, ",") {
			name, value, _ := strings.Cut(pair, "=")
			pairs = append(pairs, name, value)
		}
		s.Match(callOf("", pairs...), 1, &m)
		if got := told(&m); got != test.want {
			t.Errorf("%s: %q, want %q", test.attributes, got, test.want)
		}
	}
}

// Operators find the counter by any address in the network, and by the network.
func TestKeyedPrefixes(t *testing.T) {
	s := compiled(t, prefixRules)
	for _, ip := range []string{"2001:db9:1:2::3", "2001:db9:1::", "2001:db9:1::/48"} {
		found := s.Keyed(callOf("default", "ip", ip), 1, nil)
		if len(found) != 3 || fmt.Sprint(found[1].Key) != "[{ip 2001:db9:1::/48}]" {
			t.Errorf("%s: %+v", ip, found)
		}
	}
	if a, b := s.Rules[0].Subjects.Tag(), compiled(t, strings.Replace(prefixRules, "key: [ip]", "key: [ip/64]", 1)).Rules[0].Subjects.Tag(); a == b {
		t.Error("another prefix has the same counters")
	}
}

// A key of a network does not distinguish the addresses in it, so an override that does has its own counters.
func TestPrefixesDoNotTellAddresses(t *testing.T) {
	s := compiled(t, `rules: [{name: a, key: [ip/48], limits: [1/1m], overrides: [{match: {ip: "2001:db8:1:2::/64"}, limits: [2/1m]}, {match: {when: ip == "x"}, limits: [3/1m]}]}]`)
	for i, o := range s.Rules[0].Overrides {
		if !o.OwnCounters {
			t.Errorf("override %d shares the rule's counters", i)
		}
	}
}

// Networks are compared with addresses in their canonical form.
func TestNetworksOfEmbeddedAddresses(t *testing.T) {
	s := compiled(t, `
rules: [{name: all, key: [ip], limits: [1/1m]}]
lists:
  allow: [{ip: [10.0.0.0/8, "64:ff9b::c633:6400/120"]}]
  deny: [{ip: [192.0.2.0/24, "2002:cb00:7101::/48"]}]
`)
	for ip, want := range map[string]string{
		"192.0.2.9":           "denied",
		"64:ff9b::c000:209":   "denied",
		"2002:c000:209:1::":   "denied",
		"203.0.113.1":         "denied",
		"64:ff9b::cb00:7101":  "denied",
		"198.51.100.9":        "allowed",
		"64:ff9b::c633:6409":  "allowed",
		"64:ff9b::10.0.0.1":   "", // not the operator's 10.0.0.1
		"2002:a00:1::1":       "",
		"::ffff:10.0.0.1":     "allowed",
		"64:ff9b:1::c000:209": "",
	} {
		var m Match
		s.Match(callOf("", "ip", ip), 1, &m)
		if got := map[bool]string{true: "denied"}[m.Denied] + map[bool]string{true: "allowed"}[m.Allowed]; got != want {
			t.Errorf("%s: %q, want %q", ip, got, want)
		}
	}
}

func TestBadPrefixes(t *testing.T) {
	for text, want := range map[string]string{
		`key: [ip/24]`:                         "the prefix /24 must be from /33 to /128",
		`key: [ip/129]`:                        "the prefix /129 must be",
		`key: [ip/]`:                           "the prefix / must be",
		`key: [ip/048]`:                        "the prefix /048 must be",
		`key: [ip/-48]`:                        "the prefix /-48 must be",
		`key: [ip, ip/48]`:                     "ip is in the key twice",
		`key: [path/48]`:                       "path is not an address",
		`key: [id/48], match: {path: "/{id}"}`: "id is not an address",
		`key: [], match: {ip: "64:ff9b::/96"}`: "is never matched: its addresses count as the IPv4 addresses",
		`key: [], match: {ip: "2002::/16"}`:    "is never matched",
	} {
		problems := problemsOf("rules: [{name: a, limits: [1/1m], " + text + "}]")
		if len(problems) != 1 || !strings.Contains(problems[0], want) {
			t.Errorf("%s: %q; want %q", text, problems, want)
		}
	}
}
