package engine_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/attribute"
	"github.com/penstock-io/penstock/engine"
	"github.com/penstock-io/penstock/internal/bounds"
	"github.com/penstock-io/penstock/rules"
	"github.com/penstock-io/penstock/storage"
)

// mentions reports which of some texts an error lacks.
func mentions(t *testing.T, err error, wants ...string) {
	t.Helper()
	if !errors.Is(err, penstock.ErrInvalid) {
		t.Errorf("not invalid: %v", err)
	}
	for _, want := range wants {
		if !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("the error does not say %q: %v", want, err)
		}
	}
}

// All errors are reported at once, and the request is denied.
func TestInvalidCall(t *testing.T) {
	e := newEngine(t, `rules: []`, engine.Options{})
	many := make([]penstock.Attribute, 0, bounds.Attributes+1)
	for i := range bounds.Attributes {
		many = append(many, penstock.Attribute{Name: fmt.Sprintf("a%d", i)})
	}
	many[3] = penstock.Attribute{Name: ""}
	many[4] = penstock.Attribute{Name: strings.Repeat("n", bounds.AttributeName+1)}
	many[5].Value = strings.Repeat("v", bounds.AttributeValue+1)
	many[7].Name = many[6].Name
	many = append(many, penstock.Attribute{Name: "one too many"})
	v := penstock.Verdict{Allowed: true}
	mentions(t, e.Decide(t.Context(), &penstock.Call{
		Domain: strings.Repeat("d", bounds.Domain+1), Attributes: many, Cost: algorithm.MaxCount + 1,
		ID: strings.Repeat("i", bounds.CallID+1), MaxDelay: -time.Second, Reserve: true, TTL: storage.MaxReserve + 1,
	}, &v), "domain of 256 bytes", "cost 1000000000001 is not from 0", "max delay -1s is negative", "ttl 24h0m0.000000001s is not from", "id of 8193 bytes",
		"257 attributes; at most 256", "attribute 3: a name of 0 bytes", "attribute 4: a name of 129 bytes", `attribute "a5": a value of 8193 bytes`, `attribute "a6" is there twice`)
	if v.Allowed || v.RulesVersion != 1 || v.Now == 0 {
		t.Errorf("the verdict is %+v", v)
	}
}

// What is just within bounds is valid.
func TestLargestCall(t *testing.T) {
	e := newEngine(t, `rules: [{name: all, key: [], reserve: {ttl: 1s}, limits: [{rate: 1000000000000/1h, algorithm: fixed_window}]}]`, engine.Options{})
	c := penstock.Call{
		Domain: penstock.DefaultDomain, Cost: algorithm.MaxCount, ID: strings.Repeat("i", bounds.CallID), Reserve: true, TTL: storage.MaxReserve,
		Attributes: []penstock.Attribute{{Name: strings.Repeat("n", bounds.AttributeName), Value: strings.Repeat("v", bounds.AttributeValue)}},
	}
	for i := 1; i < bounds.Attributes; i++ {
		c.Attributes = append(c.Attributes, penstock.Attribute{Name: fmt.Sprintf("a%d", i)})
	}
	var v penstock.Verdict
	if err := e.Decide(t.Context(), &c, &v); err != nil || !v.Allowed || v.Reservation == "" {
		t.Errorf("%v: %+v", err, v)
	}
}

func TestInvalidConclusion(t *testing.T) {
	e := newEngine(t, `rules: []`, engine.Options{})
	var v penstock.Verdict
	err := e.Conclude(t.Context(), &penstock.Conclusion{Reservation: "made up", Verb: 9, Cost: -1, TTL: time.Nanosecond}, &v)
	mentions(t, err, `reservation "made up": no such reservation`, "Verb(9) must be settle, release or renew", "cost -1 is not from 0 to", "ttl 1ns is not from 1ms to 24h0m0s")
	if v.Allowed {
		t.Error("the verdict allows it")
	}
}

func TestInvalidOptions(t *testing.T) {
	_, err := engine.New(engine.Options{})
	mentions(t, err, "store: none given", "rules: none given")
	_, err = engine.New(engine.Options{Store: newMemory(t), Rules: engine.Fixed(nil)})
	mentions(t, err, "rules: none given")
}

// A snapshot that no store could decide by, which the compiler never produces, gives an error about the rules
// and a denial.
func TestUndecidableRules(t *testing.T) {
	s := compile(t, `rules: [{name: twice, key: [], limits: [1/1m]}]`)
	s.Rules[0].Limits = append(s.Rules[0].Limits, s.Rules[0].Limits[0])
	s.Rules[0].Policies = []string{"a", "b"}
	e := newEngine(t, "", engine.Options{Rules: engine.Fixed(s)})
	var v penstock.Verdict
	mentions(t, e.Decide(t.Context(), &penstock.Call{Cost: 1}, &v), "twice")
	if v.Allowed {
		t.Error("the verdict allows it")
	}
}

func TestSourcesAreTheRules(t *testing.T) {
	s := compileWith(t, "attributes: {user: {header: X-User}}\nrules: []", rules.Options{})
	e := newEngine(t, "", engine.Options{Rules: engine.Fixed(s)})
	if got := e.Sources(); len(got) != 1 || got[0] != (attribute.Source{Attribute: "user", Header: "X-User"}) {
		t.Errorf("the sources are %+v", got)
	}
}
