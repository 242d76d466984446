package memstore

import (
	"testing"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/storetest"
)

func TestContract(t *testing.T) {
	storetest.Run(t, func(t testing.TB, nodes int) []penstock.Store {
		stores := make([]penstock.Store, nodes)
		one := open(t, Options{})
		for i := range stores {
			stores[i] = one
		}
		return stores
	})
}

// open returns a store that is closed when the test ends.
func open(t testing.TB, o Options) *Store {
	t.Helper()
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}
