package envoyratelimit

import (
	"context"
	"testing"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/engine"
	"github.com/penstock-io/penstock/internal/rls"
	"github.com/penstock-io/penstock/rules"
	"github.com/penstock-io/penstock/storage"
)

// A testEngine serves a file by an engine. The file can be replaced.
type testEngine struct {
	*Limiter
	engine *engine.Engine
	served *rules.Snapshot

	Store, Local penstock.Store
	Together     bool
	Refunds      bool
	Now          func() penstock.Instant
	Observe      func(*engine.Observation)
}

func newStand(t testing.TB, text string, s testEngine) *testEngine {
	t.Helper()
	s.serve(t, text)
	e, err := engine.New(engine.Options{Store: s.Store, Local: s.Local, Rules: &s, Now: s.Now, Observe: s.Observe, Refunds: s.Refunds})
	if err != nil {
		t.Fatal(err)
	}
	s.engine = e
	t.Cleanup(func() { _ = e.Close(context.Background()) }) // the store may be unavailable to the end
	if s.Limiter, err = NewLimiter(LimiterOptions{Engine: e, Rules: &s, Together: s.Together}); err != nil {
		t.Fatal(err)
	}
	return &s
}

func (s *testEngine) Load() *rules.Snapshot { return s.served }

func (s *testEngine) serve(t testing.TB, text string) {
	t.Helper()
	var err error
	if s.served, _, err = (Options{Together: s.Together}).Compile(file1(text), rules.Options{}); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
}

// ask asks about descriptors of one entry: a key of one letter and a value.
func (s *testEngine) ask(t testing.TB, cost int64, descriptors ...string) *rls.Answers {
	t.Helper()
	r := &rls.Request{Domain: "d"}
	for _, d := range descriptors {
		r.Descriptors = append(r.Descriptors, rls.Descriptor{Entries: entries(d[:1], d[1:]), Cost: cost})
	}
	a, err := s.Limit(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// failing is a store that answers or does not, and counts the tickets it is asked about.
type failing struct {
	penstock.Store
	err   error
	asked int
}

func (f *failing) Take(ctx context.Context, t *storage.Ticket, out *storage.Outcome) error {
	f.asked++
	if f.err != nil {
		return f.err
	}
	return f.Store.Take(ctx, t, out)
}

func (f *failing) ChargeLate(ctx context.Context, c *storage.LateCharge) error {
	if f.err != nil {
		return f.err
	}
	return f.Store.(storage.LateCharger).ChargeLate(ctx, c)
}
