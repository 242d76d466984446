package httplimit

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/problem"
	"github.com/penstock-io/penstock/internal/racetest"
)

// A wholeRecorder records responses that are written as a whole.
type wholeRecorder struct {
	*httptest.ResponseRecorder
	refuses bool
	text    strings.Builder
}

func (w *wholeRecorder) WriteWhole(status int, fields []problem.Field, body []byte, _ time.Duration) bool {
	if w.refuses {
		return false
	}
	fmt.Fprintln(&w.text, status)
	for _, f := range fields {
		fmt.Fprintf(&w.text, "%s: %s\n", f.Name, f.Value)
	}
	w.text.Write(body)
	return true
}

// recorded returns a response as WriteWhole records it.
func recorded(res *httptest.ResponseRecorder) string {
	var text strings.Builder
	fmt.Fprintln(&text, res.Code)
	names := make([]string, 0, len(res.Header()))
	for name := range res.Header() {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		for _, line := range res.Header()[name] {
			fmt.Fprintf(&text, "%s: %s\n", name, line)
		}
	}
	return text.String() + res.Body.String()
}

// A denial that is written as a whole is the one that is written with a header and a body, and the second is written if
// the first cannot be.
func TestWholeDenials(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 8))
	wholes := 0
	for range 5000 {
		style := [][]string{nil, {StyleNone}, {StyleXRateLimit}, {StyleIETF, StyleXRateLimit}}[random.IntN(4)]
		w, err := NewWriter(WriterOptions{Headers: style})
		if err != nil {
			t.Fatal(err)
		}
		v := randomDenial(random)
		req := request("/")
		req.Header.Set("Accept", []string{"", "text/html", "application/json"}[random.IntN(3)])
		status := Status(&v)
		if random.IntN(10) == 0 {
			status = http.StatusForbidden
		}
		want := httptest.NewRecorder()
		w.DenyWith(want, req, &v, status)
		whole := &wholeRecorder{ResponseRecorder: httptest.NewRecorder(), refuses: random.IntN(4) == 0}
		w.DenyWith(whole, req, &v, status)
		got := whole.text.String()
		if got == "" {
			got = recorded(whole.ResponseRecorder)
		} else {
			wholes++
		}
		if got != recorded(want) {
			t.Fatalf("%+v:\ngot\n%s\nwant\n%s", v, got, recorded(want))
		}
		if strings.ContainsAny(got[:strings.Index(got, "{")+1], "\r\x00") {
			t.Fatalf("%q", got)
		}
	}
	if wholes < 1000 {
		t.Errorf("only %d denials were written as a whole", wholes)
	}
}

func TestWholeDenialsDoNotAllocate(t *testing.T) {
	if racetest.Enabled {
		t.Skip("the pool of messages forgets some")
	}
	w := newWriter(t)
	v := penstock.Verdict{Rule: "a", Reason: penstock.ReasonOverLimit}
	v.Limits = []penstock.LimitVerdict{{Rule: "a", Policy: "a", Algorithm: penstock.TokenBucket}}
	whole, req := &discarded{httptest.NewRecorder()}, request("/")
	if n := testing.AllocsPerRun(1000, func() { w.Deny(whole, req, &v) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// discarded is a response that nobody reads.
type discarded struct{ http.ResponseWriter }

func (*discarded) WriteWhole(int, []problem.Field, []byte, time.Duration) bool { return true }
