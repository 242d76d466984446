package entitlement

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/ruledb"
	"github.com/penstock-io/penstock/rules"
)

func changed(attribute, value, name string, number int64) ruledb.ChangedEntitlement {
	return ruledb.ChangedEntitlement{EntitlementKey: ruledb.EntitlementKey{Attribute: attribute, Value: value, Name: name}, Number: number, Deleted: number < 0}
}

// A table is a map from attribute, value and name to numbers.
func TestTableLikeNaive(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	table, naive := NewTable(), map[ruledb.EntitlementKey]rules.Entitlement{}
	names := []string{"a", "b", "ab", "", "a\x00b", "\x00"}
	pick := func() ruledb.EntitlementKey {
		return ruledb.EntitlementKey{Attribute: names[random.IntN(3)], Value: names[random.IntN(3)] + fmt.Sprint(random.IntN(50)), Name: names[random.IntN(3)]}
	}
	for range 3000 {
		e := ruledb.ChangedEntitlement{EntitlementKey: pick(), Number: random.Int64N(5), Until: random.Int64N(3), Deleted: random.IntN(3) == 0}
		table.apply(table.parts.Load(), []ruledb.ChangedEntitlement{e})
		if naive[e.EntitlementKey] = (rules.Entitlement{Number: e.Number, Until: penstock.Instant(e.Until)}); e.Deleted {
			delete(naive, e.EntitlementKey)
		}
		k := pick()
		got, ok := table.Entitlement(k.Attribute, k.Value, k.Name)
		want, exists := naive[k]
		if ok != exists || ok && got != want {
			t.Fatalf("%v: %+v %v, want %+v %v", k, got, ok, want, exists)
		}
	}
	if table.Len() != len(naive) {
		t.Errorf("%d rows, want %d", table.Len(), len(naive))
	}
	for _, k := range [][3]string{{"a", "b", "a"}, {"ab", "", "a"}, {"a\x00b", "a", "\x00"}} {
		if _, ok := table.Entitlement(k[0], k[1], k[2]); ok {
			t.Errorf("%q has a number", k)
		}
	}
}

// A million rows fit, a lookup among them does not allocate, and the log says how much memory each takes. The short
// form has fewer.
func TestMillionRows(t *testing.T) {
	rows := 1_000_000
	if testing.Short() {
		rows = 100_000
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	table := NewTable()
	page := make([]ruledb.ChangedEntitlement, 1000)
	for at := 0; at < rows; at += len(page) {
		for i := range page {
			page[i] = changed("tenant", fmt.Sprint("tenant-", at+i), "requests", int64(at+i))
		}
		table.apply(table.parts.Load(), page)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	t.Logf("%d rows, %.1f bytes a row", table.Len(), float64(int64(after.HeapAlloc)-int64(before.HeapAlloc))/float64(rows))
	if table.Len() != rows {
		t.Errorf("%d rows, want %d", table.Len(), rows)
	}
	for n := range int64(1000) {
		n *= int64(rows / 1000)
		if e, ok := table.Entitlement("tenant", fmt.Sprint("tenant-", n), "requests"); !ok || e.Number != n {
			t.Fatalf("row %d: %+v %v", n, e, ok)
		}
	}
	value, unknown := "tenant-77777", "tenant-x"
	if got := testing.AllocsPerRun(100, func() {
		table.Entitlement("tenant", value, "requests")
		table.Entitlement("tenant", unknown, "requests")
	}); got != 0 {
		t.Errorf("%v allocations for a lookup", got)
	}
}

func BenchmarkLookup(b *testing.B) {
	table := NewTable()
	for i := range 1_000_000 {
		table.apply(table.parts.Load(), []ruledb.ChangedEntitlement{changed("tenant", fmt.Sprint("tenant-", i), "requests", int64(i))})
	}
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			table.Entitlement("tenant", "tenant-77777", "requests")
		}
	})
}
