package envoyratelimit

import (
	"context"
	"errors"
	"testing"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/rls"
)

// broken is a store that does not answer.
type broken struct{}

func (broken) Take(context.Context, *penstock.Ticket, *penstock.Outcome) error {
	return penstock.ErrUnavailable
}

func TestObserve(t *testing.T) {
	c, _, err := Load(file1("domain: d\ndescriptors: [{key: a, rate_limit: {unit: hour, requests_per_unit: 0}}]"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	type seen struct {
		key, rule string
		allowed   bool
		quality   penstock.Quality
		failed    bool
	}
	var got []seen
	o := LimiterOptions{
		Config: func() *Config { return c }, Store: broken{}, Local: newStore(t), Now: at,
		Observe: func(c *penstock.Call, v *penstock.Verdict, err error) {
			got = append(got, seen{c.Attributes[0].Name, v.Rule, v.Allowed, v.Quality, errors.Is(err, penstock.ErrUnavailable)})
		},
	}
	r := &rls.Request{Domain: "d", Descriptors: []rls.Descriptor{
		{Entries: entries("a", "1"), Cost: 1}, {Entries: entries("b", "1"), Cost: 1},
	}}
	for _, store := range []penstock.Store{broken{}, newStore(t)} {
		o.Store = store
		l, err := NewLimiter(o)
		if err != nil {
			t.Fatal(err)
		}
		if a, err := l.Limit(t.Context(), r); err != nil || a.Allowed {
			t.Errorf("%v, %v", a, err)
		}
	}
	want := []seen{
		{"a", "d.a", false, penstock.QualityLocal, true}, {"b", "", true, penstock.QualityExact, true},
		{"a", "d.a", false, penstock.QualityExact, false}, {"b", "", true, penstock.QualityExact, false},
	}
	if len(got) != len(want) {
		t.Fatalf("got %v, want %v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("%d: got %+v, want %+v", i, got[i], want[i])
		}
	}
}

func TestNeedsAStore(t *testing.T) {
	if _, err := NewLimiter(LimiterOptions{}); err == nil {
		t.Error("a limiter without a store")
	}
}

// What a descriptor brings cannot make a limit that no store knows.
func TestImpossibleOverride(t *testing.T) {
	for _, together := range []bool{false, true} {
		l, err := NewLimiter(LimiterOptions{Store: newStore(t), Together: together})
		if err != nil {
			t.Fatal(err)
		}
		_, err = l.Limit(t.Context(), &rls.Request{Domain: "d", Descriptors: []rls.Descriptor{
			{Entries: entries("a", "1"), Cost: 1, Limit: &rls.Override{Count: 1, Window: 1}},
		}})
		if !errors.Is(err, penstock.ErrInvalid) {
			t.Errorf("together %v: %v", together, err)
		}
	}
}
