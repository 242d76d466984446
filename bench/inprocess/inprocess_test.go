package inprocess

import (
	"bytes"
	"io"
	"os"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	ServeIfChild()
	os.Exit(m.Run())
}

// Every contestant really limits: with a limit of three, three of ten pass, on each key.
func TestEveryContestantLimits(t *testing.T) {
	for _, c := range Contestants() {
		t.Run(c.Name, func(t *testing.T) {
			l, err := c.Open(Limit{Count: 3, Window: time.Hour})
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			take := l.Caller()
			for _, key := range []string{keyOf(1), keyOf(2)} {
				passed := 0
				for range 10 {
					ok, err := take(key)
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
}

func TestSpentLimitDeniesAfterWarming(t *testing.T) {
	for _, c := range Contestants() {
		l, err := c.Open(Spent)
		if err != nil {
			t.Fatalf("%s: %v", c.Name, err)
		}
		if err := l.Warm(keyOf(1)); err != nil {
			t.Errorf("%s: warm: %v", c.Name, err)
		}
		if ok, err := l.Caller()(keyOf(1)); ok || err != nil {
			t.Errorf("%s: a spent key answered %t, %v; want denied", c.Name, ok, err)
		}
		if err := l.Close(); err != nil {
			t.Errorf("%s: close: %v", c.Name, err)
		}
	}
}

func TestKeysAreOfOneForm(t *testing.T) {
	for i, want := range map[int]string{0: "key-000000000000", 42: "key-000000000042", 123456789012: "key-123456789012"} {
		if got := keyOf(i); got != want || len(got) != keyLength {
			t.Errorf("key %d is %q, want %q", i, got, want)
		}
	}
}

func TestTrafficFollowsItsPattern(t *testing.T) {
	const keys = 1000
	shares := map[Pattern]float64{}
	for _, p := range []Pattern{Uniform, Zipf} {
		traffic, err := draw(p, keys)
		if err != nil {
			t.Fatal(err)
		}
		counts := map[string]int{}
		const calls = 100_000
		most := 0
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
	child, err := Spawn(Headline)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := child.Close(); err != nil {
			t.Error(err)
		}
	}()
	if err := child.Fill(0, 1); err == nil {
		t.Error("filled before a limit was given")
	}
	if err := child.Open(Limit{}); err == nil {
		t.Error("opened a limit of nothing per no time")
	}
	if err := child.Open(Roomy); err != nil {
		t.Fatal(err)
	}
	if err := child.Fill(0, 1000); err != nil {
		t.Fatal(err)
	}
	ran, err := child.Run(Run{Pattern: Uniform, Procs: 2, Duration: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if ran.Calls == 0 || ran.Allowed != ran.Calls || ran.PerCall() <= 0 || ran.CPUPerCall() <= 0 {
		t.Errorf("ran %+v; want calls, all of them allowed", ran)
	}
	if ran, err = child.Run(Run{Pattern: Hot, Procs: 1, Duration: time.Millisecond}); err != nil || ran.Allowed != ran.Calls {
		t.Errorf("one hot key: ran %+v, %v; want all calls allowed", ran, err)
	}
	const collections = 2
	w, err := child.Weigh(collections)
	if err != nil {
		t.Fatal(err)
	}
	if w.Heap <= 0 || w.Own <= 0 || len(w.GC) != collections {
		t.Errorf("weight %+v; want bytes and %d collections", w, collections)
	}
}

func TestServeRefusesUnknownContestant(t *testing.T) {
	if err := serve("nobody", bytes.NewReader(nil), io.Discard); err == nil {
		t.Error("served a contestant that does not exist")
	}
	if err := serve(Headline, bytes.NewReader([]byte("{")), io.Discard); err == nil {
		t.Error("half a request was taken for the end")
	}
}
