package limiter

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
)

// A Pattern is how requests are distributed over keys.
type Pattern string

const (
	Hot     Pattern = "hot"     // one key
	Uniform Pattern = "uniform" // all keys equally
	Zipf    Pattern = "zipf"    // mostly few keys, with exponent 1.1
)

// keyLength is the length of every key: "key-000000000042".
const keyLength = 16

func keyOf(i int) string { return string(appendKey(nil, i)) }

// appendKey appends the key with a number. It is written by hand because millions are made.
func appendKey(b []byte, i int) []byte {
	b = append(b, "key-000000000000"...)
	for at := len(b) - 1; i > 0; at-- {
		b[at] = byte('0' + i%10)
		i /= 10
	}
	return b
}

// traffic is the keys of successive requests, contiguous in memory. A service has just read its key from a
// request. So here the key comes from memory that is read in order, and a contestant pays only for its own cache
// misses.
type traffic struct {
	text string
	mask int // number of requests, a power of two, minus 1
}

func (t traffic) key(i int) string {
	at := (i & t.mask) * keyLength
	return t.text[at : at+keyLength]
}

// draw picks the keys of requests at random, the same for every contestant.
func draw(p Pattern, keys int) (traffic, error) {
	calls := min(1<<21, 1<<bits.Len(uint(4*keys)))
	random := rand.New(rand.NewPCG(1, uint64(keys)))
	var next func() int
	switch p {
	case Uniform:
		next = func() int { return random.IntN(keys) }
	case Zipf:
		zipf := rand.NewZipf(random, 1.1, 1, uint64(keys-1))
		next = func() int { return int(zipf.Uint64()) }
	default:
		return traffic{}, fmt.Errorf("draw traffic: no pattern is called %q", p)
	}
	text := make([]byte, 0, calls*keyLength)
	for range calls {
		text = appendKey(text, next())
	}
	return traffic{string(text), calls - 1}, nil
}
