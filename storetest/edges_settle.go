package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
)

// reserved returns a new subject with a reservation of 3 out of 100 a day, nonce 7, for an hour.
func reserved(nodes []storage.Store) (who []storage.Subject, m *algorithm.Meter, err error) {
	m = algorithm.Limit{Algorithm: algorithm.FixedWindow, Count: 100, Window: 24 * time.Hour}.MustCompile()
	g := group(m, 3)
	g.Reserve = time.Hour
	s := singleGroup(scenarioStart, 7, g)
	who = newSubjects(2)
	_, err = take(nodes, who, &s)
	return who, m, err
}

// stillReserved checks that the reservation is unchanged: 3 are used, and can be released once.
func stillReserved(nodes []storage.Store, who []storage.Subject, m *algorithm.Meter) error {
	peek := singleCharge(scenarioStart, m, 0, 0, 0)
	out, err := take(nodes, who, &peek)
	if err != nil {
		return err
	}
	if used := out.Decisions[0].Used; used != 3 {
		return fmt.Errorf("afterwards %d are used, want 3", used)
	}
	release := settlementOf(storage.Settlement{Now: scenarioStart, Nonce: 7, Verb: storage.Release, Charges: group(m, 0).Charges})
	a, err := play(nodes, who, &release)
	if err != nil || a.refusal != nil || a.settled.Again || a.settled.Decisions[0].Used != 0 {
		return fmt.Errorf("afterwards a release is answered %+v, %w, %w", a.settled, a.refusal, err)
	}
	return nil
}

// checkInvalidSettlements sends settlements that are invalid for every store: an error says what is wrong,
// and the reservation is unchanged.
func checkInvalidSettlements(nodes []storage.Store) error {
	leaky := algorithm.Limit{Algorithm: algorithm.LeakyBucket, Count: 5, Window: time.Hour}.MustCompile()
	long := algorithm.Limit{Algorithm: algorithm.SlidingWindowLog, Count: algorithm.MaxReservedLog + 1, Window: time.Hour}.MustCompile()
	short := algorithm.Limit{Algorithm: algorithm.SlidingWindowLog, Count: 5, Window: time.Hour}.MustCompile()
	permits := algorithm.Limit{Algorithm: algorithm.Concurrency, Count: 5, Window: time.Hour}.MustCompile()
	penalty := must(algorithm.PenaltyTerms{After: 1, Within: time.Minute, Bans: []time.Duration{time.Minute}, ForgiveAfter: time.Hour}.Compile())
	var errs []error
	for _, v := range []struct {
		name, want string
		spoil      func(s *storage.Settlement)
	}{
		{"no nonce", "no nonce", func(s *storage.Settlement) { s.Nonce = 0 }},
		{"no charges", "0 charges", func(s *storage.Settlement) { s.Charges = nil }},
		{"17 charges", "17 charges", func(s *storage.Settlement) { s.Charges = slices.Repeat(s.Charges, 17) }},
		{"no meter", "no meter", func(s *storage.Settlement) { s.Charges[0].Meter = nil }},
		{"cost -1", "cost -1", func(s *storage.Settlement) { s.Charges[0].Cost = -1 }},
		{"the most negative cost", "cost -9223372036854775808", func(s *storage.Settlement) { s.Charges[0].Cost = -1 << 63 }},
		{"cost above the most", "cost 1000000000001", func(s *storage.Settlement) { s.Charges[0].Cost = algorithm.MaxCount + 1 }},
		{"the same twice", "twice", func(s *storage.Settlement) { s.Charges = slices.Repeat(s.Charges, 2) }},
		{"a leaky bucket", "leaky_bucket", func(s *storage.Settlement) { s.Charges[0].Meter = leaky }},
		{"a long log", "10000", func(s *storage.Settlement) { s.Charges[0].Meter = long }},
		{"another verb", "settle", func(s *storage.Settlement) { s.Verb = 4 }},
		{"the refund of a log", "sliding_window_log", func(s *storage.Settlement) { s.Verb, s.Charges[0].Meter = storage.Refund, short }},
		{"the refund of permits", "concurrency", func(s *storage.Settlement) { s.Verb, s.Charges[0].Meter = storage.Refund, permits }},
		{"a release that strikes", "strike", func(s *storage.Settlement) { s.Verb, s.Strike = storage.Release, penalty }},
		{"another overage", "overage", func(s *storage.Settlement) { s.Overage = 3 }},
		{"renewed for no time", "ttl 0s", func(s *storage.Settlement) { s.Verb = storage.Renew }},
		{"renewed for too long", "ttl 24h0m0.000000001s", func(s *storage.Settlement) { s.Verb, s.TTL = storage.Renew, storage.MaxReserve+1 }},
		{"before the epoch", "now -1", func(s *storage.Settlement) { s.Now = -1 }},
		{"after the last instant", "now 4503599627370496", func(s *storage.Settlement) { s.Now = algorithm.MaxInstant + 1 }},
	} {
		who, m, err := reserved(nodes)
		if err != nil {
			return err
		}
		s := storage.Settlement{Now: scenarioStart, Subject: who[0], Nonce: 7, Charges: group(m, 1).Charges}
		v.spoil(&s)
		err = safely(func() error {
			return nodes[0].(storage.Settler).Settle(context.Background(), &s, new(storage.SettleOutcome))
		})
		if refusalOf(err) != algorithm.ErrInvalid || !strings.Contains(err.Error(), v.want) {
			errs = append(errs, fmt.Errorf("%s: error is %v, want one that wraps %q and says %q", v.name, err, algorithm.ErrInvalid, v.want))
		} else if err := stillReserved(nodes, who, m); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", v.name, err))
		}
	}
	return errors.Join(errs...)
}

// safely turns a panic into an error.
func safely(do func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return do()
}

// checkRefusedSettlements settles what does not exist: each is refused with its own error, and the
// reservation is unchanged.
func checkRefusedSettlements(nodes []storage.Store) error {
	other := algorithm.Limit{Algorithm: algorithm.Concurrency, Count: 5, Window: time.Hour}.MustCompile()
	end := scenarioStart.Add(time.Hour)
	var errs []error
	for _, v := range []struct {
		name  string
		spoil func(s *step)
		want  error
	}{
		{"another subject's", func(s *step) { s.who = []int{1} }, storage.ErrNoReservation},
		{"another nonce", func(s *step) { s.settle.Nonce = 8 }, storage.ErrNoReservation},
		{"the largest nonce", func(s *step) { s.settle.Nonce = 1<<64 - 1 }, storage.ErrNoReservation},
		{"when it is over", func(s *step) { s.settle.Now = end }, storage.ErrNoReservation},
		{"a renewal when it is over", func(s *step) { s.settle.Now, s.settle.Verb = end, storage.Renew }, storage.ErrNoReservation},
		{"from a wrong clock", func(s *step) { s.settle.Now = scenarioStart - 2*day }, storage.ErrNoReservation},
		{"the renewal of a lease that was never taken", func(s *step) {
			s.settle.Nonce, s.settle.Verb, s.settle.Charges = 8, storage.Renew, group(other, 1).Charges
		}, storage.ErrNoReservation},
	} {
		who, m, err := reserved(nodes)
		if err != nil {
			return err
		}
		s := settlementOf(storage.Settlement{Now: scenarioStart, Nonce: 7, TTL: time.Hour, Charges: group(m, 1).Charges})
		v.spoil(&s)
		if a, err := play(nodes, who, &s); err != nil || a.refusal != v.want {
			errs = append(errs, fmt.Errorf("%s: answered %+v, %v, %w; want %v", v.name, a.settled, a.refusal, err, v.want))
		} else if err := stillReserved(nodes, who, m); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", v.name, err))
		}
	}
	return errors.Join(append(errs, checkLastMoment(nodes))...)
}

// checkLastMoment settles a microsecond before the end, and twice with different costs.
func checkLastMoment(nodes []storage.Store) error {
	who, m, err := reserved(nodes)
	if err != nil {
		return err
	}
	last := scenarioStart.Add(time.Hour) - 1
	for _, v := range []struct {
		cost int64
		want error
	}{{1, nil}, {2, storage.ErrClosed}, {0, storage.ErrClosed}, {1, nil}} {
		s := settlementOf(storage.Settlement{Now: last, Nonce: 7, Charges: group(m, v.cost).Charges})
		a, err := play(nodes, who, &s)
		if err != nil || a.refusal != v.want {
			return fmt.Errorf("settled with %d in the last moment: %v, %w; want %v", v.cost, a.refusal, err, v.want)
		}
		peek := singleCharge(last, m, 0, 0, 0)
		out, err := take(nodes, who, &peek)
		if err != nil {
			return err
		}
		if used := out.Decisions[0].Used; used != 1 {
			return fmt.Errorf("settled with 1, then with %d: %d are used", v.cost, used)
		}
	}
	return nil
}
