package breaker_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/engine/breaker"
	"github.com/penstock-io/penstock/storage"
)

// zonedStore is a store with some zones down. The zone of a subject is its first byte.
type zonedStore struct {
	*faulty
	down [3]atomic.Bool
}

// zoneError is an error that names the zone that has failed.
type zoneError struct {
	error
	who storage.Subject
}

func (e zoneError) Subject() storage.Subject { return e.who }
func (e zoneError) Unwrap() error            { return e.error }

func zoneOf(who storage.Subject) int { return int(who[0]) }

func (p *zonedStore) Take(_ context.Context, t *storage.Ticket, _ *storage.Outcome) error {
	p.asked.Add(1)
	for i := range t.Groups {
		if who := t.Groups[i].Subject; p.down[zoneOf(who)].Load() {
			return zoneError{errTimeout, who}
		}
	}
	return nil
}

// askZones asks for subjects in zones.
func askZones(b *breaker.Breaker, zones ...byte) error {
	t := &storage.Ticket{}
	for _, z := range zones {
		t.Groups = append(t.Groups, storage.Group{Subject: storage.Subject{z}})
	}
	var out storage.Outcome
	return b.Take(context.Background(), t, &out)
}

// A zone that fails is not asked, alone or together with others, while the other zones are; each zone is
// probed by itself.
func TestZonesFailByThemselves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n news
		store := &zonedStore{faulty: newFaulty(t)}
		store.down[1].Store(true)
		b, err := breaker.New(breaker.Options{
			Store: store, Zones: 3, ZoneOf: zoneOf, OnChange: n.told,
			Probe: func(_ context.Context, zone int) error {
				if store.down[zone].Load() {
					return errTimeout
				}
				return nil
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		for range 20 { // requests that also need 0 and 2, for which that is not a failure
			if err := askZones(b, 0, 1, 2); !errors.Is(err, errTimeout) {
				t.Fatalf("the calls that find out got %v", err)
			}
		}
		asked := store.asked.Load()
		for _, zones := range [][]byte{{1}, {0, 1}, {1, 2}} {
			if err := askZones(b, zones...); !errors.Is(err, penstock.ErrUnavailable) {
				t.Errorf("zones %v: got %v", zones, err)
			}
		}
		var s storage.SettleOutcome
		if err := b.Settle(t.Context(), &storage.Settlement{Subject: storage.Subject{1}}, &s); !errors.Is(err, penstock.ErrUnavailable) {
			t.Errorf("a settlement there: got %v", err)
		}
		if store.asked.Load() != asked {
			t.Error("a zone that is open was asked")
		}
		for range 200 {
			if err := askZones(b, 0, 2); err != nil {
				t.Fatalf("the other zones: got %v", err)
			}
		}
		if got := b.Stats(); got.State != breaker.Open || got.Zones != 1 || got.Opened != 1 || !errors.Is(got.Cause, errTimeout) {
			t.Errorf("stats %+v", got)
		}

		store.down[2].Store(true)
		for range 20 {
			_ = askZones(b, 2)
		}
		store.down[1].Store(false)
		time.Sleep(300 * time.Millisecond)
		synctest.Wait()
		if got := b.Stats(); got.Zones != 1 || askZones(b, 0, 1) != nil || askZones(b, 2) == nil {
			t.Errorf("when one of two was back: stats %+v", got)
		}
		store.down[2].Store(false)
		time.Sleep(300 * time.Millisecond)
		synctest.Wait()
		if got := b.Stats(); got.State != breaker.Closed || got.Zones != 0 || got.Opened != 2 || askZones(b, 0, 1, 2) != nil {
			t.Errorf("when all were back: stats %+v", got)
		}
		want := []string{fmt.Sprint("open: ", errTimeout), "closed: <nil>"} // the first and the last
		if diff := cmp.Diff(want, n.so()); diff != "" {
			t.Error("told (-want +got):\n" + diff)
		}
	})
}

// An error of a ticket that needs several zones counts for none of them if it does not name one.
func TestUnnamedZones(t *testing.T) {
	f := newFaulty(t)
	b := newBreaker(t, f, breaker.Options{Zones: 2, ZoneOf: zoneOf})
	f.failWith(errTimeout)
	for range 200 {
		_ = askZones(b, 0, 1)
	}
	if got := b.Stats(); got.Opened != 0 {
		t.Errorf("stats %+v", got)
	}
	for range 20 {
		_ = askZones(b, 1)
	}
	if got := b.Stats(); got.Opened != 1 || got.Zones != 1 {
		t.Errorf("stats %+v", got)
	}
}

func TestZoneOptions(t *testing.T) {
	for _, o := range []breaker.Options{{Zones: -1}, {Zones: 2}, {Zones: breaker.MaxZones + 1, ZoneOf: zoneOf}} {
		f := newFaulty(t)
		o.Store, o.Probe = f, f.Probe
		if _, err := breaker.New(o); !errors.Is(err, penstock.ErrInvalid) {
			t.Errorf("%d zones: got %v", o.Zones, err)
		}
	}
}
