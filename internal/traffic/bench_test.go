package traffic_test

import (
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/engine"
	"github.com/penstock-io/penstock/internal/traffic"
	"github.com/penstock-io/penstock/memstore"
)

// BenchmarkDecide measures the cost of remembering for a decision in memory, the cheapest kind.
func BenchmarkDecide(b *testing.B) {
	for _, remembering := range []bool{false, true} {
		b.Run("remembering="+strconv.FormatBool(remembering), func(b *testing.B) {
			store, err := memstore.New(memstore.Options{MaxBytes: 64 << 20})
			if err != nil {
				b.Fatal(err)
			}
			defer store.Close()
			o := engine.Options{Store: store, Rules: engine.Fixed(compile(b, document))}
			if remembering {
				remembered := traffic.New()
				defer remembered.Close()
				o.Observe = remembered.Observe
			}
			e, err := engine.New(o)
			if err != nil {
				b.Fatal(err)
			}
			var callers atomic.Int64
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				var v penstock.Verdict
				c := penstock.Call{Cost: 1, Attributes: []penstock.Attribute{{Name: "path", Value: "/login"}, {Name: "ip"}}}
				users := make([]string, 50_000)
				for i := range users {
					users[i] = strconv.Itoa(int(callers.Add(1)))
				}
				for i := 0; pb.Next(); i++ {
					c.Attributes[1].Value = users[i%len(users)]
					if err := e.Decide(b.Context(), &c, &v); err != nil {
						b.Error(err)
					}
				}
			})
		})
	}
}
