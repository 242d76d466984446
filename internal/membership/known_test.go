package membership_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/membership"
)

// A place is where nodes send heartbeats; it can be made unavailable.
type place struct {
	mu   sync.Mutex
	gone bool
	said map[string]membership.Peer
}

func (p *place) setGone(gone bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gone = gone
}

func (p *place) join(t *testing.T, id, name string) *membership.Members {
	t.Helper()
	m, err := membership.Join(membership.Options{
		ID:   id,
		Self: func() membership.Node { n := someNode; n.Name = name; return n },
		Beat: func(_ context.Context, about string) (int, []membership.Peer, error) {
			p.mu.Lock()
			defer p.mu.Unlock()
			if p.gone {
				return 0, nil, errGone
			}
			p.said[id] = membership.Peer{ID: id, About: about}
			var all []membership.Peer
			for _, one := range p.said {
				all = append(all, one)
			}
			return len(all), all, nil
		},
		Leave: func(context.Context) error {
			p.mu.Lock()
			defer p.mu.Unlock()
			delete(p.said, id)
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return m
}

// names returns the nodes that a node knows, this one first, with silent ones in brackets.
func names(m *membership.Members) string {
	var all []string
	for i, k := range m.All() {
		name := "?" + k.ID
		if k.Node != nil {
			name = k.Node.Name
		}
		if k.Silent(time.Now()) {
			name = "(" + name + ")"
		}
		if k.Self != (i == 0) {
			name += " is not itself"
		}
		all = append(all, name)
	}
	return strings.Join(all, " ")
}

// Nodes know each other by name; one that leaves is gone at once, and one without heartbeats is marked.
func TestNodesKnowEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := place{said: map[string]membership.Peer{}}
		c, a := p.join(t, "1", "c"), p.join(t, "2", "a")
		b := p.join(t, "3", "b")
		knows := func(m *membership.Members, n int, want string) {
			t.Helper()
			synctest.Wait()
			if got := names(m); got != want || m.Nodes() != n {
				t.Errorf("it knows %q, %d nodes, want %q, %d", got, m.Nodes(), want, n)
			}
		}
		time.Sleep(3 * time.Second)
		knows(c, 3, "c a b")
		knows(a, 3, "a b c")
		if got := c.All()[1].Node; *got != (membership.Node{
			Name: "a", Version: someNode.Version, Started: someNode.Started, Rules: 7, Checksum: someNode.Checksum, Quality: "exact", Calls: 12.5, Denied: 0.25,
		}) {
			t.Errorf("it says %+v", got)
		}

		b.Close()
		time.Sleep(3 * time.Second)
		knows(c, 2, "c a")

		// The place is unavailable: the last facts stay, and age.
		p.setGone(true)
		time.Sleep(9 * time.Second)
		knows(c, 2, "c a")
		time.Sleep(2 * time.Second)
		knows(c, 2, "c (a)")
		if ago := time.Since(c.All()[1].Heard); ago < 11*time.Second || ago > 14*time.Second {
			t.Errorf("heard %v ago", ago)
		}
		if q := c.All()[0].Node.Quality; q != membership.Degraded {
			t.Errorf("a node that is cut off says that it is %s", q)
		}
		p.setGone(false)
		time.Sleep(3 * time.Second)
		knows(c, 2, "c a")
		if q := c.All()[0].Node.Quality; q != membership.Exact {
			t.Errorf("a node that is well again says that it is %s", q)
		}
	})
}

// A node without a shared place knows itself, with its current facts.
func TestAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		m := join(t, membership.Options{Self: func() membership.Node { return membership.Node{Name: fmt.Sprint("n", asked.Add(1))} }})
		synctest.Wait()
		if names(m) != "n1" {
			t.Error(names(m))
		}
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if names(m) != "n2" || m.Nodes() != 1 {
			t.Error(names(m), m.Nodes())
		}
	})
}

// Text that others wrote decodes to a node, or is ignored.
func TestSaid(t *testing.T) {
	good := `{"v":1,"name":"a","version":"1.0","started":1000000,"rules":7,"checksum":"ab","quality":"exact","calls":1,"denied":0.5}`
	with := func(old, new string) string { return strings.Replace(good, old, new, 1) }
	for text, want := range map[string]bool{
		good:                                   true,
		with(`"a"`, `"a","later":[1]`):         true, // a field that was added
		with(`"exact"`, `"splendid"`):          true, // a word that was added
		"":                                     false,
		"null":                                 false,
		"{}":                                   false,
		"[" + good + "]":                       false,
		good + good:                            false,
		good[:50]:                              false,
		with(`"v":1`, `"v":2`):                 false,
		with(`"a"`, `""`):                      false,
		with(`"a"`, `"<b>a</b>"`):              false,
		with(`"a"`, `"a\u001b[31m"`):           false,
		with(`"a"`, `"a\u202eb"`):              false,
		with(`"a"`, "\"a\xffb\""):              false,
		with(`"a"`, `"a b"`):                   false,
		with(`"a"`, `["a"]`):                   false,
		with(`"1.0"`, `"1.0\n2.0"`):            false,
		with(`"ab"`, `"'onload='x"`):           false,
		with(`"exact"`, `""`):                  false,
		with(`"rules":7`, `"rules":-1`):        false,
		with(`"rules":7`, `"rules":7.5`):       false,
		with(`"calls":1`, `"calls":-1`):        false,
		with(`"calls":1`, `"calls":1e13`):      false,
		with(`"calls":1`, `"calls":1e999`):     false,
		with(`1000000`, `-1`):                  false,
		with(`1000000`, `300000000000`):        false,
		with(`"a"`, `"`+long(64)+`"`):          true,
		with(`"a"`, `"`+long(65)+`"`):          false,
		with(`"a"`, `"a","x":"`+long(512)+`"`): false,
	} {
		n, err := membership.ReadNode(text)
		if (err == nil) != want || want != (n != nil) || err != nil && !errors.Is(err, penstock.ErrInvalid) {
			t.Errorf("%s: %+v, %v", text, n, err)
		}
	}
}

func long(n int) string { return strings.Repeat("x", n) }

// Whatever a node is called or counts, its facts fit and can be read.
func TestEverythingCanBeSaid(t *testing.T) {
	zero := 0.0
	for _, n := range []membership.Node{
		someNode, {}, {Name: long(1000), Version: long(1000), Checksum: long(1000), Quality: long(1000), Rules: 1<<63 - 1, Started: time.Unix(253402300799, 0), Calls: 1e300, Denied: -1},
		{Name: "Ünïcödé <b>\x00\xff", Version: "(devel)", Calls: zero / zero, Denied: 1 / zero},
	} {
		if n.Started.IsZero() {
			n.Started = someNode.Started
		}
		text := membership.WriteNode(n)
		if got, err := membership.ReadNode(text); err != nil || len(text) > 512 {
			t.Errorf("%+v is said in %d bytes as %s: %+v, %v", n, len(text), text, got, err)
		}
	}
	if got, err := membership.ReadNode(membership.WriteNode(someNode)); err != nil || *got != someNode {
		t.Errorf("%+v, %v", got, err)
	}
}

// Peers that are not Penstock nodes are left out, and nodes without facts are included.
func TestStrangers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := join(t, membership.Options{Beat: func(context.Context, string) (int, []membership.Peer, error) {
			return 6, []membership.Peer{
				{ID: "<script>", About: membership.WriteNode(someNode)}, {ID: "\x00"}, {ID: ""}, {ID: "OLD"}, {ID: "ME", About: "forged"},
				{ID: "B", About: membership.WriteNode(someNode), Ago: 1 << 62},
			}, nil
		}})
		synctest.Wait()
		if got := names(m); got != "web-1 web-1 ?OLD" || m.Nodes() != 6 {
			t.Errorf("%q, %d nodes", got, m.Nodes())
		}
	})
}

func FuzzSaid(f *testing.F) {
	f.Add(membership.WriteNode(someNode))
	f.Add(`{"v":1,"name":"\u202e"}`)
	f.Fuzz(func(t *testing.T, text string) {
		n, err := membership.ReadNode(text)
		if err != nil {
			return
		}
		if again, err := membership.ReadNode(membership.WriteNode(*n)); err != nil || again.Name != n.Name || again.Rules != n.Rules {
			t.Errorf("%q: %+v becomes %+v, %v", text, n, again, err)
		}
	})
}
