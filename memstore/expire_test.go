package memstore

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
)

// A replay that expires state holds the keys of its last windows, however many there were before, and
// decides like one that forgets nothing.
func TestExpire(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("one goroutine plays many steps")
	}
	var stores [2]*Store
	for i := range stores {
		var err error
		if stores[i], err = New(Options{}); err != nil {
			t.Fatal(err)
		}
		defer stores[i].Close()
	}
	hasher := storage.NewHasher("secret")
	var charges []algorithm.Charge
	for _, a := range []algorithm.Algorithm{algorithm.SlidingWindowCounter, algorithm.SlidingWindowLog, algorithm.TokenBucket, algorithm.FixedWindow} {
		charges = append(charges, algorithm.Charge{Meter: algorithm.Limit{Algorithm: a, Count: 2, Window: time.Minute}.MustCompile(), Cost: 1})
	}
	now := algorithm.InstantOf(time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC))
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 60_000 { // 6,000 a minute, from keys that stay for three minutes
		now = now.Add(10 * time.Millisecond)
		subject := hasher.Subject("", "r", storage.Attribute{Name: "k", Value: strconv.Itoa(i/4 + random.IntN(4500))})
		var allowed [2]bool
		for j, s := range stores {
			var out storage.Outcome
			if err := s.Take(t.Context(), &storage.Ticket{Now: now, Groups: []storage.Group{{Subject: subject, Charges: charges}}}, &out); err != nil {
				t.Fatal(err)
			}
			allowed[j] = out.Allowed
		}
		if allowed[0] != allowed[1] {
			t.Fatalf("request %d: %v with Expire, %v without", i, allowed[0], allowed[1])
		}
		if i%500 == 0 {
			stores[0].Expire(now)
		}
	}
	stores[0].Expire(now)
	held, all := stores[0].Stats().Keys, stores[1].Stats().Keys
	if held > all*6/10 || held < all/10 {
		t.Errorf("%d of %d keys are held", held, all)
	}
	stores[0].Expire(now.Add(time.Hour))
	if s := stores[0].Stats(); s.Keys != 0 {
		t.Errorf("an hour later: %+v", s)
	}
}
