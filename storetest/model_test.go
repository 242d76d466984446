package storetest_test

import (
	"testing"

	"github.com/penstock-io/penstock/storage"
	"github.com/penstock-io/penstock/storetest"
)

func TestModel(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(_ testing.TB, nodes int) []storage.Store {
		model := storetest.NewModel()
		fleet := make([]storage.Store, nodes)
		for i := range fleet {
			fleet[i] = model
		}
		return fleet
	})
}
