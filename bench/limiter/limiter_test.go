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
func everyone(t *testing.T, limit Limit, test func(t *testing.T, c Contestant, l lab.Limiter, addr string)) {
	server := redistest.Start(t)
	of := func(where, addr string, all []Contestant) {
		for _, c := range all {
			t.Run(where+c.Name, func(t *testing.T) {
				if err := (lab.Bench{Context: t.Context()}).Run(func(b *lab.Bench) {
					lab.Must(redistest.Command(server.Addr, "FLUSHALL"))
					test(t, c, c.Open(b, addr, limit), addr)
				}); err != nil {
					t.Error(err)
				}
			})
		}
	}
	of("memory, ", "", InMemory)
	of("Redis, ", server.Addr, append(OnRedis, ThreeLimits))
}

// Every contestant really limits: with a limit of three, three of ten pass, on each key.
func TestEveryContestantLimits(t *testing.T) {
	everyone(t, Limit{Count: 3, Window: time.Hour}, func(t *testing.T, c Contestant, l lab.Limiter, _ string) {
		if c.Role == report.Ceiling && c.Name != "INCRBY + EXPIRE, not conditional" {
			return // these decide nothing
		}
		take := l.Caller()
		for _, key := range lab.Keys(2) {
			passed := 0
			for range 10 {
				if lab.Must(take(t.Context(), key)) {
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
	for limit, want := range map[Limit]bool{Slow: true, Spent: false} {
		everyone(t, limit, func(t *testing.T, c Contestant, l lab.Limiter, addr string) {
			if onRedis := addr != ""; onRedis != want {
				return // spent limits are measured only in memory, slow ones only on Redis
			}
			lab.Must(l.Warm(t.Context(), lab.Key(1)))
			if ok := lab.Must(l.Caller()(t.Context(), lab.Key(1))); ok != want {
				t.Errorf("%+v: a warm key answered %t, want %t", limit, ok, want)
			}
			if addr == "" {
				return
			}
			wantKeys := map[bool]string{true: "0", false: "1"}[c.Name == "EVALSHA of an empty script"]
			if n := lab.Must(redistest.Command(addr, "DBSIZE")); n != wantKeys {
				t.Errorf("%s keys in Redis, want %s", n, wantKeys)
			}
		})
	}
}

func TestTrafficFollowsItsPattern(t *testing.T) {
	const keys, calls = 1000, 100_000
	shares := map[Pattern]float64{}
	for _, p := range []Pattern{Uniform, Zipf} {
		traffic, counts, most := draw(p, keys), map[string]int{}, 0
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
}

func TestChildWorksAndReportsErrors(t *testing.T) {
	headline := Find(InMemory, Headline)
	if err := (lab.Bench{Context: t.Context()}).Run(func(b *lab.Bench) { Spawn(b, headline, Limit{}).Fill(0, 1) }); err == nil {
		t.Error("a limit of nothing per no time was filled")
	}
	if err := (lab.Bench{Context: t.Context()}).Run(func(b *lab.Bench) {
		c := Spawn(b, headline, Roomy)
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
	if err := Serve([]string{"nobody", "{}"}); err == nil {
		t.Error("served a contestant that does not exist")
	}
}
