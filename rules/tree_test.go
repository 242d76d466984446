package rules

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/penstock-io/penstock"
)

// lose forgets the i-th of all that a tree leads to: candidates, drawers and nodes. It returns how
// many there are.
func (t *tree) lose(lost int) (all int) {
	loses := func() bool {
		all++
		return all == lost+1
	}
	for _, places := range [][]place{t.labels.places, t.edges.places} {
		for i := range places {
			if p := &places[i]; p.to != 0 && loses() {
				p.tag = ^p.tag // others are found behind it
			}
		}
	}
	for i := range t.nodes {
		n := &t.nodes[i]
		for _, leads := range []*ref{&n.here, &n.rest, (*ref)(&n.any)} {
			if *leads != 0 && loses() {
				*leads = 0
			}
		}
	}
	for i := range t.drawers {
		here := &t.drawers[i].here
		for k := here.from; k < here.to; k++ {
			if loses() {
				t.here[k] = t.here[here.to-1]
				here.to--
			}
		}
	}
	return all
}

// An index that loses any one of its candidates must be caught, or the comparison with the naive
// matcher proves nothing.
func TestALostCandidateIsCaught(t *testing.T) {
	w := &writtenRules{rules: []writtenRule{
		{match: written{domain: "d"}},
		{match: written{domain: "default", path: "/a/{x}"}},
		{match: written{domain: "default", path: "/a/{r...}"}},
		{match: written{domain: "default", attributes: []writtenAttribute{{"user", []string{"bob", "al*"}}}}},
		{match: written{domain: "default", attributes: []writtenAttribute{{"ip", []string{"10.0.0.0/8", "2001:db8::/32"}}}}},
		{match: written{domain: "default", attributes: []writtenAttribute{{"host", []string{"*ce"}}}}},
		{match: written{methods: []string{"GET"}}},
		{match: written{}},
	}}
	w.crowd()
	filed := compileWritten(t, w).rules.lose(-1)
	if filed < len(w.rules) {
		t.Fatalf("%d rules are filed %d times", len(w.rules), filed)
	}
	calls := rapid.Custom(drawCall)
	for lost := range filed {
		x := compileWritten(t, w)
		x.rules.lose(lost)
		caught := false
		var m Match
		for seed := 0; seed < 2000 && !caught; seed++ {
			caught = differ(x, w, calls.Example(seed), &m) != ""
		}
		for i := 0; i < crowd && !caught; i++ {
			caught = differ(x, w, callOf(fmt.Sprint("crowd-", i)), &m) != ""
		}
		if !caught {
			t.Errorf("candidate %d of %d was lost and nobody noticed", lost, filed)
		}
	}
}

// Hashes may be alike. Here each leads to everything that any of its kind leads to, and what it should
// lead to is the last of it: all that should be found still is, once, and nothing goes round in circles.
func TestHashesThatAreAlike(t *testing.T) {
	w := &writtenRules{}
	for i := range 8 * crowd {
		both := append(attrs("user", fmt.Sprint("u", i%2)), attrs("plan", fmt.Sprint("p", i/2%2))...)
		w.rules = append(w.rules, writtenRule{match: written{domain: "default", methods: []string{"GET"}, attributes: both}})
	}
	for i := range 3 * crowd {
		w.rules = append(w.rules,
			writtenRule{match: written{domain: "default", path: fmt.Sprintf("/p%d/x", i), attributes: attrs("ip", fmt.Sprintf("10.0.%d.0/24", i))}},
			writtenRule{match: written{domain: "default", attributes: attrs("host", fmt.Sprintf("*.%d.com", i))}})
	}
	x := compileWritten(t, w)
	b := treeBuilder{slots: x.slots, nodes: map[edge]int32{}, work: func(int) bool { return true }}
	all := make([]filing, len(x.all))
	for i := range x.all {
		b.add(i, &x.all[i].conditions, nil, nil, 0)
		all[i] = filing{item: int32(i), copies: 1}
	}
	b.made.root = b.file(all)
	confuse := func(leads []lead) (confused []lead) {
		for _, l := range leads {
			for _, other := range leads {
				if other.to != l.to {
					confused = append(confused, lead{l.hash, other.to})
				}
			}
			confused = append(confused, l)
		}
		return confused
	}
	b.labels, b.edges = confuse(b.labels), confuse(b.edges)
	x.rules = b.finish()
	var m Match
	for i := range 3 * crowd {
		call := callOf("", "path", fmt.Sprintf("/p%d/x", i), "method", "GET", "user", fmt.Sprint("u", i%2), "plan", "p1", "ip", fmt.Sprintf("10.0.%d.1", i), "host", fmt.Sprintf("a.%d.com", i))
		if diff := differ(x, w, call, &m); diff != "" {
			t.Errorf("%+v: %s", call, diff)
		}
	}
}

// Texts and numbers of attributes that take more than a byte to write down.
func TestLongRecords(t *testing.T) {
	w := &writtenRules{}
	call := callOf("")
	for i := range 200 {
		name, value := fmt.Sprint("a", i), fmt.Sprint(i, strings.Repeat("x", i*5))
		w.rules = append(w.rules, writtenRule{match: written{domain: "default", attributes: attrs(name, value)}, key: []KeyPart{{Name: name}}})
		if i%3 != 0 {
			call.Attributes = append(call.Attributes, penstock.Attribute{Name: name, Value: value})
		}
	}
	x := compileWritten(t, w)
	var m Match
	if diff := differ(x, w, call, &m); diff != "" || len(m.Rules) != len(call.Attributes) {
		t.Errorf("%d rules of %d match: %s", len(m.Rules), len(call.Attributes), diff)
	}
}

// crowd adds rules so that there are enough to be divided.
func (w *writtenRules) crowd() {
	for i := range crowd {
		w.rules = append(w.rules, writtenRule{match: written{domain: fmt.Sprint("crowd-", i)}})
	}
}

// Every way down the tree, with what is at its edges.
func TestBranches(t *testing.T) {
	w := &writtenRules{}
	for _, pattern := range []string{
		"0.0.0.0/0", "10.0.0.0/8", "10.0.0.0/24", "10.0.0.1", "::/0", "2001:db8::/32", "2001:db8::1",
		"al*", "alice*", "a*e", "*ce", "*alice", "alice", "*", "*i*",
	} {
		w.rules = append(w.rules, writtenRule{match: written{attributes: attrs("user", pattern)}})
	}
	for _, path := range somePaths {
		w.rules = append(w.rules, writtenRule{match: written{path: path}})
	}
	w.crowd()
	x := compileWritten(t, w)
	var m Match
	for _, user := range []string{"10.0.0.1", "10.0.0.2", "10.1.0.0", "11.0.0.0", "2001:db8::1", "2001:db8::2", "::1", "alice", "al", "ce", "ae", "a", "", "alic"} {
		if diff := differ(x, w, callOf("", "user", user), &m); diff != "" {
			t.Errorf("%q: %s", user, diff)
		}
	}
	for _, path := range calls {
		if diff := differ(x, w, callOf("", "path", path), &m); diff != "" {
			t.Errorf("%q: %s", path, diff)
		}
	}
}

// Rules that share most of what they ask for are told apart all the same: a call is led past
// nearly all rules that do not match.
func TestCandidatesAreFewHoweverRulesAreWritten(t *testing.T) {
	call := callOf("", "method", "GET", "path", "/p7/x/items", "user", "u7", "plan", "gold", "ip", "10.0.7.1", "host", "h7.example.com")
	for name, write := range map[string]func(i int) written{
		"users": func(i int) written { return written{domain: "default", attributes: attrs("user", fmt.Sprint("u", i))} },
		"one plan, many paths": func(i int) written {
			return written{domain: "default", path: fmt.Sprintf("/p%d/{x}/items", i), attributes: attrs("plan", "gold")}
		},
		"networks": func(i int) written {
			return written{domain: "default", attributes: attrs("ip", fmt.Sprintf("10.%d.%d.0/24", i/256, i%256))}
		},
		"prefixes": func(i int) written {
			return written{domain: "default", attributes: attrs("host", fmt.Sprintf("h%d.*", i))}
		},
		"suffixes": func(i int) written {
			return written{domain: "default", attributes: attrs("host", fmt.Sprintf("*.%d.com", i))}
		},
		"domains": func(i int) written { return written{domain: fmt.Sprint("d", i)} },
		"tenants by paths": func(i int) written {
			return written{domain: "default", path: fmt.Sprintf("/p%d/{r...}", i%50), attributes: attrs("user", fmt.Sprint("u", i/50))}
		},
		"plans, tenants, paths": func(i int) written {
			return written{domain: "default", methods: []string{"GET", "POST"}, path: fmt.Sprintf("/p%d/{r...}", i%10), attributes: append(attrs("user", fmt.Sprint("u", i/100)), attrs("plan", "gold", fmt.Sprint(i/10%10))...)}
		},
		"another value, all alike": func(i int) written {
			return written{domain: "default", methods: []string{"GET"}, attributes: append(attrs("user", "u7"), attrs("plan", "free")...)}
		},
	} {
		w := &writtenRules{}
		for i := range 5000 {
			w.rules = append(w.rules, writtenRule{match: write(i)})
		}
		x := compileWritten(t, w)
		var m Match
		if diff := differ(x, w, call, &m); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if n, most := len(m.candidates), len(m.Rules)+crowd; n > most {
			t.Errorf("%s: %d candidates for %d rules that match, want at most %d", name, n, len(m.Rules), most)
		}
	}
}

func attrs(name string, values ...string) []writtenAttribute {
	return []writtenAttribute{{name, values}}
}

// Long lists for several attributes do not multiply.
func TestListsDoNotMultiply(t *testing.T) {
	var values []string
	for i := range 200 {
		values = append(values, fmt.Sprint("v", i))
	}
	w := &writtenRules{}
	for range 20 {
		m := written{domain: "default"}
		for _, name := range []string{"a", "b", "c"} {
			m.attributes = append(m.attributes, writtenAttribute{name, values})
		}
		w.rules = append(w.rules, writtenRule{match: m})
	}
	x := compileWritten(t, w)
	filed := len(x.rules.here)
	if most := 20 * 200; filed > most {
		t.Errorf("filed %d times, want at most %d", filed, most)
	}
	var m Match
	if diff := differ(x, w, callOf("", "a", "v1", "b", "v2", "c", "v3"), &m); diff != "" || len(m.Rules) != 20 {
		t.Errorf("%d rules match: %s", len(m.Rules), diff)
	}
}

// The common case: a realistic set without expressions, and a Match that is reused.
func TestMatchAllocatesNothing(t *testing.T) {
	w := &writtenRules{
		deny:  []written{{attributes: attrs("user", "mallory")}, {attributes: attrs("ip", "203.0.113.0/24")}},
		allow: []written{{attributes: attrs("ip", "192.0.2.0/24", "2001:db8::/32")}},
	}
	for i := range 2000 {
		w.rules = append(w.rules,
			writtenRule{match: written{domain: "default", path: fmt.Sprintf("/v1/p%d/{rest...}", i)}, key: []KeyPart{{Name: "user"}}},
			writtenRule{match: written{domain: "default", path: fmt.Sprintf("/v1/p%d/{kind}/{id}", i)}, key: []KeyPart{{Name: "id"}, {Name: "kind"}}},
			writtenRule{match: written{domain: "default", attributes: attrs("user", fmt.Sprint("u", i))}, key: []KeyPart{{Name: "user"}, {Name: "device", Optional: true}}},
		)
	}
	gold := writtenRule{match: written{domain: "default", methods: []string{"GET", "POST"}}, key: []KeyPart{{Name: "ip"}}}
	for i := range 20 {
		gold.overrides = append(gold.overrides, writtenOverride{match: written{attributes: attrs("plan", fmt.Sprint("plan", i))}})
	}
	w.rules = append(w.rules, gold)
	x := compileWritten(t, w)
	now := penstock.InstantOf(moment)
	for _, call := range []*penstock.Call{
		callOf("", "method", "GET", "path", "/v1/p7/items/8", "host", "api.example.com", "ip", "10.1.2.3", "user", "u7", "plan", "plan3"),
		callOf("", "method", "GET", "path", "/", "host", "api.example.com", "ip", "2001:db9::1"),
		callOf("", "method", "GET", "path", "/", "user", "mallory"),
		callOf("", "path", "/", "ip", "192.0.2.1"),
		callOf("other"),
	} {
		var m Match
		if diff := differ(x, w, call, &m); diff != "" {
			t.Errorf("%+v: %s", call, diff)
		}
		if n := testing.AllocsPerRun(100, func() { x.match(call, now, &m) }); n != 0 {
			t.Errorf("%+v: %v allocations", call, n)
		}
	}
}

func BenchmarkMatch(b *testing.B) {
	for _, size := range []int{10, 1000, 100_000} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			w := &writtenRules{}
			for i := range size {
				w.rules = append(w.rules, writtenRule{match: written{domain: "default", path: fmt.Sprintf("/v1/p%d/{rest...}", i%100), attributes: attrs("user", fmt.Sprint("u", i/100))}, key: []KeyPart{{Name: "user"}}})
			}
			x := compileWritten(b, w)
			call := callOf("", "method", "GET", "path", "/v1/p7/items/8", "host", "api.example.com", "ip", "10.1.2.3", "user", "u0", "plan", "plan3")
			var m Match
			for b.Loop() {
				x.match(call, 1, &m)
			}
			if len(m.Rules) != 1 {
				b.Errorf("%d rules match, want 1", len(m.Rules))
			}
		})
	}
}

// Of networks, each length that rules use is a look of its own.
func BenchmarkNetworkLengths(b *testing.B) {
	for _, lengths := range []int{1, 8, 31} {
		b.Run(fmt.Sprint(lengths), func(b *testing.B) {
			w := &writtenRules{}
			for i := range 3000 {
				network := netip.PrefixFrom(netip.AddrFrom4([4]byte{128 | byte(i>>8), byte(i), byte(i * 7), byte(i * 13)}), 32-i%lengths).Masked()
				w.rules = append(w.rules, writtenRule{match: written{domain: "default", attributes: attrs("ip", network.String())}})
			}
			x := compileWritten(b, w)
			call := callOf("", "method", "GET", "ip", "10.1.2.3")
			var m Match
			for b.Loop() {
				x.match(call, 1, &m)
			}
		})
	}
}
