package doctor

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/penstock-io/penstock/internal/spelling"
)

// Clocks this far apart deserve a warning, or are wrong.
const (
	muchSkew    = time.Second
	tooMuchSkew = time.Minute
)

func (d *doctor) examineClock(ctx context.Context, s *redisServer) {
	within, err := s.measureSkew(ctx)
	if err != nil {
		d.unknown("clock", "", "cannot read the server's time: %v", err)
		return
	}
	d.judgeClock(s.skew, within)
}

// judgeClock reports what a server's clock skew means. within is the precision of the measurement.
func (r *Report) judgeClock(skew, within time.Duration) {
	apart := skew.Abs()
	order := "behind"
	if skew > 0 {
		order = "ahead of"
	}
	const fix = "a time service (NTP) on both machines"
	switch {
	case apart-within >= tooMuchSkew:
		r.fail("clock", fix, "the server's is %s %s this machine's: limits use the server's; calendar periods and the expiry of rules and tokens use this machine's", span(apart), order)
	case apart-within >= muchSkew:
		r.warn("clock", fix, "the server's is %s %s this machine's; limits use the server's", span(apart), order)
	default:
		r.ok("clock", "the server's is within %s of this machine's", muchSkew)
	}
}

// examineClocks compares the clocks of a cluster's masters with each other.
func (d *doctor) examineClocks(masters []*redisServer) {
	timed := slices.DeleteFunc(slices.Clone(masters), func(s *redisServer) bool { return !s.timed })
	if len(timed) < 2 {
		return
	}
	first := slices.MinFunc(timed, func(a, b *redisServer) int { return cmp.Compare(a.skew, b.skew) })
	last := slices.MaxFunc(timed, func(a, b *redisServer) int { return cmp.Compare(a.skew, b.skew) })
	if apart := last.skew - first.skew; apart >= muchSkew {
		d.warn("clocks", "a time service (NTP) on all of them", "%s is %s ahead of %s: windows of the same client start at different times, and a failover moves them",
			last.address, span(apart), first.address)
		return
	}
	d.ok("clocks", "the clocks of %s are within %s of each other", spelling.Count(len(timed), "server"), muchSkew)
}
