package rls

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"time"

	descriptorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/internal/bounds"
	"github.com/penstock-io/penstock/internal/onevalue"
	"github.com/penstock-io/penstock/internal/wire"
	"github.com/penstock-io/penstock/storage"
)

// Bounds of a request.
const (
	MaxDomain      = bounds.Domain
	MaxDescriptors = storage.MaxGroups
	MaxEntries     = 64                                // of a descriptor
	MaxKey         = bounds.AttributeName - len("_64") // room for the number of a repeated key

	maxHits = algorithm.MaxCount // larger values are reduced to it; no limit of Envoy's is as large
)

const day = 24 * time.Hour

// units are the lengths of Envoy's units. Requests and responses use the same numbers for units.
var units = map[rlsv3.RateLimitResponse_RateLimit_Unit]time.Duration{
	rlsv3.RateLimitResponse_RateLimit_SECOND: time.Second,
	rlsv3.RateLimitResponse_RateLimit_MINUTE: time.Minute,
	rlsv3.RateLimitResponse_RateLimit_HOUR:   time.Hour,
	rlsv3.RateLimitResponse_RateLimit_DAY:    day,
	rlsv3.RateLimitResponse_RateLimit_WEEK:   7 * day,
	rlsv3.RateLimitResponse_RateLimit_MONTH:  30 * day,
	rlsv3.RateLimitResponse_RateLimit_YEAR:   365 * day,
}

// unitsOf are the units by the length of the window.
var unitsOf = func() map[time.Duration]rlsv3.RateLimitResponse_RateLimit_Unit {
	of := map[time.Duration]rlsv3.RateLimitResponse_RateLimit_Unit{}
	for unit, window := range units {
		of[window] = unit
	}
	return of
}()

// fieldErrors are all errors of a request.
type fieldErrors struct {
	wire.FieldErrors
	found int // including those that are not listed
}

func (m *fieldErrors) add(at, format string, args ...any) {
	m.found++
	m.Add(at, format, args...)
}

// read checks a request. It leaves out descriptors that cannot be counted: positions then has the positions of the
// others, and is nil if none is left out. The errors are nil if there are none. If the Request is nil, nothing can be
// decided.
func (s *Server) read(r *rlsv3.RateLimitRequest) (out *Request, positions []int, _ *wire.FieldErrors) {
	var m fieldErrors
	if n := len(r.Domain); n == 0 || n > MaxDomain {
		m.add("domain", "has %d bytes, must have from 1 to %d", n, MaxDomain)
	}
	if n := len(r.Descriptors); n == 0 || n > MaxDescriptors {
		m.add("descriptors", "%d of them, must be from 1 to %d", n, MaxDescriptors)
	}
	if len(m.List) > 0 {
		return nil, nil, &m.FieldErrors
	}
	out = &Request{Domain: r.Domain, Descriptors: make([]Descriptor, 0, len(r.Descriptors))}
	var countable [MaxDescriptors]bool
	for i, d := range r.Descriptors {
		read, before := Descriptor{Cost: cost(r.HitsAddend, d)}, m.found
		if d.GetIsNegativeHits() && !s.NegativeHits {
			m.add(fmt.Sprintf("descriptors[%d].is_negative_hits", i), "negative hits are refused: set envoy.negative_hits to accept them")
		}
		m.descriptor(i, d, &read)
		read.identify(s.RequestIDKey)
		if countable[i] = m.found == before; countable[i] {
			out.Descriptors = append(out.Descriptors, read)
		}
	}
	if m.found == 0 {
		return out, nil, nil
	}
	for i := range r.Descriptors {
		if countable[i] {
			positions = append(positions, i)
		}
	}
	if positions == nil {
		out = nil
	}
	return out, positions, &m.FieldErrors
}

func (m *fieldErrors) descriptor(i int, d *descriptorv3.RateLimitDescriptor, out *Descriptor) {
	if n := len(d.GetEntries()); n > MaxEntries {
		m.add(fmt.Sprintf("descriptors[%d].entries", i), "%d of them, at most %d", n, MaxEntries)
		return
	}
	out.Refund = d.GetIsNegativeHits()
	out.Entries = make([]penstock.Attribute, len(d.GetEntries()))
	for k, e := range d.GetEntries() {
		key := e.GetKey()
		if len(key) > MaxKey {
			m.add(fmt.Sprintf("descriptors[%d].entries[%d].key", i, k), "has %d bytes, at most %d", len(key), MaxKey)
		}
		out.Entries[k] = penstock.Attribute{Name: key, Value: e.GetValue()}
	}
	if l := d.GetLimit(); l != nil {
		out.Limit = m.override(i, l)
	}
}

// identify takes the request's ID out of the entries.
func (d *Descriptor) identify(key string) {
	if key == "" {
		return
	}
	d.Entries = slices.DeleteFunc(d.Entries, func(e penstock.Attribute) bool {
		if e.Name != key {
			return false
		}
		if d.ID = onevalue.Trim(e.Value); len(d.ID) > bounds.CallID {
			d.ID = fmt.Sprintf("%x", sha256.Sum256([]byte(d.ID)))
		}
		return true
	})
}

func (m *fieldErrors) override(i int, l *descriptorv3.RateLimitDescriptor_RateLimitOverride) *Override {
	window, ok := units[rlsv3.RateLimitResponse_RateLimit_Unit(l.Unit)]
	if !ok {
		m.add(fmt.Sprintf("descriptors[%d].limit.unit", i), "unknown unit %v: must be SECOND, MINUTE, HOUR, DAY, WEEK, MONTH or YEAR", l.Unit)
		return nil
	}
	if l.UnitMultiplier != nil {
		times, most := l.UnitMultiplier.Value, uint32(algorithm.MaxWindow/window)
		if times == 0 || times > most {
			m.add(fmt.Sprintf("descriptors[%d].limit.unit_multiplier", i), "%d must be from 1 to %d with the unit %v", times, most, l.Unit)
			return nil
		}
		window *= time.Duration(times)
	}
	return &Override{Count: int64(l.RequestsPerUnit), Window: window}
}

// cost returns the cost of a descriptor: its own hits, where 0 is a peek, else those of the request, where 0 means 1.
func cost(hits uint32, d *descriptorv3.RateLimitDescriptor) int64 {
	if own := d.GetHitsAddend(); own != nil {
		return int64(min(own.Value, maxHits))
	}
	return int64(max(hits, 1))
}
