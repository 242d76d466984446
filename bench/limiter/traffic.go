package limiter

import (
	"math/bits"
	"math/rand/v2"

	"github.com/penstock-io/penstock/bench/lab"
)

// A Pattern is how requests are distributed over keys.
type Pattern string

const (
	Hot     Pattern = "hot"     // one key
	Uniform Pattern = "uniform" // all keys equally
	Zipf    Pattern = "zipf"    // mostly few keys, with exponent 1.1
)

// traffic is the keys of successive requests, contiguous in memory. A service has just read its key from a
// request. So here the key comes from memory that is read in order, and a contestant pays only for its own cache
// misses.
type traffic struct {
	text string
	mask int // number of requests, a power of two, minus 1
}

func (t traffic) key(i int) string {
	at := (i & t.mask) * lab.KeyLength
	return t.text[at : at+lab.KeyLength]
}

// draw picks the keys of requests at random, the same for every contestant.
func draw(p Pattern, keys int) traffic {
	calls := min(1<<21, 1<<bits.Len(uint(4*keys)))
	random := rand.New(rand.NewPCG(1, uint64(keys)))
	next := func() int { return random.IntN(keys) }
	if p == Zipf {
		zipf := rand.NewZipf(random, 1.1, 1, uint64(keys-1))
		next = func() int { return int(zipf.Uint64()) }
	}
	text := make([]byte, 0, calls*lab.KeyLength)
	for range calls {
		text = lab.AppendKey(text, next())
	}
	return traffic{string(text), calls - 1}
}
