package engine_test

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/engine"
	_ "github.com/penstock-io/penstock/internal/fixedseed"
	"github.com/penstock-io/penstock/memstore"
	"github.com/penstock-io/penstock/rules"
)

// A table has entitlements by attribute, value and name.
type table map[[3]string]rules.Entitlement

func (t table) Entitlement(attribute, value, name string) (rules.Entitlement, bool) {
	e, ok := t[[3]string{attribute, value, name}]
	return e, ok
}

// numberTrial is a rule with one limit whose number comes from data.
type numberTrial struct {
	key     []string
	sources []string
}

func (n *numberTrial) text() string {
	from := ""
	for i, s := range n.sources {
		if i > 0 {
			from += " | "
		}
		from += s
	}
	return fmt.Sprintf(`rules: [{name: trial, key: %v, limits: [{rate: "{%s}/1h", algorithm: fixed_window, max: 6, default: 2}]}]`, listed(n.key), from)
}

func listed(names []string) string {
	text := "["
	for i, name := range names {
		if i > 0 {
			text += ", "
		}
		text += name + "?"
	}
	return text + "]"
}

// naiveNumbers decides by the definition: which number applies, and which counter it has.
type naiveNumbers struct {
	numberTrial
	table  table
	counts map[string]int64
}

func (n *naiveNumbers) decide(call map[string]string, now penstock.Instant) (allowed bool, number int64, fallback rules.FallbackReason) {
	counter := ""
	for _, name := range n.key {
		counter += name + "=" + strconv.Quote(call[name]) + " "
	}
	number, scope, fallback := n.number(call, now)
	counter += scope
	if n.counts[counter] >= number {
		return false, number, fallback
	}
	n.counts[counter]++
	return true, number, fallback
}

func (n *naiveNumbers) number(call map[string]string, now penstock.Instant) (number int64, scope string, fallback rules.FallbackReason) {
	const most, otherwise = 6, 2
	outside := false
	for _, s := range n.sources {
		attribute, name, entitled := s, "", false
		for i := range s {
			if s[i] == '.' {
				attribute, name, entitled = s[:i], s[i+1:], true
			}
		}
		outside = outside || !slices.Contains(n.key, attribute)
		value := call[attribute]
		if value == "" {
			continue
		}
		number, counted := int64(0), value
		if entitled {
			e, ok := n.table[[3]string{attribute, value, name}]
			if !ok || e.Until != 0 && now >= e.Until {
				continue
			}
			number = e.Number
		} else {
			parsed, err := strconv.ParseUint(value, 10, 63)
			if errors.Is(err, strconv.ErrRange) {
				return otherwise, "", rules.AboveMax
			}
			if err != nil {
				return otherwise, "", rules.NotNumber
			}
			number, counted = int64(parsed), strconv.FormatUint(parsed, 10)
		}
		switch {
		case number < 0:
			return otherwise, "", rules.NotNumber
		case number > most:
			return otherwise, "", rules.AboveMax
		case outside:
			return number, s + "=" + counted, rules.NoFallback
		}
		return number, "", rules.NoFallback
	}
	return otherwise, "", rules.NoNumber
}

// Numbers from data apply as defined, and have the counters they should, also while rows change.
func TestNumbersLikeNaive(t *testing.T) {
	keys := [][]string{nil, {"user"}, {"tenant"}, {"user", "tenant"}, {"user", "quota"}, {"tenant", "plan"}}
	sources := []string{"quota", "tenant.requests", "plan.requests", "plan.exports"}
	values := map[string][]string{
		"user": {"u1", "u2"}, "tenant": {"", "acme", "globex"}, "plan": {"", "gold", "free"},
		"quota": {"", "0", "3", "003", "5", "6", "7", "-1", "1e3", "many", "99999999999999999999"},
	}
	outer := t
	rapid.Check(t, func(t *rapid.T) {
		store, err := memstore.New(memstore.Options{MaxBytes: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		trial := numberTrial{key: rapid.SampledFrom(keys).Draw(t, "key"), sources: rapid.SliceOfNDistinct(rapid.SampledFrom(sources), 1, 3, rapid.ID).Draw(t, "sources")}
		rows, now := table{}, beginning
		naive := &naiveNumbers{trial, rows, map[string]int64{}}
		var seen []rules.Fallback
		e := newEngine(outer, trial.text(), engine.Options{Store: store, Entitlements: rows, Now: func() penstock.Instant { return now }, Observe: func(o *engine.Observation) {
			seen = slices.Clone(o.Fallbacks)
		}})
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			if rapid.IntRange(0, 3).Draw(t, "change") == 0 {
				attribute := rapid.SampledFrom([]string{"tenant", "plan"}).Draw(t, "attribute")
				row := [3]string{attribute, rapid.SampledFrom(values[attribute][1:]).Draw(t, "value"), rapid.SampledFrom([]string{"requests", "exports"}).Draw(t, "name")}
				if number := rapid.Int64Range(-2, 8).Draw(t, "number"); number == -2 {
					delete(rows, row)
				} else {
					rows[row] = rules.Entitlement{Number: number, Until: beginning.Add(time.Duration(rapid.IntRange(0, 3).Draw(t, "until")) * time.Second)}
					if rapid.Bool().Draw(t, "no end") {
						rows[row] = rules.Entitlement{Number: number}
					}
				}
			}
			now = now.Add(time.Duration(rapid.IntRange(0, 200).Draw(t, "later")) * time.Millisecond)
			call, given := penstock.Call{Cost: 1}, map[string]string{}
			for _, name := range []string{"user", "tenant", "plan", "quota"} {
				if value := rapid.SampledFrom(values[name]).Draw(t, name); value != "" {
					given[name] = value
					call.Attributes = append(call.Attributes, penstock.Attribute{Name: name, Value: value})
				}
			}
			var v penstock.Verdict
			if err := e.Decide(outer.Context(), &call, &v); err != nil {
				t.Fatal(err)
			}
			allowed, number, fallback := naive.decide(given, now)
			if v.Allowed != allowed || v.Limits[0].Limit != number {
				t.Fatalf("%v: allowed %v under %d, want %v under %d", given, v.Allowed, v.Limits[0].Limit, allowed, number)
			}
			if got := fallbackOf(seen); got != fallback {
				t.Fatalf("%v: fallback %v, want %v", given, got, fallback)
			}
		}
	})
}

func fallbackOf(all []rules.Fallback) rules.FallbackReason {
	if len(all) == 0 {
		return rules.NoFallback
	}
	return all[0].Reason
}

// A reservation is settled by the number and the counters it was made with, even after the row has changed.
func TestReservationKeepsItsNumber(t *testing.T) {
	rows := table{{"plan", "gold", "tokens"}: {Number: 100}}
	now := beginning
	e := newEngine(t, `rules: [{name: tokens, key: [user], reserve: {ttl: 1m, overage: allow}, limits: [{rate: "{plan.tokens}/1h", algorithm: fixed_window, max: 1000, default: 1}]}]`,
		engine.Options{Entitlements: rows, Now: func() penstock.Instant { return now }})
	call := penstock.Call{Cost: 40, Reserve: true, Attributes: []penstock.Attribute{{Name: "user", Value: "u1"}, {Name: "plan", Value: "gold"}}}
	var v penstock.Verdict
	if err := e.Decide(t.Context(), &call, &v); err != nil || !v.Allowed {
		t.Fatalf("%v: %+v", err, v)
	}
	rows[[3]string{"plan", "gold", "tokens"}] = rules.Entitlement{Number: 50}
	if err := e.Conclude(t.Context(), &penstock.Conclusion{Reservation: v.Reservation, Verb: penstock.Settle, Cost: 45}, &v); err != nil || v.Limits[0].Used != 45 || v.Limits[0].Limit != 100 {
		t.Fatalf("%v: %+v", err, v)
	}
	call.Cost, call.Reserve = 6, false
	if err := e.Decide(t.Context(), &call, &v); err != nil || v.Allowed || v.Limits[0].Used != 45 || v.Limits[0].Limit != 50 {
		t.Fatalf("after the row has changed: %v: %+v", err, v)
	}
}

// A node that decides by itself enforces its share of a number from data.
func TestShareOfNumber(t *testing.T) {
	rows := table{{"tenant", "acme", "requests"}: {Number: 9}}
	store := &waveringStore{Store: newMemory(t)}
	store.down.Store(true)
	e := newEngine(t, `rules: [{name: shared, key: [tenant], on_store_error: {local: divided}, limits: [{rate: "{tenant.requests}/1h", algorithm: fixed_window, max: 1000, default: 1}]}]`,
		engine.Options{Entitlements: rows, Store: store, Local: newMemory(t), Nodes: func() int { return 3 }, Now: func() penstock.Instant { return beginning }})
	allowed := 0
	for range 9 {
		var v penstock.Verdict
		err := e.Decide(t.Context(), &penstock.Call{Cost: 1, Attributes: []penstock.Attribute{{Name: "tenant", Value: "acme"}}}, &v)
		if !errors.Is(err, penstock.ErrUnavailable) {
			t.Fatal(err)
		}
		if v.Allowed {
			allowed++
		}
	}
	if allowed != 3 {
		t.Errorf("%d of 9 passed on one of three nodes", allowed)
	}
}

// A node that decides by itself has its share of the budget of duplicates, too.
func TestShareOfDuplicates(t *testing.T) {
	for _, limit := range []string{`{rate: 30/1h, algorithm: fixed_window}`, `{rate: "{tenant.requests}/1h", algorithm: fixed_window, max: 1000, default: 1}`} {
		store := &waveringStore{Store: newMemory(t)}
		store.down.Store(true)
		e := newEngine(t, `rules: [{name: shared, key: [tenant], dedup: {ttl: 10s}, on_store_error: {local: divided}, limits: [`+limit+`]}]`,
			engine.Options{Entitlements: table{{"tenant", "acme", "requests"}: {Number: 30}}, Store: store, Local: newMemory(t), Nodes: func() int { return 3 }, Now: func() penstock.Instant { return beginning }})
		allowed := 0
		for i := range 60 {
			var v penstock.Verdict
			call := penstock.Call{Cost: 1, ID: strconv.Itoa(i / 2), Attributes: []penstock.Attribute{{Name: "tenant", Value: "acme"}}}
			if err := e.Decide(t.Context(), &call, &v); !errors.Is(err, penstock.ErrUnavailable) {
				t.Fatal(err)
			}
			if v.Allowed {
				allowed++
			}
		}
		if want := 10 + 1; allowed != want {
			t.Errorf("%s: %d of 60 passed on one of three nodes, want %d", limit, allowed, want)
		}
	}
}

// Clients that choose numbers cannot make a node hold more than its cache does, and every number still applies.
func TestManyNumbers(t *testing.T) {
	e := newEngine(t, `rules: [{name: many, key: [user], limits: [{rate: "{quota}/1h", algorithm: fixed_window, max: 1000000, default: 1}]}]`, engine.Options{})
	for _, round := range []int64{1, 2} {
		for number := int64(1); number <= 40_000; number += 7 {
			var v penstock.Verdict
			call := penstock.Call{Cost: 1, Attributes: []penstock.Attribute{{Name: "user", Value: strconv.FormatInt(number%97, 10)}, {Name: "quota", Value: strconv.FormatInt(number, 10)}}}
			if err := e.Decide(t.Context(), &call, &v); err != nil || v.Limits[0].Limit != number || v.Limits[0].Used != min(round, number) {
				t.Fatalf("%v: %+v", err, v.Limits)
			}
		}
	}
}
