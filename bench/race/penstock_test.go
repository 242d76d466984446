package race

import (
	"testing"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/redisstore"
)

func TestPenstockAdmitsExactlyTheLimit(t *testing.T) {
	way := Store(func(addr string) (penstock.Store, func(), error) {
		store, err := redisstore.Open(redisstore.Options{Addresses: []string{addr}, Timeout: 30 * time.Second})
		if err != nil {
			return nil, nil, err
		}
		return store, func() { store.Close() }, nil
	})
	for _, callers := range []int{50, 100} {
		if cell := raceOf(t, way, callers, 5); cell.Admitted != (Spread{testLimit, testLimit, testLimit}) {
			t.Errorf("%d callers: admitted %+v, want exactly %d every time", callers, cell.Admitted, testLimit)
		}
	}
}
