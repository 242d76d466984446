package inprocess

import (
	"fmt"
	"slices"
	"time"

	"github.com/penstock-io/penstock/bench/report"
	"github.com/penstock-io/penstock/memstore"
)

// A Limit is what every contestant enforces: Count at once, and again after Window.
type Limit struct {
	Count    int64
	Window   time.Duration
	MaxBytes int64 // of our store; 0: its default
}

// Roomy is a limit that no benchmark exhausts. It is the largest that all contestants support.
var Roomy = Limit{Count: 1_000_000_000, Window: time.Hour}

// Spent is a limit that one request exhausts for longer than a benchmark lasts.
var Spent = Limit{Count: 1, Window: time.Hour}

// A TakeFunc charges one to the key and reports whether it was allowed.
type TakeFunc func(key string) (allowed bool, err error)

// A Limiter is a running contestant.
type Limiter interface {
	// Caller returns a Take for one goroutine, which may keep its own scratch memory.
	Caller() TakeFunc

	// Warm creates the state of a key so that it lasts for the rest of the benchmark. It charges more than one for a
	// limiter that drops a key once it has refilled.
	Warm(key string) error

	Close() error
}

// sizedLimiter is a limiter that knows how many keys it has, and how many bytes it uses.
type sizedLimiter interface{ Stats() memstore.Stats }

// A Contestant is a way of limiting in process memory.
type Contestant struct {
	Name string
	Role report.Role
	Open func(Limit) (Limiter, error)
}

// Headline is our contestant in the goals.
const Headline = "penstock token_bucket"

// Contestants returns all that are compared, ours first.
func Contestants() []Contestant { return slices.Concat(ours(), peers()) }

func find(name string) (Contestant, error) {
	all := Contestants()
	i := slices.IndexFunc(all, func(c Contestant) bool { return c.Name == name })
	if i < 0 {
		return Contestant{}, fmt.Errorf("no contestant is called %q", name)
	}
	return all[i], nil
}
