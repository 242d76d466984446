package connlimit

import (
	"math/rand/v2"
	"slices"
	"testing"
)

func (q *queue) len() (n int) {
	for c := q.first; c != nil; c = q.links(c).next {
		n++
	}
	return n
}

// A queue keeps its order, forwards and backwards, whatever is removed.
func TestQueue(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	q, other := queue{links: inAll}, queue{links: inClients}
	conns := make([]conn, 6)
	var want []*conn
	for range 10_000 {
		c := &conns[random.IntN(len(conns))]
		if i := slices.Index(want, c); i >= 0 {
			q.remove(c)
			other.remove(c)
			want = slices.Delete(want, i, i+1)
		} else {
			q.push(c)
			other.push(c)
			want = append(want, c)
		}
		for _, q := range []*queue{&q, &other} {
			var forwards, backwards []*conn
			for c := q.first; c != nil; c = q.links(c).next {
				forwards = append(forwards, c)
			}
			for c := q.last; c != nil; c = q.links(c).previous {
				backwards = append(backwards, c)
			}
			slices.Reverse(backwards)
			if !slices.Equal(forwards, want) || !slices.Equal(backwards, want) {
				t.Fatalf("%d forwards, %d backwards, want %d", len(forwards), len(backwards), len(want))
			}
		}
	}
}
