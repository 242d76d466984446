package rls_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/engine/denycache"
	"github.com/penstock-io/penstock/internal/redistest"
	"github.com/penstock-io/penstock/internal/rls"
	"github.com/penstock-io/penstock/memstore"
	"github.com/penstock-io/penstock/redisstore"
	"github.com/penstock-io/penstock/storetest"
)

// BenchmarkFile measures a request under a file of envoyproxy/ratelimit, without gRPC: in memory, and on Redis as the
// server sets it up, with a deny cache in front and a local store for fallback.
func BenchmarkFile(b *testing.B) {
	const file = `
domain: mesh
descriptors:
  - {key: allowed, rate_limit: {unit: year, requests_per_unit: 4000000000}}
  - {key: denied, rate_limit: {unit: year, requests_per_unit: 0}}
  - key: tenant
    descriptors: [{key: path, value: /v1/*, rate_limit: {unit: year, requests_per_unit: 4000000000}}]
`
	one := func(key, value string) rls.Descriptor {
		return rls.Descriptor{Entries: []penstock.Attribute{{Name: key, Value: value}}, Cost: 1}
	}
	nested := rls.Descriptor{Entries: []penstock.Attribute{{Name: "tenant", Value: "t"}, {Name: "path", Value: "/v1/users"}}, Cost: 1}
	override := one("allowed", "u")
	override.Limit = &rls.Override{Count: 4_000_000_000, Window: 365 * 24 * time.Hour}
	stores := []struct {
		name string
		open func(testing.TB) testServer
	}{
		{"memory", func(t testing.TB) testServer {
			return testServer{Store: newMemory(t)}
		}},
		{"redis", func(t testing.TB) testServer {
			shared, err := denycache.New(storetest.Full(onRedis(redisstore.Options{Addresses: []string{redistest.Start(t).Addr}})(t)), denycache.Options{})
			if err != nil {
				t.Fatal(err)
			}
			local, err := memstore.New(memstore.Options{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { local.Close() })
			return testServer{Store: shared, Local: local}
		}},
	}
	for _, s := range stores {
		b.Run(s.name, func(b *testing.B) {
			limiter := byFileNow(b, file, s.open(b))
			for _, c := range []struct {
				name        string
				descriptors []rls.Descriptor
			}{
				{"allowed", []rls.Descriptor{one("allowed", "u")}},
				{"denied", []rls.Descriptor{one("denied", "u")}},
				{"nested", []rls.Descriptor{nested}},
				{"override", []rls.Descriptor{override}},
				{"none", []rls.Descriptor{one("other", "u")}},
				{"four", []rls.Descriptor{one("allowed", "a"), one("allowed", "b"), nested, one("other", "u")}},
			} {
				r := &rls.Request{Domain: "mesh", Descriptors: c.descriptors}
				b.Run(c.name, func(b *testing.B) {
					b.ReportAllocs()
					b.RunParallel(func(p *testing.PB) {
						for p.Next() {
							if _, err := limiter.Limit(b.Context(), r); err != nil {
								b.Error(err)
								return
							}
						}
					})
				})
			}
			r := &rls.Request{Domain: "mesh", Descriptors: []rls.Descriptor{one("denied", "")}}
			b.Run("denied, many clients", func(b *testing.B) {
				b.ReportAllocs()
				for i := range b.N {
					r.Descriptors[0].Entries[0].Value = fmt.Sprint(i % 1000)
					if _, err := limiter.Limit(b.Context(), r); err != nil {
						b.Fatal(err)
					}
				}
			})
		})
	}
}
