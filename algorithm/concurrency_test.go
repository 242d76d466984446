package algorithm

import (
	"slices"
	"testing"
	"time"
)

func TestConcurrency(t *testing.T) {
	leases := func(n int64) Limit { return Limit{Algorithm: Concurrency, Count: n, Window: 30 * time.Second} }
	for _, test := range []struct {
		name  string
		limit Limit
		steps string
	}{
		{"a lost release expires", leases(2), `
			0s  1 pass 1 1 - 30s
			10s 1 pass 2 0 - 30s
			10s 1 deny 2 0 20s 30s
			29.999999s 1 deny 2 0 1us 10.000001s
			30s 1 pass 2 0 - 30s
			30s 1 deny 2 0 10s 30s`},
		{"a call takes one lease whatever it costs", leases(2), `
			0s  7 pass 1 1 - 30s
			0s  1000000 pass 2 0 - 30s
			0s  5 deny 2 0 30s 30s`},
		{"a peek passes at the limit", leases(1), `
			0s  0 pass 0 1 - -
			0s  1 pass 1 0 - 30s
			1s  0 pass 1 0 - 29s
			30s 0 pass 0 1 - -`},
		{"the same nonce takes the same permit again", leases(2), `
			0s  1 pass 1 1 - 30s nonce=7
			10s 1 pass 2 0 - 30s nonce=8
			20s 1 pass 2 0 - 30s nonce=7    # now until 50 s
			20s 1 deny 2 0 20s 30s nonce=9  # 8 ends at 40 s
			40s 1 pass 2 0 - 30s nonce=9
			51s 1 pass 2 0 - 30s nonce=7    # expired: an ordinary new one`},
		{"clock steps back: no lease outlasts what this limit could have set", leases(2), `
			10s 1 pass 1 1 - 30s
			0s  1 pass 2 0 - 30s
			0s  1 deny 2 0 30s 30s
			30s 2 pass 1 1 - 30s`},
		{"a wrong clock: a denial mends", leases(1), `
			600s 1 pass 1 0 - 30s
			0s   1 deny 1 0 30s 30s
			10s  1 deny 1 0 20s 20s
			30s  1 pass 1 0 - 30s`},
	} {
		t.Run(test.name, func(t *testing.T) { newBook(t, test.limit).play(t, test.steps) })
	}
}

func TestConcurrencyLowered(t *testing.T) {
	b := newBook(t, Limit{Algorithm: Concurrency, Count: 4, Window: 30 * time.Second})
	b.play(t, `
		0s 1 pass 1 3 - 30s nonce=1
		1s 1 pass 2 2 - 30s nonce=2
		2s 1 pass 3 1 - 30s nonce=3
		3s 1 pass 4 0 - 30s nonce=4`)
	b.meter = compile(t, Limit{Algorithm: Concurrency, Count: 2, Window: 30 * time.Second})
	b.play(t, `
		4s 0 deny 4 0 27s 29s         # at 31 s two are left
		4s 1 deny 4 0 28s 29s nonce=9 # at 32 s one
		4s 1 pass 4 0 - 30s nonce=3   # who has one keeps it`)
}

func TestLeasesAreOrderedByExpiry(t *testing.T) {
	m := compile(t, Limit{Algorithm: Concurrency, Count: 5, Window: 30 * time.Second})
	var leases []Entry
	for i, at := range []time.Duration{0, 5, 20, 3, 25, 50, 1} { // the clock steps back twice
		leases = m.TakeLease(leases, epoch.Add(at*time.Second), uint64(i%4)+1)
		if !slices.IsSortedFunc(leases, func(a, b Entry) int { return int(a.At - b.At) }) {
			t.Fatalf("after step %d: %v", i, leases)
		}
	}
	if w := m.WeighLeases(leases, epoch, 1, 99); !w.Repaired {
		t.Error("leases from the future are not reported")
	}
	if w := m.WeighLeases(m.MendLeases(leases, epoch), epoch, 1, 99); w.Repaired {
		t.Error("mended leases are still reported")
	}
}

// The receipt of a permit is dated when it was taken, not when it expires, and costs one.
func TestLeaseReceipt(t *testing.T) {
	b := newBook(t, Limit{Algorithm: Concurrency, Count: 2, Window: time.Minute})
	if got, want := b.take(epoch, 5, 1).Receipt, (Receipt{b.meter.Fingerprint, 1, epoch}); got != want {
		t.Errorf("receipt %+v, want %+v", got, want)
	}
}
