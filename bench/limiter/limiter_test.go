package limiter

import (
	"os"
	"testing"
	"time"

	"github.com/penstock-io/penstock/bench/lab"
	"github.com/penstock-io/penstock/bench/report"
	"github.com/penstock-io/penstock/internal/redistest"
)

func TestMain(m *testing.M) {
	lab.ServeIfChild(map[string]func([]string) error{Role: Serve})
	os.Exit(m.Run())
}

// everyone calls a test for each contestant, those on Redis with an empty server.
func everyone(t *testing.T, test func(t *testing.T, c Contestant, addr string)) {
	for _, c := range InMemory() {
		t.Run("memory, "+c.Name, func(t *testing.T) { test(t, c, "") })
	}
	server := redistest.Start(t)
	for _, c := range append(OnRedis(), ThreeLimits) {
		t.Run("Redis, "+c.Name, func(t *testing.T) {
			if _, err := redistest.Command(server.Addr, "FLUSHALL"); err != nil {
				t.Fatal(err)
			}
			test(t, c, server.Addr)
		})
	}
}

func open(t *testing.T, c Contestant, addr string, limit Limit) lab.Limiter {
	l, err := c.Open(t.Context(), addr, limit)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// Every contestant really limits: with a limit of three, three of ten pass, on each key.
func TestEveryContestantLimits(t *testing.T) {
	everyone(t, func(t *testing.T, c Contestant, addr string) {
		if c.Role == report.Ceiling && c.Name != "INCRBY + EXPIRE, not conditional" {
			return // these decide nothing
		}
		take := open(t, c, addr, Limit{Count: 3, Window: time.Hour}).Caller()
		for _, key := range []string{keyOf(1), keyOf(2)} {
			passed := 0
			for range 10 {
				ok, err := take(t.Context(), key)
				if err != nil {
					t.Fatal(err)
				}
				if ok {
					passed++
				}
			}
			if passed != 3 {
				t.Errorf("%s: %d of 10 calls passed, want 3", key, passed)
			}
		}
	})
}

// A warm key has its state, and lets requests pass unless its limit is spent.
func TestWarmKeys(t *testing.T) {
	everyone(t, func(t *testing.T, c Contestant, addr string) {
		for limit, want := range map[Limit]bool{Slow: true, Spent: false} {
			if addr != "" && !want || addr == "" && want {
				continue // measured only in memory, or only on Redis
			}
			l := open(t, c, addr, limit)
			if err := l.Warm(t.Context(), keyOf(1)); err != nil {
				t.Fatal(err)
			}
			if ok, err := l.Caller()(t.Context(), keyOf(1)); ok != want || err != nil {
				t.Errorf("%+v: a warm key answered %t, %v; want %t", limit, ok, err, want)
			}
		}
		if addr == "" {
			return
		}
		want := "1"
		if c.Name == "EVALSHA of an empty script" {
			want = "0"
		}
		if n, err := redistest.Command(addr, "DBSIZE"); err != nil || n != want {
			t.Errorf("%s keys in Redis, %v; want %s", n, err, want)
		}
	})
}

func TestTrafficFollowsItsPattern(t *testing.T) {
	if got := keyOf(42); got != "key-000000000042" || len(got) != keyLength || got != lab.Keys(43)[42] {
		t.Errorf("key 42 is %q", got)
	}
	const keys, calls = 1000, 100_000
	shares := map[Pattern]float64{}
	for _, p := range []Pattern{Uniform, Zipf} {
		traffic, err := draw(p, keys)
		if err != nil {
			t.Fatal(err)
		}
		counts, most := map[string]int{}, 0
		for i := range calls {
			counts[traffic.key(i)]++
			most = max(most, counts[traffic.key(i)])
		}
		shares[p] = float64(most) / calls
		if len(counts) < keys/2 {
			t.Errorf("%s: %d distinct keys of %d", p, len(counts), keys)
		}
	}
	if shares[Zipf] < 0.05 || shares[Uniform] > 0.01 {
		t.Errorf("share of the most frequent key: %v; want much if zipf, little if uniform", shares)
	}
	if _, err := draw("sideways", keys); err == nil {
		t.Error("an unknown pattern was drawn")
	}
}

func TestChildWorksAndReportsErrors(t *testing.T) {
	in := func(do func(*Child)) error {
		_, err := lab.Run(lab.Bench{Context: t.Context()}, func(b *lab.Bench) int { do(Spawn(b, Headline)); return 0 })
		return err
	}
	if err := in(func(c *Child) { c.Fill(0, 1) }); err == nil {
		t.Error("filled before a limit was given")
	}
	if err := in(func(c *Child) { c.Open(Limit{}) }); err == nil {
		t.Error("opened a limit of nothing per no time")
	}
	if err := in(func(c *Child) {
		c.Open(Roomy)
		c.Fill(0, 1000)
		for _, p := range []Pattern{Uniform, Hot} {
			ran := c.Run(Run{Pattern: p, Procs: 2, Duration: time.Millisecond})
			if ran.Calls == 0 || ran.Allowed != ran.Calls || ran.PerCall() <= 0 || ran.CPUPerCall() < 0 {
				t.Errorf("%s: ran %+v; want calls, all of them allowed", p, ran)
			}
		}
		if w := c.Weigh(2); w.Heap <= 0 || w.Own <= 0 || w.Keys < 1000 || len(w.GC) != 2 {
			t.Errorf("weight %+v; want bytes, the keys and 2 collections", w)
		}
	}); err != nil {
		t.Error(err)
	}
	if err := Serve([]string{"nobody"}); err == nil {
		t.Error("served a contestant that does not exist")
	}
}
