package faults

import (
	"fmt"

	"github.com/penstock-io/penstock"
)

// The callers of a load. Their windows are so long that a whole run is within one, so that what may
// pass does not depend on when it was sent.
//
// A tame one calls exactly as often as its limit allows, and then another takes its place: each of
// its calls must pass, and would not if any were charged twice. A greedy one calls many times as
// often as it may. Both live for a few seconds at the usual rate, so that a fault meets some at the
// beginning, some in the middle and some at the end of their budget.
const (
	tameLimit   = 30
	greedyLimit = 10
	leasedLimit = 200

	dividedLimit = 12 // of which two nodes and three can have equal parts
)

// A kind of callers. Each has a rule of its own: limit calls pass.
type kind struct {
	rule      string
	tame      bool
	leased    bool
	divided   bool // among the nodes, while Redis does not answer
	algorithm string
	limit     int
	share     int // of calls, in twentieths
	atATime   int // callers that take turns
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

// rulesText is the rules of all kinds. With slack, tame callers may call several times as often.
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

// A bound says how much more than its limit a greedy caller may get.
type bound struct {
	nodes int // that decide by themselves while Redis does not
	lives int // how many times the limit can be spent in Redis: once, and once more if it forgets
}

// of is how many calls of a kind's caller may pass at most.
func (b bound) of(k *kind) int {
	each := k.limit
	if k.divided && b.nodes > 0 {
		each = (k.limit + b.nodes - 1) / b.nodes
	}
	return b.lives*k.limit + b.nodes*each
}

// exactly is where Redis decides all the time.
var exactly = bound{nodes: 0, lives: 1}

// A caller is one who is limited.
type caller struct {
	kind       *kind
	place, era int // who came after how many others in one of the places of the kind
}

func (c caller) String() string { return fmt.Sprintf("%s %d.%d", c.kind.rule, c.place, c.era) }

// call is what it asks.
func (c caller) call() *penstock.Call {
	return &penstock.Call{
		Cost:       1,
		Attributes: []penstock.Attribute{{Name: c.kind.rule, Value: fmt.Sprintf("%d.%d", c.place, c.era)}},
	}
}

// callerOf says who makes the nth call of a load.
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
