package lease

import (
	"context"
	"testing"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/storage"
	"github.com/penstock-io/penstock/storetest"
)

// Without the mark the inner store decides everything.
func TestContractWithoutTheMark(t *testing.T) {
	t.Parallel()
	var all []*Store
	storetest.Run(t, func(t testing.TB, n int) []penstock.Store {
		nodes := make([]penstock.Store, n)
		inner := memory(t, 0)
		for i := range nodes {
			s := around(t, inner)
			nodes[i], all = s, append(all, s)
		}
		return nodes
	})
	for _, s := range all {
		if s.Stats() != (Stats{}) {
			t.Fatalf("something was leased: %+v", s.Stats())
		}
	}
}

// With the mark the contract holds wherever it does not need the exactness that leases give up: the limits
// there are small, or the groups guarded, or time is given and hardly moves.
func TestContractWithTheMark(t *testing.T) {
	t.Parallel()
	suite := storetest.Suite{Open: func(t testing.TB, n int) []penstock.Store {
		nodes := make([]penstock.Store, n)
		inner := memory(t, 0)
		for i := range nodes {
			nodes[i] = markingStore{around(t, inner)}
		}
		return nodes
	}}
	t.Run("Scenarios", suite.Scenarios)
	t.Run("Edges", suite.Edges)
	t.Run("Guards", suite.Guards)
	t.Run("Exactly", suite.Exactly)
}

// markingStore marks every group.
type markingStore struct{ *Store }

func (m markingStore) Take(ctx context.Context, t *storage.Ticket, out *storage.Outcome) error {
	marked := *t
	marked.Groups = nil
	for _, g := range t.Groups {
		g.Leased = true
		marked.Groups = append(marked.Groups, g)
	}
	return m.Store.Take(ctx, &marked, out)
}
