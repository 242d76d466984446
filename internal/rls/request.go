package rls

import (
	"fmt"
	"time"

	descriptorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/bounds"
	"github.com/penstock-io/penstock/internal/wire"
)

// Bounds of a request.
const (
	MaxDomain      = bounds.Domain
	MaxDescriptors = penstock.MaxGroups
	MaxEntries     = 64 // of a descriptor
	MaxKey         = bounds.AttributeName
	MaxValue       = bounds.AttributeValue

	maxHits = 1_000_000_000 // more than that counts as so much, as in Envoy
)

const day = 24 * time.Hour

// units are how long Envoy's are. The numbers of units in requests and in responses are the same.
var units = map[rlsv3.RateLimitResponse_RateLimit_Unit]time.Duration{
	rlsv3.RateLimitResponse_RateLimit_SECOND: time.Second,
	rlsv3.RateLimitResponse_RateLimit_MINUTE: time.Minute,
	rlsv3.RateLimitResponse_RateLimit_HOUR:   time.Hour,
	rlsv3.RateLimitResponse_RateLimit_DAY:    day,
	rlsv3.RateLimitResponse_RateLimit_WEEK:   7 * day,
	rlsv3.RateLimitResponse_RateLimit_MONTH:  30 * day,
	rlsv3.RateLimitResponse_RateLimit_YEAR:   365 * day,
}

// unitsOf are the units of windows.
var unitsOf = func() map[time.Duration]rlsv3.RateLimitResponse_RateLimit_Unit {
	of := map[time.Duration]rlsv3.RateLimitResponse_RateLimit_Unit{}
	for unit, window := range units {
		of[window] = unit
	}
	return of
}()

// mistakes are all that is wrong with a request.
type mistakes struct{ wire.Mistakes }

func (m *mistakes) add(at, format string, args ...any) {
	if len(m.List) == wire.MaxMistakes {
		m.More = true
		return
	}
	m.List = append(m.List, wire.Mistake{At: at, Message: fmt.Sprintf(format, args...)})
}

// read checks a request. Its error tells every mistake.
func read(r *rlsv3.RateLimitRequest) (*Request, error) {
	var m mistakes
	if n := len(r.Domain); n == 0 || n > MaxDomain {
		m.add("domain", "has %d bytes, must have from 1 to %d", n, MaxDomain)
	}
	out := &Request{Domain: r.Domain}
	if n := len(r.Descriptors); n == 0 || n > MaxDescriptors {
		m.add("descriptors", "%d of them, must be from 1 to %d", n, MaxDescriptors)
	} else {
		out.Descriptors = make([]Descriptor, n)
		for i, d := range r.Descriptors {
			m.descriptor(i, d, &out.Descriptors[i])
			out.Descriptors[i].Cost = cost(r.HitsAddend, d)
		}
	}
	if len(m.List) > 0 {
		return nil, &m.Mistakes
	}
	return out, nil
}

func (m *mistakes) descriptor(i int, d *descriptorv3.RateLimitDescriptor, out *Descriptor) {
	if n := len(d.GetEntries()); n == 0 || n > MaxEntries {
		m.add(fmt.Sprintf("descriptors[%d].entries", i), "%d of them, must be from 1 to %d", n, MaxEntries)
		return
	}
	if d.IsNegativeHits {
		m.add(fmt.Sprintf("descriptors[%d].is_negative_hits", i), "hits cannot be given back here; leave it out")
	}
	out.Entries = make([]penstock.Attribute, len(d.Entries))
	for k, e := range d.Entries {
		key, value := e.GetKey(), e.GetValue()
		if len(key) == 0 || len(key) > MaxKey {
			m.add(fmt.Sprintf("descriptors[%d].entries[%d].key", i, k), "has %d bytes, must have from 1 to %d", len(key), MaxKey)
		}
		if len(value) > MaxValue {
			out.TooLong = true
			value = value[:MaxValue]
		}
		out.Entries[k] = penstock.Attribute{Name: key, Value: value}
	}
	if d.Limit != nil {
		out.Limit = m.override(i, d.Limit)
	}
}

func (m *mistakes) override(i int, l *descriptorv3.RateLimitDescriptor_RateLimitOverride) *Override {
	window, ok := units[rlsv3.RateLimitResponse_RateLimit_Unit(l.Unit)]
	if !ok {
		m.add(fmt.Sprintf("descriptors[%d].limit.unit", i), "%v is none; one of SECOND, MINUTE, HOUR, DAY, WEEK, MONTH, YEAR", l.Unit)
		return nil
	}
	if l.UnitMultiplier != nil {
		times, most := l.UnitMultiplier.Value, uint32(penstock.MaxWindow/window)
		if times == 0 || times > most {
			m.add(fmt.Sprintf("descriptors[%d].limit.unit_multiplier", i), "%d must be from 1 to %d with the unit %v", times, most, l.Unit)
			return nil
		}
		window *= time.Duration(times)
	}
	return &Override{Count: int64(l.RequestsPerUnit), Window: window}
}

// cost is what a descriptor counts for: its own hits, of which none are a peek, else those of the
// request, of which none are one.
func cost(hits uint32, d *descriptorv3.RateLimitDescriptor) int64 {
	if own := d.GetHitsAddend(); own != nil {
		return int64(min(own.Value, maxHits))
	}
	return int64(min(max(hits, 1), maxHits))
}
