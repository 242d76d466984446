package penstock_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/memstore"
)

// ticketStore hides from a limiter that its store can decide without tickets.
type ticketStore struct{ penstock.Store }

func (ticketStore) InProcess() bool { return true }

// A limiter with a single limit answers the same whether the store decides with tickets or without.
func TestSingleLimitWithoutTickets(t *testing.T) {
	const window = 10 * time.Second
	for i, l := range []penstock.Limit{
		penstock.PerMinute(4).FixedWindow(),
		penstock.PerMinute(4).SlidingCounter(),
		penstock.PerMinute(4).SlidingLog(),
		{Algorithm: penstock.TokenBucket, Count: 4, Window: window, Burst: 6},
		{Algorithm: penstock.TokenBucket, Count: 2, Window: window, Refill: penstock.Interval},
		{Algorithm: penstock.LeakyBucket, Count: 3, Window: window, Queue: 2},
		{Algorithm: penstock.FixedWindow, Count: 4, Window: window, CountDenied: true},
		{Algorithm: penstock.FixedWindow, Count: 9, Period: penstock.Hour},
		{Algorithm: penstock.FixedWindow, Count: 9, Window: window, CountAll: true},
	} {
		t.Run(l.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { compareSingle(t, rand.New(rand.NewPCG(uint64(i), 7)), l) })
		})
	}
}

// The same with several limits, which are decided without a ticket if each has a slot.
func TestSeveralLimitsWithoutTickets(t *testing.T) {
	const window = 10 * time.Second
	bucket := penstock.Limit{Algorithm: penstock.TokenBucket, Count: 4, Window: window, Burst: 6}
	leaky := penstock.Limit{Algorithm: penstock.LeakyBucket, Count: 3, Window: window, Queue: 2}
	counted := penstock.Limit{Algorithm: penstock.FixedWindow, Count: 4, Window: window, CountDenied: true}
	for i, limits := range [][]penstock.Option{
		{bucket, penstock.PerMinute(9).FixedWindow()},
		{penstock.PerMinute(20).SlidingCounter(), bucket, penstock.PerHour(100).FixedWindow()},
		{leaky, penstock.PerMinute(12)},
		{counted, bucket},
		{penstock.PerMinute(9).SlidingLog(), bucket},
		{bucket, leaky, counted, penstock.PerMinute(9), penstock.PerHour(200)}, // too many
		{bucket, penstock.Limit{Algorithm: penstock.FixedWindow, Count: 9, Window: window, CountAll: true}},
	} {
		t.Run(fmt.Sprint(limits), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { compareSingle(t, rand.New(rand.NewPCG(uint64(i), 8)), limits...) })
		})
	}
}

func compareSingle(t *testing.T, random *rand.Rand, limits ...penstock.Option) {
	// Instants are the same for both: in the bubble of synctest, time passes only while everything sleeps.
	direct, err := memstore.New(memstore.Options{MaxBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer direct.Close()
	behind, err := memstore.New(memstore.Options{MaxBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer behind.Close()
	var options []penstock.Option
	if random.IntN(2) == 0 {
		options = append(options, penstock.FailOpen())
	}
	options = append(append(options, limits...), penstock.WithName("same"))
	without, with := newLimiter(t, direct, options...), newLimiter(t, ticketStore{behind}, options...)
	for range 500 {
		time.Sleep(time.Duration(random.Int64N(int64(4 * time.Second))))
		ctx, cancel := context.WithCancel(t.Context())
		if random.IntN(20) == 0 {
			cancel()
		}
		key := fmt.Sprint("key", random.IntN(3))
		cost := [...]int64{0, 1, 1, 2, 5, 50, -1, 1 << 60}[random.IntN(8)]
		delay := [...]time.Duration{0, time.Second, penstock.AnyDelay, -1}[random.IntN(4)]
		reserve := random.IntN(4) == 0
		ask := func(l *penstock.Limiter) (d penstock.Decision, v penstock.Verdict, err error) {
			switch {
			case cost == 2:
				d, err = l.Peek(ctx, key)
			case cost == 1 && !reserve:
				d, err = l.Allow(ctx, key)
			case cost == 5:
				d, err = l.Take(ctx, key, cost)
			default:
				err = l.Decide(ctx, &penstock.Call{
					Cost: cost, MaxDelay: delay, Reserve: reserve,
					Attributes: []penstock.Attribute{{Name: penstock.KeyAttribute, Value: key}},
				}, &v)
				v.Reservation = fmt.Sprint(v.Reservation != "") // it has a random name
			}
			return d, v, err
		}
		d1, v1, err1 := ask(without)
		d2, v2, err2 := ask(with)
		if d1 != d2 || !reflect.DeepEqual(v1, v2) || fmt.Sprint(err1) != fmt.Sprint(err2) {
			t.Fatalf("%s, cost %d, max delay %v, reserve %t:\nwithout tickets %+v %+v %v\nwith tickets    %+v %+v %v", key, cost, delay, reserve, d1, v1, err1, d2, v2, err2)
		}
		cancel()
	}
}

// Take of several limits returns the decision that Decide returns with its list of limits.
func TestTakeDecidesAsDecide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const window = 10 * time.Second
		limiter := func() *penstock.Limiter {
			store, err := memstore.New(memstore.Options{MaxBytes: 1 << 20})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { store.Close() })
			return newLimiter(t, store, penstock.WithName("same"),
				penstock.Limit{Algorithm: penstock.TokenBucket, Count: 4, Window: window},
				penstock.Limit{Algorithm: penstock.LeakyBucket, Count: 30, Window: window, Queue: 9},
				penstock.PerMinute(9).SlidingLog())
		}
		taking, deciding := limiter(), limiter()
		random := rand.New(rand.NewPCG(3, 7))
		seen := map[penstock.Decision]bool{}
		for range 300 {
			time.Sleep(time.Duration(random.Int64N(int64(2 * time.Second))))
			cost := [...]int64{0, 1, 1, 2, 5, -1}[random.IntN(6)]
			taken, err := taking.Take(t.Context(), "key", cost)
			var v penstock.Verdict
			decideErr := deciding.Decide(t.Context(), &penstock.Call{
				Cost: cost, Attributes: []penstock.Attribute{{Name: penstock.KeyAttribute, Value: "key"}},
			}, &v)
			want := v.Decision
			want.Allowed, want.Delay = v.Allowed, v.Delay
			if taken != want || fmt.Sprint(err) != fmt.Sprint(decideErr) {
				t.Fatalf("cost %d: took %+v, %v; decided %+v, %v", cost, taken, err, want, decideErr)
			}
			seen[penstock.Decision{Allowed: taken.Allowed, Limit: taken.Limit}] = true
		}
		if len(seen) < 4 {
			t.Errorf("only these limits and answers were returned: %v", seen)
		}
	})
}
