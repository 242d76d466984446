package section

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/bench/lab"
	"github.com/penstock-io/penstock/bench/report"
	"github.com/penstock-io/penstock/memstore"
	"github.com/penstock-io/penstock/storage"
)

// A guard is a kind of request.
type guard struct {
	name  string
	calls int // for each subject
	group storage.Group
}

// plain is the reference for the others: one limit, no guards.
const plain = "one limit"

func guards() []guard {
	charge := func(l penstock.Limit) []algorithm.Charge {
		return []algorithm.Charge{{Meter: l.MustCompile(), Cost: 1}}
	}
	roomyLimit := penstock.Limit{Algorithm: penstock.TokenBucket, Count: 1_000_000_000, Window: time.Minute}
	limit := charge(roomyLimit)
	tight := charge(penstock.Limit{Algorithm: penstock.TokenBucket, Count: 1, Window: time.Hour})
	leases := charge(penstock.Limit{Algorithm: penstock.Concurrency, Count: algorithm.MaxLog, Window: time.Hour})
	var many []algorithm.Charge
	for i := range storage.MaxCharges {
		roomyLimit.Ordinal = uint8(i)
		many = append(many, charge(roomyLimit)...)
	}
	penalty := lab.Must(algorithm.PenaltyTerms{After: 2, Within: time.Hour, Bans: []time.Duration{time.Hour}, ForgiveAfter: 24 * time.Hour}.Compile())
	dedup := lab.Must(algorithm.DedupTerms{TTL: time.Hour, MaxReplays: 1, Budget: 1000, Beside: penstock.Limit{Algorithm: penstock.FixedWindow, Window: time.Hour}}.Compile())
	return []guard{
		{plain, 1, storage.Group{Charges: limit}},
		{"with a penalty, no strikes", 1, storage.Group{Charges: limit, Penalty: penalty}},
		{"with a strike", 2, storage.Group{Charges: tight, Penalty: penalty}},
		{"banned", 3, storage.Group{Charges: tight, Penalty: penalty}},
		{"with an id", 1, storage.Group{Charges: limit, Dedup: dedup}},
		{"reserved", 1, storage.Group{Charges: limit, Reserve: time.Hour}},
		{"a lease", 1, storage.Group{Charges: leases}},
		{"penalty, id and reserved", 1, storage.Group{Charges: limit, Penalty: penalty, Dedup: dedup, Reserve: time.Hour}},
		{"16 limits", 1, storage.Group{Charges: many}},
		{"16 limits, reserved", 1, storage.Group{Charges: many, Reserve: time.Hour}},
	}
}

// Guards measures the features around a charge: how many bytes a store keeps for a request with a penalty, an id, a
// reservation or a permit, and what these cost a decision. The bytes are what a client can make a store keep.
func Guards(b *lab.Bench) report.Section {
	server, keys := b.Redis(), b.Size(100_000)
	bytes := report.NewTable(fmt.Sprintf("Bytes that a subject takes after its first call, of %s subjects", report.Figure(float64(keys))),
		report.Less.In("B", "memory", "Redis")).Against(plain)
	for _, g := range guards() {
		b.Step("weigh %s", g.name)
		b.Scope(func() {
			memory := b.Memory(memstore.Options{MaxBytes: max(48<<20, int64(keys)*2048)})
			before := memory.Stats().Bytes
			lab.Check(g.fill(b, memory, keys))
			bytes.Add(g.name, report.Ours, 0, float64(memory.Stats().Bytes-before)/float64(keys))
		})
		bytes.Add(g.name, report.Ours, 1, server.BytesPerKey(b, keys, func(n int) { lab.Check(g.fill(b, b.Store(server.Addr), n)) }))
	}
	rates := report.NewTable("Decisions a second: one caller in memory, 64 callers on Redis", report.More.In("/s", "memory", "Redis")).Against(plain)
	for range b.Repeat {
		for _, g := range guards() {
			b.Step("decide %s", g.name)
			server.Command("FLUSHALL", "SYNC")
			b.Scope(func() {
				rates.Add(g.name, report.Ours, 0, g.rate(b, b.Memory(memstore.Options{}), 1, keys), g.rate(b, b.Store(server.Addr), 64, keys))
			})
		}
	}
	return report.Section{Name: "guards", Title: "What stands around a charge", Tables: []*report.Table{bytes, rates}}
}

// fill sends the requests for that many keys, from 64 goroutines.
func (g guard) fill(ctx context.Context, store penstock.Store, keys int) error {
	const callers = 64
	return lab.Parallel(callers, func(c int) error {
		take := g.caller(ctx, store, c)
		for i := c; i < keys; i += callers {
			for range g.calls {
				if err := take(i); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// caller returns what sends requests that are all different: another id, another nonce.
func (g guard) caller(ctx context.Context, store penstock.Store, i int) func(key int) error {
	ticket, out, number := storage.Ticket{Groups: []storage.Group{g.group}}, storage.Outcome{}, uint64(i+1)<<40
	group := &ticket.Groups[0]
	group.Charges = slices.Clone(group.Charges)
	return func(key int) error {
		number++
		ticket.Nonce = number
		binary.LittleEndian.PutUint64(group.Subject[4:], uint64(key)*0x9e3779b97f4a7c15)
		binary.LittleEndian.PutUint32(group.Subject[12:], uint32(key))
		binary.LittleEndian.PutUint64(group.Call[:], number*0x9e3779b97f4a7c15)
		binary.LittleEndian.PutUint64(group.Call[8:], number)
		return store.Take(ctx, &ticket, &out)
	}
}

// rate returns the decisions per second.
func (g guard) rate(b *lab.Bench, store penstock.Store, callers, keys int) float64 {
	loop := lab.ClosedLoop{Callers: callers, Duration: b.Cell(time.Second), Unwatched: true}
	return lab.Must(loop.Run(b, func(i int) func(int) error {
		take := g.caller(b, store, i)
		return func(n int) error { return take((i + n*callers) % keys) }
	})).PerSecond()
}
