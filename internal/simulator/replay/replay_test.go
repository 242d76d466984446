package replay

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/memstore"
	"github.com/penstock-io/penstock/rules"
)

func compile(t testing.TB, document string) *rules.Snapshot {
	t.Helper()
	s, _, err := rules.CompileFiles([]rules.File{{Name: "rules.yaml", Data: []byte(document)}}, rules.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// countingStore is a store that records the most keys it held at once.
type countingStore struct {
	Store
	most int64
}

func (c *countingStore) Size(ctx context.Context) (int64, error) {
	n, err := c.Store.Size(ctx)
	c.most = max(c.most, n)
	return n, err
}

// A replay of very many keys holds only the live ones.
func TestMemoryIsOfLiveKeys(t *testing.T) {
	inner, err := memstore.New(memstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	store := &countingStore{Store: inner}
	r, err := New(Options{Rules: compile(t, `rules: [{name: a, key: [ip], limits: [3/1s]}]`), Store: store})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range 400_000 { // 1,000 a second, each of another key
		q := Request{At: start.Add(time.Duration(i) * time.Millisecond), Attributes: []penstock.Attribute{{Name: "ip", Value: fmt.Sprint(i)}}}
		if _, err := r.Decide(t.Context(), &q); err != nil {
			t.Fatal(err)
		}
	}
	if store.most == 0 || store.most > 4*expireEvery {
		t.Errorf("%d keys at once of 400,000, of which about 2,000 live", store.most)
	}
}

// Requests hold their permits for as long as they took, also if they arrive while others end.
func TestPermitsEndWithTheirRequests(t *testing.T) {
	snapshot := compile(t, `rules: [{name: a, key: [], limits: [{concurrent: 2, ttl: 10m}]}]`)
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, test := range []struct {
		took    time.Duration
		atOnce  bool
		allowed int
		err     error
	}{
		{took: 500 * time.Millisecond, allowed: 40},
		{took: 4 * time.Second, allowed: 20}, // two run at a time, for four seconds each
		{took: -1, err: ErrNoDuration},
		{took: -1, atOnce: true, allowed: 40},
	} {
		store, err := memstore.New(memstore.Options{})
		if err != nil {
			t.Fatal(err)
		}
		r, err := New(Options{Rules: snapshot, Store: store, EndsAtOnce: test.atOnce})
		if err != nil {
			t.Fatal(err)
		}
		allowed := 0
		for i := range 40 {
			v, err := r.Decide(t.Context(), &Request{At: start.Add(time.Duration(i) * time.Second), Took: test.took})
			if !errors.Is(err, test.err) {
				t.Fatal(err)
			}
			if err != nil {
				break
			}
			if v.Allowed {
				allowed++
			}
		}
		if allowed != test.allowed {
			t.Errorf("%+v: %d allowed", test, allowed)
		}
		r.Close()
	}
}
