package httplimit

import (
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/racetest"
)

// The hand-written encoding is byte for byte that of encoding/json.
func TestProblemIsJSON(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	for range 2000 {
		p := randomProblem(random)
		if got, want := string(p.appendJSON(nil)), marshalled(t, &p); got != want {
			t.Fatalf("got  %s\nwant %s", got, want)
		}
	}
}

func randomProblem(random *rand.Rand) denialBody {
	v := randomDenial(random)
	return denial(&v, nil)
}

func randomDenial(random *rand.Rand) penstock.Verdict {
	v := penstock.Verdict{Rule: randomName(random)}
	v.Reason = []penstock.Reason{penstock.ReasonOverLimit, penstock.ReasonBanned, penstock.ReasonDenyList, penstock.ReasonStoreError}[random.IntN(4)]
	v.Decision.RetryAfter = []time.Duration{penstock.Never, 0, 1, time.Millisecond, 11740 * time.Millisecond, 1 << 60}[random.IntN(6)]
	for range random.IntN(4) {
		l := penstock.LimitVerdict{Rule: v.Rule, Policy: randomName(random), Shadow: random.IntN(4) == 0, Decision: v.Decision}
		l.Algorithm = penstock.Algorithm(random.IntN(int(penstock.Concurrency) + 1))
		l.Limit, l.Window, l.Allowed = random.Int64N(3), time.Minute, random.IntN(3) == 0
		v.Limits = append(v.Limits, l)
	}
	return v
}

// randomName is an arbitrary name, as an operator or a remote decider may choose.
func randomName(random *rand.Rand) string {
	const bytes = `abc-19 "\<>&'/` + "\x00\n\t\x7fé\u2028\xff😀"
	var b strings.Builder
	for range random.IntN(8) {
		b.WriteByte(bytes[random.IntN(len(bytes))])
	}
	return strings.Repeat("plain", random.IntN(2)) + b.String()
}

func marshalled(t *testing.T, p *denialBody) string {
	t.Helper()
	var said struct {
		Type     string   `json:"type"`
		Title    string   `json:"title"`
		Status   int      `json:"status"`
		Detail   string   `json:"detail"`
		Violated []string `json:"violated-policies,omitempty"`
		Error    string   `json:"error"`
		Message  string   `json:"message"`
		Seconds  any      `json:"retry_after_seconds,omitempty"`
		Millis   any      `json:"retry_after_ms,omitempty"`
	}
	said.Type, said.Title, said.Status, said.Detail, said.Error, said.Message = p.Type, p.Title, p.Status, string(p.Detail), p.Error, p.Message
	for _, l := range p.Limits {
		if !l.Shadow && !l.Allowed {
			said.Violated = append(said.Violated, l.Policy)
		}
	}
	switch p.Wait {
	case 0:
	case penstock.Never:
		said.Seconds, said.Millis = json.RawMessage("null"), json.RawMessage("null")
	default:
		said.Seconds, said.Millis = (p.Wait+time.Second-1)/time.Second, (p.Wait+time.Millisecond-1)/time.Millisecond
	}
	text, err := json.Marshal(said)
	if err != nil {
		t.Fatal(err)
	}
	return string(text) + "\n"
}

// A flood of denials must allocate little: the texts and lines of the headers, the detail, and the length.
func TestDenyAllocatesLittle(t *testing.T) {
	if racetest.Enabled {
		t.Skip("with the race detector pools forget at random")
	}
	w, v, req := newWriter(t), overLimit(), request("/")
	rw := &discardingWriter{header: http.Header{}}
	deny := func() {
		clear(rw.header)
		w.Deny(rw, req, v)
	}
	deny()
	if got := testing.AllocsPerRun(1000, deny); got > 5 {
		t.Errorf("%v allocations for a denial", got)
	}
	if len(rw.header) != 7 {
		t.Errorf("something else was measured: %v", rw.header)
	}
}

// discardingWriter is a response that is thrown away.
type discardingWriter struct{ header http.Header }

func (d *discardingWriter) Header() http.Header         { return d.header }
func (d *discardingWriter) WriteHeader(int)             {}
func (d *discardingWriter) Write(p []byte) (int, error) { return len(p), nil }
