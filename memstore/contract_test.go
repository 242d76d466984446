package memstore

import (
	"os"
	"testing"

	"github.com/penstock-io/penstock/storage"
	"github.com/penstock-io/penstock/storetest"
)

func TestContract(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t testing.TB, nodes int) []storage.Store {
		stores := make([]storage.Store, nodes)
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
	if os.Getenv("PENSTOCK_TEST_LONG") == "" {
		s.seed = 0x9e3779b97f4a7c15 // the same keys share a shard in every run, except in the long suite
	}
	return s
}
