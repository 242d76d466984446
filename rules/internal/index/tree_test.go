package index_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/urlform"
	"github.com/penstock-io/penstock/rules/internal/index"
	"github.com/penstock-io/penstock/rules/internal/naive"
)

// The tests must detect an index that loses any one of its candidates; otherwise the comparison with the naive
// matcher proves nothing.
func TestALostCandidateIsCaught(t *testing.T) {
	w := &naive.Rules{Rules: []naive.Rule{
		{Match: naive.Match{Domain: "d"}},
		{Match: naive.Match{Domain: "default", Path: "/a/{x}"}},
		{Match: naive.Match{Domain: "default", Path: "/a/{r...}"}},
		{Match: naive.Match{Domain: "default", Attributes: naive.Attributes("user", "bob", "al*")}},
		{Match: naive.Match{Domain: "default", Attributes: naive.Attributes("ip", "10.0.0.0/8", "2001:db8::/32")}},
		{Match: naive.Match{Domain: "default", Attributes: naive.Attributes("host", "*ce")}},
		{Match: naive.Match{Methods: []string{"GET"}}},
		{Match: naive.Match{}},
	}}
	addCrowd(w)
	filed := build(t, w).Lose(-1)
	if filed < len(w.Rules) {
		t.Fatalf("%d rules are filed %d times", len(w.Rules), filed)
	}
	calls := rapid.Custom(naive.DrawCall)
	for lost := range filed {
		x := build(t, w)
		x.Lose(lost)
		caught := false
		var m index.Match
		for seed := 0; seed < 2000 && !caught; seed++ {
			caught = differ(x, w, calls.Example(seed), &m) != ""
		}
		for i := 0; i < index.Crowd && !caught; i++ {
			caught = differ(x, w, naive.Call(fmt.Sprint("crowd-", i)), &m) != ""
		}
		if !caught {
			t.Errorf("candidate %d of %d was lost and nobody noticed", lost, filed)
		}
	}
}

// Hashes may collide. Here each leads to everything that any of its kind leads to, and last to its own target:
// everything is still found, once, and nothing loops.
func TestHashesThatAreAlike(t *testing.T) {
	w := &naive.Rules{}
	for i := range 8 * index.Crowd {
		both := append(naive.Attributes("user", fmt.Sprint("u", i%2)), naive.Attributes("plan", fmt.Sprint("p", i/2%2))...)
		w.Rules = append(w.Rules, naive.Rule{Match: naive.Match{Domain: "default", Methods: []string{"GET"}, Attributes: both}})
	}
	for i := range 3 * index.Crowd {
		w.Rules = append(w.Rules,
			naive.Rule{Match: naive.Match{Domain: "default", Path: fmt.Sprintf("/p%d/x", i), Attributes: naive.Attributes("ip", fmt.Sprintf("10.0.%d.0/24", i))}},
			naive.Rule{Match: naive.Match{Domain: "default", Attributes: naive.Attributes("host", fmt.Sprintf("*.%d.com", i))}})
	}
	x := build(t, w)
	x.Confuse()
	var m index.Match
	for i := range 3 * index.Crowd {
		call := naive.Call("", "path", fmt.Sprintf("/p%d/x", i), "method", "GET", "user", fmt.Sprint("u", i%2), "plan", "p1", "ip", fmt.Sprintf("10.0.%d.1", i), "host", fmt.Sprintf("a.%d.com", i))
		if diff := differ(x, w, call, &m); diff != "" {
			t.Errorf("%+v: %s", call, diff)
		}
	}
}

// Texts and numbers of attributes that take more than a byte to write down.
func TestLongRecords(t *testing.T) {
	w := &naive.Rules{}
	call := naive.Call("")
	for i := range 200 {
		name, value := fmt.Sprint("a", i), fmt.Sprint(i, strings.Repeat("x", i*5))
		w.Rules = append(w.Rules, naive.Rule{Match: naive.Match{Domain: "default", Attributes: naive.Attributes(name, value)}, Key: []index.KeyPart{{Name: name}}})
		if i%3 != 0 {
			call.Attributes = append(call.Attributes, penstock.Attribute{Name: name, Value: value})
		}
	}
	x := build(t, w)
	var m index.Match
	if diff := differ(x, w, call, &m); diff != "" || len(m.Found) != len(call.Attributes) {
		t.Errorf("%d rules of %d match: %s", len(m.Found), len(call.Attributes), diff)
	}
}

// addCrowd adds rules so that there are enough to be divided.
func addCrowd(w *naive.Rules) {
	for i := range index.Crowd {
		w.Rules = append(w.Rules, naive.Rule{Match: naive.Match{Domain: fmt.Sprint("crowd-", i)}})
	}
}

// Every path down the tree, with its edge cases.
func TestBranches(t *testing.T) {
	w := &naive.Rules{}
	for _, pattern := range []string{
		"0.0.0.0/0", "10.0.0.0/8", "10.0.0.0/24", "10.0.0.1", "::/0", "2001:db8::/32", "2001:db8::1",
		"al*", "alice*", "a*e", "*ce", "*alice", "alice", "*", "*i*",
	} {
		w.Rules = append(w.Rules, naive.Rule{Match: naive.Match{Attributes: naive.Attributes("user", pattern)}})
	}
	for _, path := range naive.Paths {
		w.Rules = append(w.Rules, naive.Rule{Match: naive.Match{Path: path}})
	}
	addCrowd(w)
	x := build(t, w)
	var m index.Match
	for _, user := range []string{"10.0.0.1", "10.0.0.2", "10.1.0.0", "11.0.0.0", "2001:db8::1", "2001:db8::2", "::1", "alice", "al", "ce", "ae", "a", "", "alic"} {
		if diff := differ(x, w, naive.Call("", "user", user), &m); diff != "" {
			t.Errorf("%q: %s", user, diff)
		}
	}
	for _, path := range naive.RequestPaths {
		if diff := differ(x, w, naive.Call("", "path", path), &m); diff != "" {
			t.Errorf("%q: %s", path, diff)
		}
	}
}

// Rules that share most of their conditions are still separated: a request skips nearly all rules that do not
// match.
func TestCandidatesAreFewHoweverRulesAreWritten(t *testing.T) {
	call := naive.Call("", "method", "GET", "path", "/p7/x/items", "user", "u7", "plan", "gold", "ip", "10.0.7.1", "host", "h7.example.com")
	for name, write := range map[string]func(i int) naive.Match{
		"users": func(i int) naive.Match {
			return naive.Match{Domain: "default", Attributes: naive.Attributes("user", fmt.Sprint("u", i))}
		},
		"one plan, many paths": func(i int) naive.Match {
			return naive.Match{Domain: "default", Path: fmt.Sprintf("/p%d/{x}/items", i), Attributes: naive.Attributes("plan", "gold")}
		},
		"networks": func(i int) naive.Match {
			return naive.Match{Domain: "default", Attributes: naive.Attributes("ip", fmt.Sprintf("10.%d.%d.0/24", i/256, i%256))}
		},
		"prefixes": func(i int) naive.Match {
			return naive.Match{Domain: "default", Attributes: naive.Attributes("host", fmt.Sprintf("h%d.*", i))}
		},
		"suffixes": func(i int) naive.Match {
			return naive.Match{Domain: "default", Attributes: naive.Attributes("host", fmt.Sprintf("*.%d.com", i))}
		},
		"domains": func(i int) naive.Match { return naive.Match{Domain: fmt.Sprint("d", i)} },
		"tenants by paths": func(i int) naive.Match {
			return naive.Match{Domain: "default", Path: fmt.Sprintf("/p%d/{r...}", i%50), Attributes: naive.Attributes("user", fmt.Sprint("u", i/50))}
		},
		"plans, tenants, paths": func(i int) naive.Match {
			return naive.Match{Domain: "default", Methods: []string{"GET", "POST"}, Path: fmt.Sprintf("/p%d/{r...}", i%10), Attributes: append(naive.Attributes("user", fmt.Sprint("u", i/100)), naive.Attributes("plan", "gold", fmt.Sprint(i/10%10))...)}
		},
		"another value, all alike": func(i int) naive.Match {
			return naive.Match{Domain: "default", Methods: []string{"GET"}, Attributes: append(naive.Attributes("user", "u7"), naive.Attributes("plan", "free")...)}
		},
	} {
		w := &naive.Rules{}
		for i := range 5000 {
			w.Rules = append(w.Rules, naive.Rule{Match: write(i)})
		}
		x := build(t, w)
		var m index.Match
		if diff := differ(x, w, call, &m); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if n, most := m.Candidates(), len(m.Found)+index.Crowd; n > most {
			t.Errorf("%s: %d candidates for %d rules that match, want at most %d", name, n, len(m.Found), most)
		}
	}
}

// Long lists for several attributes do not multiply.
func TestListsDoNotMultiply(t *testing.T) {
	var values []string
	for i := range 200 {
		values = append(values, fmt.Sprint("v", i))
	}
	w := &naive.Rules{}
	for range 20 {
		m := naive.Match{Domain: "default"}
		for _, name := range []string{"a", "b", "c"} {
			m.Attributes = append(m.Attributes, naive.Attribute{Name: name, Values: values})
		}
		w.Rules = append(w.Rules, naive.Rule{Match: m})
	}
	x := build(t, w)
	filed := x.Filed()
	if most := 20 * 200; filed > most {
		t.Errorf("filed %d times, want at most %d", filed, most)
	}
	var m index.Match
	if diff := differ(x, w, naive.Call("", "a", "v1", "b", "v2", "c", "v3"), &m); diff != "" || len(m.Found) != 20 {
		t.Errorf("%d rules match: %s", len(m.Found), diff)
	}
}

// The common case: a realistic set without expressions, and a Match that is reused.
func TestMatchAllocatesNothing(t *testing.T) {
	w := &naive.Rules{
		Deny:  []naive.Match{{Attributes: naive.Attributes("user", "mallory")}, {Attributes: naive.Attributes("ip", "203.0.113.0/24")}},
		Allow: []naive.Match{{Attributes: naive.Attributes("ip", "192.0.2.0/24", "2001:db8::/32")}},
	}
	for i := range 2000 {
		w.Rules = append(w.Rules,
			naive.Rule{Match: naive.Match{Domain: "default", Path: fmt.Sprintf("/v1/p%d/{rest...}", i)}, Key: []index.KeyPart{{Name: "user"}}},
			naive.Rule{Match: naive.Match{Domain: "default", Path: fmt.Sprintf("/v1/p%d/{kind}/{id}", i)}, Key: []index.KeyPart{{Name: "id"}, {Name: "kind"}}},
			naive.Rule{Match: naive.Match{Domain: "default", Attributes: naive.Attributes("user", fmt.Sprint("u", i))}, Key: []index.KeyPart{{Name: "user"}, {Name: "device", Optional: true}}},
		)
	}
	gold := naive.Rule{Match: naive.Match{Domain: "default", Methods: []string{"GET", "POST"}}, Key: []index.KeyPart{{Name: "ip"}}}
	for i := range 20 {
		gold.Overrides = append(gold.Overrides, naive.Override{Match: naive.Match{Attributes: naive.Attributes("plan", fmt.Sprint("plan", i))}})
	}
	w.Rules = append(w.Rules, gold)
	x := build(t, w)
	now := penstock.InstantOf(naive.Moment)
	for _, call := range []*penstock.Call{
		naive.Call("", "method", "GET", "path", "/v1/p7/items/8", "host", "api.example.com", "ip", "10.1.2.3", "user", "u7", "plan", "plan3"),
		naive.Call("", "method", "GET", "path", "/", "host", "api.example.com", "ip", "2001:db9::1"),
		naive.Call("", "method", "GET", "path", "/", "user", "mallory"),
		naive.Call("", "path", "/", "ip", "192.0.2.1"),
		naive.Call("other"),
	} {
		var m index.Match
		if diff := differ(x, w, call, &m); diff != "" {
			t.Errorf("%+v: %s", call, diff)
		}
		if n := testing.AllocsPerRun(100, func() { x.Match(call, now, &m) }); n != 0 {
			t.Errorf("%+v: %v allocations", call, n)
		}
	}
}

func BenchmarkMatch(b *testing.B) {
	for _, size := range []int{10, 1000, 100_000} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			w := &naive.Rules{}
			for i := range size {
				w.Rules = append(w.Rules, naive.Rule{Ignore: urlform.Loose, Match: naive.Match{Domain: "default", Path: fmt.Sprintf("/v1/p%d/{rest...}", i%100), Attributes: naive.Attributes("user", fmt.Sprint("u", i/100))}, Key: []index.KeyPart{{Name: "user"}}})
			}
			x := build(b, w)
			call := naive.Call("", "method", "GET", "path", "/v1/p7/items/8", "host", "api.example.com", "ip", "10.1.2.3", "user", "u0", "plan", "plan3")
			var m index.Match
			for b.Loop() {
				x.Match(call, 1, &m)
			}
			if len(m.Found) != 1 {
				b.Errorf("%d rules match, want 1", len(m.Found))
			}
		})
	}
}

// Each network length that rules use is a separate look.
func BenchmarkNetworkLengths(b *testing.B) {
	for _, lengths := range []int{1, 8, 31} {
		b.Run(fmt.Sprint(lengths), func(b *testing.B) {
			w := &naive.Rules{}
			for i := range 3000 {
				network := netip.PrefixFrom(netip.AddrFrom4([4]byte{128 | byte(i>>8), byte(i), byte(i * 7), byte(i * 13)}), 32-i%lengths).Masked()
				w.Rules = append(w.Rules, naive.Rule{Match: naive.Match{Domain: "default", Attributes: naive.Attributes("ip", network.String())}})
			}
			x := build(b, w)
			call := naive.Call("", "method", "GET", "ip", "10.1.2.3")
			var m index.Match
			for b.Loop() {
				x.Match(call, 1, &m)
			}
		})
	}
}
