package storetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/anishathalye/porcupine"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
)

// Linearizable records the requests of concurrent clients on several nodes and their answers, on the real
// clock. It looks for an order of the requests, respecting real time, in which a sequential store would
// have given the same answers in every field. If there is none, two requests interfered with each other.
// Every other history has guards, and settlements and bans among its requests.
func (s Suite) Linearizable(t *testing.T) {
	nodes := s.open(t, fleet)
	s.seeded(t, func(seed uint64) error {
		return trials(size(10, 100, 10_000), 2, func(i int) error {
			if err := s.linearizable(nodes, seed, i); err != nil {
				return fmt.Errorf("history %d: %w", i, err)
			}
			return nil
		})
	})
}

func (s Suite) linearizable(nodes []storage.Store, seed uint64, i int) error {
	several := i%4 > 1 && !s.OneSubject
	return linearizable(nodes, random(seed, i), plot{guarded: i%2 == 1, several: several, plain: s.Plain})
}

// linearizable makes one history and checks it, for each subject by itself, or as a whole with tickets of
// several subjects. It does not use the order of instants, because a store may answer from a clock that is
// slightly behind. It applies each step at the instant that its answer names.
func linearizable(nodes []storage.Store, r *rand.Rand, p plot) error {
	h, err := recordHistory(nodes, r, p)
	if err != nil {
		return err
	}
	parts := [][]porcupine.Operation{h.operations}
	if !p.several {
		parts = bySubject(h.operations)
	}
	model := porcupine.Model{
		Init: func() any { return newLedger() },
		Step: func(state, input, output any) (bool, any) {
			return h.step(state.(ledger), input.(*timedStep), output.(*answer))
		},
		Equal: func(a, b any) bool { return a.(ledger).equal(b.(ledger)) },
	}
	for _, part := range parts {
		if !porcupine.CheckOperations(model, part) {
			return fmt.Errorf("%w: no order of these calls explains their answers:\n%s", errNotLinearizable, describeHistory(part))
		}
	}
	return nil
}

var errNotLinearizable = errors.New("not linearizable")

// step reports whether the ledger gives the same answer, and returns the ledger after the step.
func (h *history) step(before ledger, a *timedStep, got *answer) (bool, ledger) {
	after := before.clone()
	var want answer
	switch who := h.cast[a.who[0]]; {
	case got.refusal != nil: // names no instant: any instant during the request is valid
		settlement := *a.settle
		settlement.Subject = who
		refused := func(at algorithm.Instant) bool {
			return refusalOf(before.clone().settle(&settlement, at, &want.settled)) == got.refusal
		}
		return refused(a.called) || refused(a.returned), before
	case a.settle != nil:
		settlement := *a.settle
		settlement.Subject = who
		want.refusal = refusalOf(after.settle(&settlement, got.settled.Now, &want.settled))
	case a.ban != nil:
		ban := *a.ban
		ban.Subject = who
		want.until = after.ban(&ban, got.until.Add(-ban.Length))
	default:
		after.take(a.on(h.cast), got.outcome.Now, &want.outcome)
	}
	return want.same(got), after
}

func bySubject(operations []porcupine.Operation) [][]porcupine.Operation {
	parts := map[int][]porcupine.Operation{}
	for _, op := range operations {
		who := op.Input.(*timedStep).who[0]
		parts[who] = append(parts[who], op)
	}
	var all [][]porcupine.Operation
	for _, part := range parts {
		all = append(all, part)
	}
	return all
}

func describeHistory(operations []porcupine.Operation) string {
	var b strings.Builder
	for _, op := range operations {
		fmt.Fprintf(&b, "  client %d, %d..%d ns: %v\n      %s\n", op.ClientId, op.Call, op.Return, &op.Input.(*timedStep).step, describeAnswer(op.Output.(*answer)))
	}
	return b.String()
}

func describeAnswer(a *answer) string {
	switch {
	case a.refusal != nil:
		return a.refusal.Error()
	case a.settled.Now != 0:
		return fmt.Sprintf("%+v", a.settled)
	case a.until != 0:
		return fmt.Sprintf("until %d", a.until)
	}
	return fmt.Sprintf("%+v", a.outcome)
}
