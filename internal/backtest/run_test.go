package backtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/engine"
	"github.com/penstock-io/penstock/internal/accesslog"
	_ "github.com/penstock-io/penstock/internal/fixedseed"
	"github.com/penstock-io/penstock/internal/simulator/replay"
	"github.com/penstock-io/penstock/memstore"
	"github.com/penstock-io/penstock/rules"
)

func compile(t testing.TB, text string) *rules.Snapshot {
	t.Helper()
	s, _, err := rules.CompileFiles([]rules.File{{Name: "rules.yaml", Data: []byte(text)}}, rules.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func newStore() (replay.Store, error) { return memstore.New(memstore.Options{}) }

func open(t testing.TB, text string, o accesslog.Options) *accesslog.Log {
	t.Helper()
	path := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := accesslog.Open([]string{path}, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l
}

const someRules = `
attributes: {user: {header: X-User}}
rules:
  - {name: counter, match: {path: /a}, key: [ip], limits: [3/1m]}
  - {name: log, key: [ip, user], limits: [{rate: 4/10s, algorithm: sliding_window_log}]}
  - {name: bucket, match: {method: POST}, key: [user], limits: [{rate: 1/s, burst: 3, algorithm: token_bucket}, 20/1m]}
  - {name: tried, key: [], limits: [{rate: 5/10s, algorithm: fixed_window}], mode: shadow}
  - {name: banned, match: {path: /b}, key: [user], limits: [2/10s], penalty: {after: 3, within: 1m, bans: [30s]}}
  - {name: busy, match: {path: /c}, key: [], limits: [{concurrent: 2, ttl: 1m}]}
lists:
  deny: [{ip: 10.0.0.9}]
`

// A backtest counts what the engine decides, request by request: the test asks the engine directly, at the same
// times, on a store that drops nothing.
func TestBacktestIsTheEngine(t *testing.T) {
	snapshot := compile(t, someRules)
	rapid.Check(t, func(t *rapid.T) {
		var log strings.Builder
		now := int64(1_794_820_321_000)
		type request struct {
			at, took   int64
			attributes []penstock.Attribute
		}
		var all []request
		for range rapid.IntRange(0, 150).Draw(t, "requests") {
			now += rapid.Int64Range(0, 3000).Draw(t, "step")
			r := request{now, rapid.Int64Range(0, 9000).Draw(t, "took"), []penstock.Attribute{
				{Name: "ip", Value: rapid.SampledFrom([]string{"10.0.0.1", "10.0.0.2", "10.0.0.9"}).Draw(t, "ip")},
				{Name: "method", Value: rapid.SampledFrom([]string{"GET", "POST"}).Draw(t, "method")},
				{Name: "path", Value: rapid.SampledFrom([]string{"/a", "/b", "/c"}).Draw(t, "path")},
				{Name: "user", Value: rapid.SampledFrom([]string{"u1", "u2"}).Draw(t, "user")},
			}}
			all = append(all, r)
			fmt.Fprintf(&log, `{"time":%d,"ip":%q,"method":%q,"path":%q,"user":%q,"duration":"%dms"}`+"\n", r.at, r.attributes[0].Value, r.attributes[1].Value, r.attributes[2].Value, r.attributes[3].Value, r.took)
		}
		want := map[string]int64{}
		direct, err := memstore.New(memstore.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer direct.Close()
		var at penstock.Instant
		e, err := engine.New(engine.Options{Store: direct, Rules: engine.Fixed(snapshot), Now: func() penstock.Instant { return at }})
		if err != nil {
			t.Fatal(err)
		}
		open := map[string]penstock.Instant{}
		for _, r := range all {
			arrival := penstock.InstantOf(time.UnixMilli(r.at))
			for id, end := range open {
				if end <= arrival {
					at = end
					if err := e.Conclude(context.Background(), &penstock.Conclusion{Reservation: id, Verb: penstock.Release}, new(penstock.Verdict)); err != nil {
						t.Fatal(err)
					}
					delete(open, id)
				}
			}
			at = arrival
			var v penstock.Verdict
			if err := e.Decide(context.Background(), &penstock.Call{Attributes: r.attributes, Cost: 1, MaxDelay: penstock.AnyDelay}, &v); err != nil {
				t.Fatal(err)
			}
			if v.Reservation != "" {
				open[v.Reservation] = at.Add(time.Duration(r.took) * time.Millisecond)
			}
			if !v.Allowed {
				want["denied"]++
			}
			denied := map[string]bool{}
			for _, l := range v.Limits {
				denied[l.Rule] = denied[l.Rule] || !l.Allowed || l.Banned
			}
			for rule, is := range denied {
				want[rule+" requests"]++
				if is {
					want[rule+" denied"]++
				}
			}
		}

		path := filepath.Join(os.TempDir(), fmt.Sprintf("backtest-%d.jsonl", os.Getpid()))
		if err := os.WriteFile(path, []byte(log.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		defer os.Remove(path)
		l, err := accesslog.Open([]string{path}, accesslog.Options{Format: "jsonl", Fields: map[string]string{"user": "user"}, Attributes: Attributes(snapshot, "")})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		report, err := Run(context.Background(), l, Options{Documents: []Document{{"a", snapshot}, {"b", snapshot}}, NewStore: newStore})
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range report.Documents {
			got := map[string]int64{"denied": d.Denied}
			for _, r := range d.Rules {
				got[r.Rule+" requests"], got[r.Rule+" denied"] = r.Requests, r.Denied
			}
			for name := range got {
				if got[name] != want[name] {
					t.Fatalf("%s: %d, the engine says %d", name, got[name], want[name])
				}
			}
		}
		if d := report.Difference; d.OnlyFirst != 0 || d.OnlySecond != 0 || d.Both != want["denied"] {
			t.Fatalf("the same rules differ: %+v", d)
		}
	})
}

func TestConcurrencyNeedsDurations(t *testing.T) {
	snapshot := compile(t, `rules: [{name: a, key: [], limits: [{concurrent: 2, ttl: 1m}]}]`)
	log := open(t, `{"time":1794820321.5,"path":"/a"}`+"\n", accesslog.Options{Attributes: Attributes(snapshot, "")})
	_, err := Run(t.Context(), log, Options{Documents: []Document{{"a", snapshot}}, NewStore: newStore})
	if !errors.Is(err, replay.ErrNoDuration) {
		t.Error(err)
	}
}

func TestMissingAttribute(t *testing.T) {
	snapshot := compile(t, `{attributes: {user: {header: X-User}}, rules: [{name: a, key: [user], limits: [1/1m]}]}`)
	log := open(t, `{"time":1794820321.5,"path":"/a"}`+"\n", accesslog.Options{Attributes: Attributes(snapshot, "")})
	_, err := Run(t.Context(), log, Options{Documents: []Document{{"a", snapshot}}, NewStore: newStore})
	if want := `rule "a": none of 1 requests has the attribute "user"; say where the log has it with --field user=NAME, or continue without it with --without user`; err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

// Both are exact up to their bounds and close beyond them.
func TestBoundedCounts(t *testing.T) {
	var d DistinctCounter
	for i := range 1_000_000 {
		d.Add(HashKey([]string{fmt.Sprint(i)}))
		if i == maxDistinct-1 && (d.Count() != maxDistinct || !d.Exact()) {
			t.Errorf("%d of %d", d.Count(), maxDistinct)
		}
	}
	if n := d.Count(); d.Exact() || n < 970_000 || n > 1_030_000 {
		t.Errorf("%d of a million", n)
	}
	var f frequentKeys
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 200_000 {
		f.add(fmt.Sprint("rare ", i))
		if random.IntN(10) == 0 {
			f.add("often")
		}
	}
	if top := f.top(1)[0]; top.Key != "often" || len(f.counts) > maxCounted || f.floor > 220_000/maxCounted {
		t.Errorf("%v, %d counted, %d too low", top, len(f.counts), f.floor)
	}
}

func TestSeries(t *testing.T) {
	var s Series
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range 100_000 {
		s.at(start.Add(time.Duration(i)*time.Second)).Requests++
	}
	var sum int64
	for _, b := range s.Counts {
		sum += b.Requests
	}
	if sum != 100_000 || len(s.Counts) > maxBuckets || len(s.Counts) < maxBuckets/2 || s.Step != 512*time.Second {
		t.Errorf("%d requests in %d buckets of %v", sum, len(s.Counts), s.Step)
	}
}

// Rules that decide by the response use the status in the log.
func TestResponsesOfTheLog(t *testing.T) {
	snapshot := compile(t, `
rules:
  - {name: failed, key: [ip], limits: [{rate: 2/1h, algorithm: fixed_window}], charge_if: status == 401}
  - {name: struck, key: [ip], limits: [1000/1h], penalty: {after: 3, within: 1h, bans: [30m], strike_if: status == 401}}
`)
	var text strings.Builder
	for i, status := range []int{200, 200, 401, 200, 401, 200, 401, 200} {
		fmt.Fprintf(&text, "192.0.2.1 - - [16/Nov/2026:12:00:%02d +0000] \"POST /login HTTP/1.1\" %d 12\n", i, status)
	}
	for i, status := range []int{200, 200, 200, 200} {
		fmt.Fprintf(&text, "192.0.2.2 - - [16/Nov/2026:12:01:%02d +0000] \"POST /login HTTP/1.1\" %d 12\n", i, status)
	}
	log := open(t, text.String(), accesslog.Options{Attributes: Attributes(snapshot, "")})
	report, err := Run(t.Context(), log, Options{Documents: []Document{{"a", snapshot}}, NewStore: newStore})
	if err != nil {
		t.Fatal(err)
	}
	// After two failed logins the next three requests are denied: they were not strikes.
	if d := report.Documents[0]; d.Denied != 3 {
		t.Errorf("%d denied, want 3", d.Denied)
	}
}
