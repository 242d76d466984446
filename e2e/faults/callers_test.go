package faults

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/penstock-io/penstock"
)

// The clients of a load. Their windows are longer than a whole run, so that what may pass does not depend on when
// it was sent.
//
// A tame client sends exactly as many requests as its limit allows, and then another takes its place. Each of its
// requests must pass, and would not if any were charged twice. A greedy client sends many times its limit. Both
// live for a few seconds at the usual rate, so that a fault hits some at the beginning, some in the middle and
// some at the end of their budget.
const (
	tameLimit   = 30
	greedyLimit = 10
	leasedLimit = 200

	dividedLimit = 12 // of which two nodes and three can have equal parts
)

// A kind of clients. Each client has its own counter: limit requests pass.
type kind struct {
	rule      string
	tame      bool
	leased    bool
	divided   bool // among the nodes, while Redis does not answer
	algorithm string
	limit     int
	share     int // of requests, in twentieths
	atATime   int // clients that take turns
	calls     int // that one makes
}

var kinds = []kind{
	{rule: "tame-log", tame: true, algorithm: "sliding_window_log", limit: tameLimit, share: 4, atATime: 20, calls: tameLimit},
	{rule: "tame-bucket", tame: true, algorithm: "token_bucket", limit: tameLimit, share: 3, atATime: 15, calls: tameLimit},
	{rule: "tame-counter", tame: true, algorithm: "sliding_window_counter", limit: tameLimit, share: 3, atATime: 15, calls: tameLimit},
	{rule: "greedy-log", algorithm: "sliding_window_log", limit: greedyLimit, share: 4, atATime: 4, calls: 10 * greedyLimit},
	{rule: "greedy-bucket", algorithm: "token_bucket", limit: greedyLimit, share: 2, atATime: 2, calls: 10 * greedyLimit},
	{rule: "greedy-divided", divided: true, algorithm: "sliding_window_log", limit: dividedLimit, share: 2, atATime: 2, calls: 10 * dividedLimit},
	{rule: "greedy-leased", leased: true, algorithm: "token_bucket", limit: leasedLimit, share: 2, atATime: 1, calls: 4 * leasedLimit},
}

const shares = 20

// rulesText returns the rules of all kinds. With slack, tame clients may send several times as many requests.
func rulesText(slack int) string {
	text := "rules:\n"
	for _, k := range kinds {
		limit, more := k.limit, ""
		if k.tame {
			limit *= slack
		}
		if k.leased {
			more = ", consistency: leased"
		}
		if k.divided {
			more = ", on_store_error: {local: divided}"
		}
		text += fmt.Sprintf("  - {name: %s, key: [%s]%s, limits: [{rate: %d/30d, algorithm: %s}]}\n", k.rule, k.rule, more, limit, k.algorithm)
	}
	return text
}

// A bound says how much more than its limit a greedy client may get.
type bound struct {
	nodes int // that decide by themselves while Redis does not
	lives int // how many times the limit can be spent in Redis: once, and once more if it forgets

	// unheard is a link that loses replies: Redis may have charged a request that the node then denies, because
	// another request was denied in the meantime.
	unheard bool
}

// of returns how many requests of a kind's client may pass at most: what Redis allows, and what each node had
// left by its last exact answer before the fault.
func (b bound) of(k *kind, known *knowledge) int {
	most, passes := b.lives*k.limit, b.lives*k.limit
	for n := range b.nodes {
		most += b.share(k, exactReports{})
		passes += b.share(k, known.nodes[n])
	}
	return min(most, passes+known.spurious)
}

// share returns how many requests a node may allow alone, given what it has seen.
func (b bound) share(k *kind, s exactReports) int {
	used := s.used
	switch {
	case k.leased:
		used = 0 // what a lease says is not the shared state
	case k.algorithm == "sliding_window_log" && s.denied:
		used = k.limit // until the retry that was announced
	case k.algorithm == "sliding_window_log":
		used = s.admitted // when the others' requests leave the window is not known
	}
	if !k.divided {
		return k.limit - used
	}
	share := (k.limit + b.nodes - 1) / b.nodes
	if k.algorithm == "sliding_window_log" {
		if s.denied {
			return 0
		}
		return max(0, share-used)
	}
	return (k.limit - used + b.nodes - 1) / b.nodes
}

// A knowledge is what nodes know about a client when the fault begins.
type knowledge struct {
	nodes    map[int]exactReports
	spurious int // requests that were admitted without Redis before the fault, or again after an exact answer
}

// exactReports is what the exact answers of a node have reported about a client.
type exactReports struct {
	used, admitted int
	denied         bool
}

// learn reads the answers of each client, in the order in which they were given.
func learn(answers []*answer, fault span) map[caller]*knowledge {
	answers = slices.Clone(answers)
	slices.SortFunc(answers, func(a, b *answer) int { return cmp.Compare(a.due+a.took, b.due+b.took) })
	all := map[caller]*knowledge{}
	again := map[string]bool{} // nodes that have answered exactly since the fault began, by client
	for _, a := range answers {
		if a.err != nil {
			continue
		}
		k := all[a.caller]
		if k == nil {
			k = &knowledge{nodes: map[int]exactReports{}}
			all[a.caller] = k
		}
		here := fmt.Sprint(a.node, a.caller)
		before := a.due+a.took < fault.from
		switch {
		case !a.exact():
			if a.allowed && (before || again[here]) {
				k.spurious++
			}
		case before:
			s := k.nodes[a.node]
			s.used, s.denied = max(s.used, a.used), s.denied || !a.allowed
			if a.allowed {
				s.admitted++
			}
			k.nodes[a.node] = s
		default:
			again[here] = true
		}
	}
	return all
}

// exactly is where Redis decides all the time.
var exactly = bound{nodes: 0, lives: 1}

// A caller is a limited client.
type caller struct {
	kind       *kind
	place, era int // who came after how many others in one of the places of the kind
}

func (c caller) String() string { return fmt.Sprintf("%s %d.%d", c.kind.rule, c.place, c.era) }

// call returns the client's request.
func (c caller) call() *penstock.Call {
	return &penstock.Call{
		Cost:       1,
		Attributes: []penstock.Attribute{{Name: c.kind.rule, Value: fmt.Sprintf("%d.%d", c.place, c.era)}},
	}
}

// callerOf returns the client of the nth request of a load.
func callerOf(n int) caller {
	round, at := n/shares, n%shares*7%shares // 7: the kinds are mixed
	for i := range kinds {
		k := &kinds[i]
		if at >= k.share {
			at -= k.share
			continue
		}
		nth := round*k.share + at // of this kind
		place := nth % k.atATime
		before := place * k.calls / k.atATime // places begin at different points of a life
		return caller{k, place, (nth/k.atATime + before) / k.calls}
	}
	panic("the shares of the kinds do not add up")
}
