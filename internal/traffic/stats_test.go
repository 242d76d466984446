package traffic_test

import (
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-io/penstock/internal/traffic"
)

// The stats of two nodes for the same query add up, also after they were sent as JSON: counts exactly, distinct keys
// and latencies as if one node had seen them all.
func TestStatsAddUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newNode(t, document)
		time.Sleep(20 * time.Second)
		b := newNode(t, document)
		for i, n := range []*node{a, b} {
			for range 3 {
				n.call(t, "path=/login", "ip=everywhere")
				n.call(t, "path=/login", "ip=only-"+string(rune('a'+i)))
				n.call(t, "path=/search", "user=u1")
			}
			n.Took(time.Duration(i+1) * time.Millisecond)
			n.StoreTook(time.Millisecond, i == 1)
		}
		time.Sleep(time.Second)
		q := traffic.Last(time.Now(), time.Minute)
		sum, other := a.Count(q), traffic.Stats{}
		text, err := json.Marshal(b.Count(q))
		if err == nil {
			err = json.Unmarshal(text, &other)
		}
		if err != nil {
			t.Fatal(err)
		}
		sum.Add(&other)
		if sum.Total.Allowed != 10 || sum.Total.Denied != 8 || len(sum.Series) != 12 || sum.Series[11].Allowed+sum.Series[11].Denied != 18 {
			t.Errorf("in all %+v, %+v", sum.Total, sum.Series)
		}
		if sum.Decisions.Count() != 2 || sum.Decisions.Percentile(99) < 1900*time.Microsecond || sum.StoreTotal != (traffic.StoreCounts{Operations: 2, Failed: 1}) {
			t.Errorf("%d decisions, p99 %v, of the store %+v", sum.Decisions.Count(), sum.Decisions.Percentile(99), sum.StoreTotal)
		}
		if !sum.Since.Equal(a.Count(q).Since) {
			t.Errorf("since %v, the first node began %v", sum.Since, a.Count(q).Since)
		}
		for _, r := range sum.Rules {
			if r.Rule == "login" && (r.Keys.Count() != 3 || len(r.Top) != 3 || r.Top[0].Key[0].Value != "everywhere" || r.Top[0].Denied != 4) {
				t.Errorf("%d different keys, top %+v", r.Keys.Count(), r.Top)
			}
			if r.Rule == "tried" && r.Total.Denied != 0 {
				t.Errorf("a shadow rule denies %+v", r)
			}
		}
	})
}

// Queries that cannot be answered are recognised: another node may have sent them.
func TestValid(t *testing.T) {
	at := time.Date(2026, 1, 31, 3, 0, 0, 0, time.UTC)
	good := traffic.Query{From: at, To: at.Add(time.Minute), Step: 5 * time.Second}
	if !good.Valid() {
		t.Error("a minute is invalid")
	}
	for what, change := range map[string]func(*traffic.Query){
		"no step":        func(q *traffic.Query) { q.Step = 0 },
		"a small step":   func(q *traffic.Query) { q.Step = time.Second },
		"an odd step":    func(q *traffic.Query) { q.Step = 7 * time.Second },
		"backwards":      func(q *traffic.Query) { q.From, q.To = q.To, q.From },
		"between slots":  func(q *traffic.Query) { q.From = q.From.Add(time.Second) },
		"very many":      func(q *traffic.Query) { q.To = q.To.Add(24 * time.Hour) },
		"an empty query": func(q *traffic.Query) { *q = traffic.Query{} },
	} {
		q := good
		if change(&q); q.Valid() {
			t.Errorf("%s is valid", what)
		}
	}
}
