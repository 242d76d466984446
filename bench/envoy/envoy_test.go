package envoy

import (
	"os"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/penstock-io/penstock/bench/report"
)

func TestMain(m *testing.M) {
	ServeIfChild()
	os.Exit(m.Run())
}

// The encoded request equals the original.
func TestEncoded(t *testing.T) {
	const key = "key-000000000042"
	e, err := encode("allowed")
	if err != nil {
		t.Fatal(err)
	}
	var got rlsv3.RateLimitRequest
	if err := proto.Unmarshal(e.with(key), &got); err != nil || !proto.Equal(&got, request("allowed", key)) {
		t.Errorf("%v, %v", &got, err)
	}
	if len(key) != keyLength {
		t.Errorf("a key of %d bytes, want %d", len(key), keyLength)
	}
}

func TestCodeOf(t *testing.T) {
	for _, want := range []rlsv3.RateLimitResponse_Code{rlsv3.RateLimitResponse_OK, rlsv3.RateLimitResponse_OVER_LIMIT} {
		text, err := proto.Marshal(&rlsv3.RateLimitResponse{
			OverallCode:          want,
			Statuses:             []*rlsv3.RateLimitResponse_DescriptorStatus{{DurationUntilReset: durationpb.New(time.Second)}},
			ResponseHeadersToAdd: []*corev3.HeaderValue{{Key: "a", Value: "b"}}, RawBody: []byte("c"),
		})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := codeOf(text); err != nil || got != want {
			t.Errorf("%v, %v; want %v", got, err, want)
		}
		reversed, err := proto.Marshal(&rlsv3.RateLimitResponse{RawBody: []byte("c")})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := codeOf(append(reversed, text...)); err != nil || got != want {
			t.Errorf("after another field: %v, %v; want %v", got, err, want)
		}
	}
	for _, bad := range []string{"", "\x08", "\xff", "\x12\x05a"} {
		if got, err := codeOf([]byte(bad)); err == nil {
			t.Errorf("%q was read as %v", bad, got)
		}
	}
}

func TestProcessorTime(t *testing.T) {
	before, err := processorTime(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for after := before; after <= before; { // it continues during this
		if after, err = processorTime(os.Getpid()); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := processorTime(1 << 30); err == nil {
		t.Errorf("of nobody: %v", got)
	}
}

// The goals are about the best of the others, column by column.
func TestTables(t *testing.T) {
	b := &bench{keys: []string{"a"}}
	for i, c := range contestants("") {
		r := &runner{contestant: c, Samples: report.Samples{}}
		for _, n := range callers {
			r.Add("allowed", perSecond(n), float64(1000*(len(contestants(""))-i)))
		}
		for _, figure := range []string{serverCPU, redisCPU, p50, p99} {
			r.Add("allowed", figure, float64(i+1))
			r.Add("allowed", scheduled+figure, float64(i+1))
		}
		b.runners = append(b.runners, r)
	}
	var s report.Section
	b.add(&s, traffics[0], 100)
	if len(s.Tables) != 2 || len(s.Goals) != 6 {
		t.Fatalf("%d tables and %d goals", len(s.Tables), len(s.Goals))
	}
	if got := s.Goals[0].Measured; got != 1.5 {
		t.Errorf("6000 a second are %v of 4000", got)
	}
	if got := s.Goals[5].Measured; got < 0.16 || got > 0.17 {
		t.Errorf("1 µs is %v of the bare server's 6", got)
	}
	for _, g := range s.Goals[1:5] {
		if g.Measured != 3 || !g.Met() {
			t.Errorf("%s: %v, want 3", g.Name, g.Measured)
		}
	}
}

func TestMeasure(t *testing.T) {
	if os.Getenv("PENSTOCK_TEST_LONG") == "" {
		t.Skip("builds two servers and runs five: with PENSTOCK_TEST_LONG=1")
	}
	s, err := Measure(t.Context(), Options{Keys: 500, Cell: 200 * time.Millisecond, Repeat: 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, goal := range s.Goals {
		if goal.Verdict() == "not measured" {
			t.Errorf("%s was not measured", goal.Name)
		}
	}
}
