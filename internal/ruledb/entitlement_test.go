package ruledb

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/racetest"
)

func row(attribute, value, name string, number int64) Entitlement {
	return Entitlement{EntitlementKey: EntitlementKey{attribute, value, name}, Number: number}
}

func setRows(t *testing.T, db *DB, rows ...Entitlement) EntitlementResult {
	t.Helper()
	result, err := db.SaveEntitlements(t.Context(), EntitlementChange{Set: rows, Author: "ann"})
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// known are rows as a node that follows the changes knows them.
type known struct {
	rows map[EntitlementKey]storedNumber
	last int64
}

func (k *known) follow(t *testing.T, db *DB, limit int) {
	t.Helper()
	for {
		c, err := db.EntitlementsSince(t.Context(), k.last, limit)
		if err != nil {
			t.Fatal(err)
		}
		if c.Reset {
			k.rows, k.last = nil, 0
			continue
		}
		if k.rows == nil {
			k.rows = map[EntitlementKey]storedNumber{}
		}
		for _, e := range c.Rows {
			if k.rows[e.EntitlementKey] = (storedNumber{e.Number, e.Until}); e.Deleted {
				delete(k.rows, e.EntitlementKey)
			}
		}
		if k.last = c.Last; !c.More {
			return
		}
	}
}

// all returns all rows, page by page.
func allRows(t *testing.T, db *DB, limit int) map[EntitlementKey]storedNumber {
	t.Helper()
	all := map[EntitlementKey]storedNumber{}
	q := EntitlementQuery{Limit: limit}
	for {
		page, err := db.Entitlements(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range page {
			if e.Author != "ann" || e.At.IsZero() {
				t.Errorf("changed by %q at %v", e.Author, e.At)
			}
			all[e.EntitlementKey] = storedNumber{e.Number, micros(e.Until)}
		}
		if len(page) < limit {
			return all
		}
		q.After = page[limit-1].EntitlementKey
	}
}

// Random changes are what a naive map says, for who lists the rows and for who follows the changes.
func TestEntitlementsLikeNaive(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, racetest.OneGoroutine)
	each(t, func(t *testing.T, source string) {
		db := open(t, source)
		random := rand.New(rand.NewPCG(1, 2))
		naive, follower, late := map[EntitlementKey]storedNumber{}, &known{}, &known{}
		for step := range 30 {
			c := EntitlementChange{Author: "ann"}
			var want EntitlementResult
			used := map[EntitlementKey]bool{}
			for range random.IntN(40) {
				k := EntitlementKey{[]string{"tenant", "plan"}[random.IntN(2)], fmt.Sprint("t", random.IntN(30)), []string{"requests", "exports"}[random.IntN(2)]}
				if used[k] {
					continue
				}
				used[k] = true
				old, exists := naive[k]
				if random.IntN(4) == 0 {
					c.Delete = append(c.Delete, k)
					if delete(naive, k); exists {
						want.Deleted++
					} else {
						want.Unchanged++
					}
					continue
				}
				e := Entitlement{EntitlementKey: k, Number: random.Int64N(3)}
				if random.IntN(2) == 0 {
					e.Until = time.Unix(2_000_000_000, 0)
				}
				c.Set = append(c.Set, e)
				now := storedNumber{e.Number, micros(e.Until)}
				switch naive[k] = now; {
				case !exists:
					want.Added++
				case old == now:
					want.Unchanged++
				default:
					want.Changed++
				}
			}
			result, err := db.SaveEntitlements(t.Context(), c)
			if err != nil || result != want {
				t.Fatalf("step %d: %v: %+v, want %+v", step, err, result, want)
			}
			if follower.follow(t, db, 7); step%10 == 9 {
				late.follow(t, db, 1000)
			}
			if diff := cmp.Diff(naive, follower.rows, cmp.AllowUnexported(storedNumber{})); diff != "" && len(naive) > 0 {
				t.Fatalf("step %d (-want +got):\n%s", step, diff)
			}
		}
		for name, got := range map[string]map[EntitlementKey]storedNumber{"listed": allRows(t, db, 9), "late": late.rows} {
			if diff := cmp.Diff(naive, got, cmp.AllowUnexported(storedNumber{})); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		}
		var stored int
		if err := db.sql.QueryRowContext(t.Context(), `SELECT stored FROM entitlement_changes`).Scan(&stored); err != nil || stored != len(naive) {
			t.Errorf("%v: %d rows are counted, %d exist", err, stored, len(naive))
		}
	})
}

// A node that follows the changes misses none, however many clients write at once.
func TestEntitlementsOfManyWriters(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, source string) {
		db := open(t, source)
		var writers sync.WaitGroup
		errs := make([]error, 4)
		done := make(chan struct{})
		for i := range errs {
			writers.Go(func() {
				for n := range 20 {
					if _, err := db.SaveEntitlements(t.Context(), EntitlementChange{Author: "ann", Set: []Entitlement{row("tenant", fmt.Sprint(i, "-", n), "requests", int64(n)), row("plan", "gold", "requests", int64(i*100+n))}}); err != nil {
						errs[i] = err
						return
					}
				}
			})
		}
		go func() { writers.Wait(); close(done) }()
		k := &known{}
		for running := true; running; {
			select {
			case <-done:
				running = false
			default:
			}
			k.follow(t, db, 3)
		}
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(allRows(t, db, 1000), k.rows, cmp.AllowUnexported(storedNumber{})); diff != "" || len(k.rows) != 81 {
			t.Errorf("%d rows (-want +got):\n%s", len(k.rows), diff)
		}
	})
}

// Rows that were deleted long ago are removed. A node that missed the deletion reads everything again.
func TestDeletedEntitlementsArePurged(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, source string) {
		db := open(t, source)
		setRows(t, db, row("tenant", "a", "requests", 1), row("tenant", "b", "requests", 2))
		behind := &known{}
		behind.follow(t, db, 10)
		if _, err := db.SaveEntitlements(t.Context(), EntitlementChange{Author: "ann", Delete: []EntitlementKey{{"tenant", "a", "requests"}}}); err != nil {
			t.Fatal(err)
		}
		exec(t, db, `UPDATE entitlements SET at = $1 WHERE number IS NULL`, time.Now().Add(-2*keepDeleted).UnixMicro())
		setRows(t, db, row("tenant", "c", "requests", 3))
		var rows int
		if err := db.sql.QueryRowContext(t.Context(), `SELECT count(*) FROM entitlements`).Scan(&rows); err != nil || rows != 2 {
			t.Errorf("%v: %d rows are stored", err, rows)
		}
		behind.follow(t, db, 10)
		if diff := cmp.Diff(allRows(t, db, 10), behind.rows, cmp.AllowUnexported(storedNumber{})); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func TestEntitlementQueries(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, source string) {
		db := open(t, source)
		setRows(t, db, row("tenant", "acme", "requests", 1), row("tenant", "acme", "exports", 2), row("tenant", "acme-eu", "requests", 3), row("plan", "acme", "requests", 4), row("tenant", "ärger", "requests", 5), row("tenant", "Zoo", "requests", 6))
		for _, test := range []struct {
			q    EntitlementQuery
			want []int64
		}{
			{EntitlementQuery{}, []int64{4, 6, 2, 1, 3, 5}},
			{EntitlementQuery{Attribute: "tenant", Value: "acme"}, []int64{2, 1}},
			{EntitlementQuery{Attribute: "tenant", Prefix: "acme"}, []int64{2, 1, 3}},
			{EntitlementQuery{Prefix: "ä"}, []int64{5}},
			{EntitlementQuery{Attribute: "user"}, nil},
			{EntitlementQuery{After: EntitlementKey{"tenant", "acme", "requests"}}, []int64{3, 5}},
		} {
			test.q.Limit = 100
			page, err := db.Entitlements(t.Context(), test.q)
			var got []int64
			for _, e := range page {
				got = append(got, e.Number)
			}
			if err != nil || !slices.Equal(got, test.want) {
				t.Errorf("%+v: %v: %v, want %v", test.q, err, got, test.want)
			}
		}
	})
}

// Every change is in the audit log, with the numbers before and after.
func TestEntitlementsAreAudited(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, racetest.OneGoroutine)
	each(t, func(t *testing.T, source string) {
		db := open(t, source)
		setRows(t, db, row("tenant", "acme", "requests", 100))
		e := row("tenant", "acme", "requests", 500)
		e.Until = time.Unix(2_000_000_000, 0)
		setRows(t, db, e)
		setRows(t, db, e) // changes nothing
		var many []Entitlement
		for i := range 1200 {
			many = append(many, row("tenant", fmt.Sprint("t", i), "requests", 1))
		}
		if _, err := db.SaveEntitlements(t.Context(), EntitlementChange{Author: "bob", Note: "import of billing.csv", Set: many}); err != nil {
			t.Fatal(err)
		}
		events, err := db.Audit(t.Context(), 0, 10)
		if err != nil || len(events) != 3 {
			t.Fatalf("%v: %+v", err, events)
		}
		for i, want := range []string{"import of billing.csv: tenant=\"t0\" requests: none → 1; ", `tenant="acme" requests: 100 → 500 until 2033-05-18T03:33:20Z`, `tenant="acme" requests: none → 100`} {
			if e := events[i]; !strings.HasPrefix(e.Detail, want) || e.Action != ActionEntitlements {
				t.Errorf("%+v, want %s", e, want)
			}
		}
		if !strings.HasSuffix(events[0].Detail, "and 1188 more") || events[0].Actor != "bob" {
			t.Errorf("%+v", events[0])
		}
	})
}

func TestInvalidEntitlements(t *testing.T) {
	t.Parallel()
	db := open(t, newSQLiteSource(t))
	late := row("tenant", "a", "r", 1)
	late.Until = time.Unix(0, 0)
	for name, test := range map[string]struct {
		rows []Entitlement
		want string
	}{
		"negative":    {[]Entitlement{row("tenant", "a", "r", -5)}, "number -5"},
		"too large":   {[]Entitlement{row("tenant", "a", "r", 1_000_000_000_001)}, "number 1000000000001"},
		"attribute":   {[]Entitlement{row("ten ant", "a", "r", 1)}, `invalid attribute "ten ant"`},
		"value":       {[]Entitlement{row("tenant", "a\nb", "r", 1)}, `invalid value "a\nb"`},
		"empty value": {[]Entitlement{row("tenant", "", "r", 1)}, `invalid value ""`},
		"long value":  {[]Entitlement{row("tenant", strings.Repeat("x", 256), "r", 1)}, "1 to 255 bytes"},
		"name":        {[]Entitlement{row("tenant", "a", "r.s", 1)}, `invalid limit "r.s"`},
		"twice":       {[]Entitlement{row("tenant", "a", "r", 1), row("tenant", "a", "r", 2)}, "twice"},
		"until":       {[]Entitlement{late}, "must be from 1970"},
		"too many":    {make([]Entitlement, MaxEntitlementChange+1), "at most 10000"},
	} {
		_, err := db.SaveEntitlements(t.Context(), EntitlementChange{Set: test.rows, Author: "ann"})
		if !errors.Is(err, penstock.ErrInvalid) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	exec(t, db, `UPDATE entitlement_changes SET stored = $1`, MaxEntitlements)
	if _, err := db.SaveEntitlements(t.Context(), EntitlementChange{Set: []Entitlement{row("tenant", "a", "r", 1)}, Author: "ann"}); !errors.Is(err, penstock.ErrInvalid) || !strings.Contains(err.Error(), "5000001 rows, at most 5000000") {
		t.Errorf("one row too many: %v", err)
	}
	if rows := allRows(t, db, 10); len(rows) != 0 {
		t.Errorf("refused rows were saved: %v", rows)
	}
}
