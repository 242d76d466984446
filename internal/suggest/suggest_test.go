package suggest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/accesslog"
	"github.com/penstock-io/penstock/internal/backtest"
	_ "github.com/penstock-io/penstock/internal/fixedseed"
	"github.com/penstock-io/penstock/internal/simulator/replay"
	"github.com/penstock-io/penstock/memstore"
	"github.com/penstock-io/penstock/rules"
)

func newStore() (replay.Store, error) { return memstore.New(memstore.Options{}) }

func opener(path string) func([]accesslog.Attribute) (*accesslog.Log, error) {
	return func(wanted []accesslog.Attribute) (*accesslog.Log, error) {
		return accesslog.Open([]string{path}, accesslog.Options{Attributes: wanted, Format: "jsonl"})
	}
}

// backtested returns the effect of a limit on the log, according to the backtest.
func backtested(t *rapid.T, path, document string) Counts {
	snapshot, _, err := rules.CompileFiles([]rules.File{{Data: []byte(document)}}, rules.Options{})
	if err != nil {
		t.Fatal(err)
	}
	log, err := opener(path)(backtest.Attributes(snapshot, ""))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	report, err := backtest.Run(context.Background(), log, backtest.Options{Documents: []backtest.Document{{Rules: snapshot}}, NewStore: newStore})
	if err != nil {
		t.Fatal(err)
	}
	r := &report.Documents[0].Rules[0]
	return Counts{r.Requests, r.Denied, r.Keys, r.KeysDenied}
}

// A suggested limit meets its target on the log that it was made from, according to the backtest, and a limit
// smaller by one does not. All alternatives meet it, too.
func TestMeetsItsTarget(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		path := filepath.Join(dir, "log")
		var b strings.Builder
		now := int64(1_794_820_321_000)
		for range rapid.IntRange(1, 300).Draw(t, "requests") {
			now += rapid.Int64Range(0, 5000).Draw(t, "step")
			fmt.Fprintf(&b, `{"time":%d,"ip":"10.0.0.%d","path":"/a"}`+"\n", now, rapid.IntRange(1, 5).Draw(t, "ip"))
		}
		if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		o := Options{
			Key: []string{"ip"}, Path: "/a", Burst: 1, Open: opener(path), NewStore: newStore,
			Algorithm: rapid.SampledFrom([]penstock.Algorithm{penstock.FixedWindow, penstock.SlidingWindowLog, penstock.SlidingWindowCounter, penstock.TokenBucket}).Draw(t, "algorithm"),
			Window:    rapid.SampledFrom([]time.Duration{5 * time.Second, time.Minute}).Draw(t, "window"),
			MaxDenied: rapid.SampledFrom([]float64{-1, 0, 0.01, 0.3}).Draw(t, "requests"),
			MaxKeys:   rapid.SampledFrom([]float64{-1, 0, 0.2, 0.5}).Draw(t, "keys"),
		}
		if o.MaxDenied < 0 && o.MaxKeys < 0 {
			o.MaxDenied = 0.1
		}
		r, err := Find(context.Background(), o)
		if err != nil {
			t.Fatal(err)
		}
		for i := range r.Limits {
			f := &r.Limits[i]
			if got := backtested(t, path, o.yaml(f.limit)); !o.isMetBy(got) || got != f.Fitted {
				t.Fatalf("%s %s: %+v, the backtest says %+v", f.Algorithm, f.Text, f.Fitted, got)
			}
			if f.Count > 1 && (f.Tighter == nil || o.isMetBy(*f.Tighter)) {
				t.Fatalf("%s %s: one less would do: %+v", f.Algorithm, f.Text, f.Tighter)
			}
		}
		if got := r.Limits[0]; got.Algorithm != o.Algorithm.String() || got.Window != o.Window.String() || r.Rule != o.yaml(got.limit) {
			t.Fatalf("asked for %v per %v, got %+v", o.Algorithm, o.Window, got)
		}
	})
}

// A limit that fits the beginning of a log but not its end is detected.
func TestHeldOut(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	var b strings.Builder
	for second := range 1000 {
		n := 1
		if second >= 900 {
			n = 5
		}
		for i := range n {
			fmt.Fprintf(&b, `{"time":%d.%d,"ip":"10.0.0.1"}`+"\n", 1_794_820_320+second, i+1)
		}
	}
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	o := Options{Key: []string{"ip"}, Algorithm: penstock.FixedWindow, Window: time.Minute, MaxDenied: 0.001, MaxKeys: -1, HoldOut: 0.2, Open: opener(path), NewStore: newStore}
	r, err := Find(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	f := r.Limits[0]
	if f.Count != 60 || f.Holds || f.Fitted.Denied != 0 || f.HeldOut.Denied < 300 || f.Fitted.Requests+f.HeldOut.Requests != 1400 {
		t.Errorf("%+v, held out %+v", f, f.HeldOut)
	}
	var text strings.Builder
	if err := r.Page().WriteText(&text); err != nil || !strings.Contains(text.String(), "It does NOT hold on the rest") {
		t.Errorf("%v %s", err, &text)
	}
	o.Path = "/nowhere"
	if _, err := Find(t.Context(), o); !errors.Is(err, ErrNoRequests) {
		t.Error(err)
	}
}

func TestValidate(t *testing.T) {
	_, err := Find(t.Context(), Options{MaxDenied: -1, MaxKeys: -1, HoldOut: 2, Algorithm: penstock.Concurrency})
	for _, want := range []string{"no target", "held out share 2", "algorithm concurrency: a limit can be suggested for fixed_window", "window 0s is not from 1ms"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nwant %s", err, want)
		}
	}
}
