package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/penstock-io/penstock/internal/redistest"
	"github.com/redis/rueidis"
)

func dial(t *testing.T) (rueidis.Client, []candidate) {
	t.Helper()
	client, err := connect(redistest.Start(t).Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	all := structures()
	for i := range all {
		if err := all[i].load(t.Context(), client); err != nil {
			t.Fatal(err)
		}
	}
	return client, all
}

// The model judges the scripts, so it is itself held against cases worked out by hand.
func TestModelByHand(t *testing.T) {
	var m model
	for i, step := range []struct {
		now, cost int64
		want      answer
	}{
		{100, 2, answer{true, 2, 0, 100}},
		{104, 1, answer{true, 3, 0, 104}},
		{105, 3, answer{false, 3, 110, 104}}, // 5 per 10: one unit too many, the first entry frees two
		{105, 5, answer{false, 3, 114, 104}}, // needs the whole limit: both must leave
		{105, 6, answer{false, 3, -1, 104}},  // could never pass
		{103, 2, answer{true, 5, 0, 104}},    // clock stepped back: counted at 104
		{109, 0, answer{true, 5, 0, 104}},    // a peek
		{110, 2, answer{true, 5, 0, 110}},    // (100, 110] no longer holds the first
		{113, 1, answer{false, 5, 114, 110}}, // one too early
		{114, 3, answer{true, 5, 0, 114}},    // both of 104 left
		{1000, 0, answer{true, 0, 0, 0}},     // all left
		{1000, 1, answer{true, 1, 0, 1000}},  // and the log starts again
		{1009, 5, answer{false, 1, 1010, 1000}},
	} {
		if got := m.decide(call{step.now, 10, 5, step.cost}); got != step.want {
			t.Fatalf("step %d, cost %d at %d: got %+v, want %+v", i, step.cost, step.now, got, step.want)
		}
	}
}

func TestStructuresAgreeWithModel(t *testing.T) {
	client, all := dial(t)
	for seed := range uint64(5) {
		seen, err := check(t.Context(), client, all, seed)
		if err != nil {
			t.Fatal(err)
		}
		if seen.Denied < 1000 || seen.Allowed < 1000 || seen.Never == 0 || seen.Peeks == 0 || seen.Back == 0 {
			t.Errorf("seed %d exercises too little: %+v", seed, seen)
		}
	}
}

// A log that starts a few units below 2^48 must answer as one that starts at 0.
func TestCumulativeCostWraps(t *testing.T) {
	client, all := dial(t)
	base := binary.BigEndian.AppendUint64(make([]byte, 5), 1<<48-5) // 13 bytes: instant 0, 6 bytes of cost
	for _, c := range all {
		key := "pen:bench:wrap:" + c.file
		var seed rueidis.Completed
		switch c.file {
		case "list.lua":
			seed = client.B().Rpush().Key(key).Element(string(base)).Build()
		case "packedstring.lua":
			seed = client.B().Set().Key(key).Value(string(base)).Build()
		default:
			continue // no fixed-width running total that could wrap within its life
		}
		for _, s := range scenarios() {
			if err := client.Do(t.Context(), client.B().Del().Key(key).Build()).Error(); err != nil {
				t.Fatal(err)
			}
			if err := client.Do(t.Context(), seed.Pin()).Error(); err != nil {
				t.Fatal(err)
			}
			calls, want := s.trace(7, new(coverage))
			if err := compare(t.Context(), client, c, key, calls, want); err != nil {
				t.Errorf("%s: %v", s.name, err)
			}
		}
	}
}

func TestRunReportsEveryCell(t *testing.T) {
	o, err := parse(strings.Fields("-o json -sizes 1,50 -repeats 1 -decisions 200"), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := run(t.Context(), o, &out); err != nil {
		t.Fatal(err)
	}
	var r report
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatalf("output is not JSON: %v\n%s", err, out.String())
	}
	if want := 2 * len(mixes()) * (len(structures()) + 1); len(r.Rows) != want {
		t.Errorf("%d rows, want %d", len(r.Rows), want)
	}
	for _, x := range r.Rows {
		if kept := x.Structure != floor().name; kept != (x.PeakBytes > 0) {
			t.Errorf("%+v: bytes %d", x, x.PeakBytes)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, args := range []string{"-o xml", "-sizes 0", "-sizes 10,x", "-repeats 0", "-decisions -1", "surplus"} {
		if _, err := parse(strings.Fields(args), io.Discard); err == nil {
			t.Errorf("%q was accepted", args)
		}
	}
}
