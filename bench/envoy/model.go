package envoy

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	descriptorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
)

// A modelLimit is a limit of the files, by the keys of its entries and the value of the last one.
type modelLimit struct {
	way, value string // of the last entry, "" for any; a star at its end is a pattern
	count      int64
	unit       rlsv3.RateLimitResponse_RateLimit_Unit
	name       string
	replaces   string
	unlimited  bool
	shadow     bool
	quota      bool
	shared     bool // the pattern is counted instead of the value
	metadata   map[string]any
}

const (
	dayUnit   = rlsv3.RateLimitResponse_RateLimit_DAY
	weekUnit  = rlsv3.RateLimitResponse_RateLimit_WEEK
	monthUnit = rlsv3.RateLimitResponse_RateLimit_MONTH
	yearUnit  = rlsv3.RateLimitResponse_RateLimit_YEAR
)

// fileOf returns the limits of a domain for both services. Windows are long enough that none ends within a run.
func fileOf(domain string, newest bool) string {
	text := `domain: ` + domain + `
descriptors:
  - {key: plain, rate_limit: {unit: day, requests_per_unit: 20}}
  - {key: plain, value: exact, rate_limit: {unit: week, requests_per_unit: 700}}
  - {key: named, rate_limit: {unit: year, requests_per_unit: 10, name: my-limit}}
  - {key: shadow, shadow_mode: true, rate_limit: {unit: month, requests_per_unit: 10}}
  - {key: zero, rate_limit: {unit: year, requests_per_unit: 0}}
  - {key: free, rate_limit: {unlimited: true}}
  - {key: pass}
  - {key: wild, value: a-*, rate_limit: {unit: day, requests_per_unit: 10}}
  - {key: wild, rate_limit: {unit: day, requests_per_unit: 5}}
  - {key: shared, value: b-*, share_threshold: true, rate_limit: {unit: day, requests_per_unit: 300}}
  - {key: replacing, rate_limit: {unit: week, requests_per_unit: 50, replaces: [{name: my-limit}]}}
  - key: user
    descriptors:
      - {key: op, value: write, rate_limit: {unit: day, requests_per_unit: 15}}
      - {key: op, rate_limit: {unit: month, requests_per_unit: 30}}
`
	if newest {
		text += `  - {key: quota, quota_mode: true, rate_limit: {unit: day, requests_per_unit: 8}}
  - {key: meta, metadata: {team: {name: edge, level: 2}}, rate_limit: {unit: day, requests_per_unit: 12}}
`
	}
	return text
}

// modelLimits are the limits of the file, implemented a second time. The first that matches applies.
var modelLimits = []modelLimit{
	{way: "plain", value: "exact", count: 700, unit: weekUnit},
	{way: "plain", count: 20, unit: dayUnit},
	{way: "named", count: 10, unit: yearUnit, name: "my-limit"},
	{way: "shadow", count: 10, unit: monthUnit, shadow: true},
	{way: "zero", unit: yearUnit},
	{way: "free", unlimited: true},
	{way: "wild", value: "a-*", count: 10, unit: dayUnit},
	{way: "wild", count: 5, unit: dayUnit},
	{way: "shared", value: "b-*", count: 300, unit: dayUnit, shared: true},
	{way: "replacing", count: 50, unit: weekUnit, replaces: "my-limit"},
	{way: "user.op", value: "write", count: 15, unit: dayUnit},
	{way: "user.op", count: 30, unit: monthUnit},
	{way: "quota", count: 8, unit: dayUnit, quota: true},
	{way: "meta", count: 12, unit: dayUnit, metadata: map[string]any{"team": map[string]any{"name": "edge", "level": 2.0}}},
}

// modelFind returns the limit of a descriptor, or nil.
func modelFind(entries []*descriptorv3.RateLimitDescriptor_Entry, newest bool) *modelLimit {
	way, last := "", ""
	for _, e := range entries {
		way, last = way+"."+e.Key, e.Value
	}
	for i, l := range modelLimits {
		prefix, isPattern := strings.CutSuffix(l.value, "*")
		switch {
		case way != "."+l.way, (l.quota || l.metadata != nil) && !newest:
		case l.value == "" || l.value == last || isPattern && strings.HasPrefix(last, prefix):
			return &modelLimits[i]
		}
	}
	return nil
}

// A model answers as envoyproxy/ratelimit does, for one domain and without a store. It follows
// src/service/ratelimit.go and src/redis/fixed_cache_impl.go, with negative hits and the quota mode as of 2026.
type model struct {
	shadow, quota, unlessOver, newest bool
	headers                           [3]string

	counts map[string]int64
}

func (m *model) reset() {
	m.counts = map[string]int64{}
	if m.headers[0] == "" {
		m.headers = [3]string{"RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset"}
	}
}

// answer takes the same steps as the other service, in the same order.
//
//gocyclo:ignore it is read beside the service's own function
func (m *model) answer(r *rlsv3.RateLimitRequest) (*rlsv3.RateLimitResponse, error) {
	if r.Domain == "" || len(r.Descriptors) == 0 {
		return nil, errors.New("no domain or no descriptors")
	}
	limits := m.limits(r)
	statuses := m.count(r, limits)
	out := &rlsv3.RateLimitResponse{OverallCode: rlsv3.RateLimitResponse_OK, Statuses: statuses}
	var closest *rlsv3.RateLimitResponse_DescriptorStatus
	least, quotas, spent := uint32(math.MaxUint32), 0, 0
	metadata := map[string]any{}
	for i, s := range statuses {
		if s.CurrentLimit != nil && s.LimitRemaining < least {
			closest, least = s, s.LimitRemaining
		}
		if limits[i] != nil && limits[i].unlimited {
			continue
		}
		isQuota, over := m.quota || limits[i] != nil && limits[i].quota, s.Code == rlsv3.RateLimitResponse_OVER_LIMIT
		if isQuota {
			quotas++
		}
		switch {
		case over && isQuota:
			spent++
		case over:
			out.OverallCode, closest, least = rlsv3.RateLimitResponse_OVER_LIMIT, s, 0
		case limits[i] != nil && limits[i].metadata != nil:
			metadata = limits[i].metadata
		}
	}
	if quotas > 0 && quotas == spent {
		out.OverallCode = rlsv3.RateLimitResponse_OVER_LIMIT
	}
	if m.shadow {
		out.OverallCode = rlsv3.RateLimitResponse_OK
	}
	if closest != nil {
		for i, value := range []int64{int64(closest.CurrentLimit.RequestsPerUnit), int64(closest.LimitRemaining), closest.DurationUntilReset.Seconds} {
			out.ResponseHeadersToAdd = append(out.ResponseHeadersToAdd, &corev3.HeaderValue{Key: m.headers[i], Value: strconv.FormatInt(value, 10)})
		}
	}
	var err error
	out.DynamicMetadata, err = requestMetadata(r, metadata)
	return out, err
}

// limits finds the limit of each descriptor, except those that are replaced.
func (m *model) limits(r *rlsv3.RateLimitRequest) []*modelLimit {
	limits, replaced := make([]*modelLimit, len(r.Descriptors)), map[string]bool{}
	for i, d := range r.Descriptors {
		switch {
		case !strings.HasPrefix(r.Domain, "compare"):
			continue
		case d.Limit != nil:
			limits[i] = &modelLimit{count: int64(d.Limit.RequestsPerUnit), unit: rlsv3.RateLimitResponse_RateLimit_Unit(d.Limit.Unit)}
		default:
			limits[i] = modelFind(d.Entries, m.newest)
		}
		if limits[i] != nil && limits[i].replaces != "" {
			replaced[limits[i].replaces] = true
		}
	}
	for i, l := range limits {
		if l != nil && l.name != "" && replaced[l.name] {
			limits[i] = nil
		}
	}
	return limits
}

// count charges and refunds.
//
//gocyclo:ignore it is read beside the service's own function
func (m *model) count(r *rlsv3.RateLimitRequest, limits []*modelLimit) []*rlsv3.RateLimitResponse_DescriptorStatus {
	counted := func(i int) bool { return limits[i] != nil && !limits[i].unlimited }
	over, anyOver := make([]bool, len(limits)), false
	for i, d := range r.Descriptors {
		if m.unlessOver && counted(i) && !d.IsNegativeHits {
			over[i] = m.counts[counterOf(r.Domain, d, limits[i])]+hitsOf(r, d) > limits[i].count
			anyOver = anyOver || over[i]
		}
	}
	statuses := make([]*rlsv3.RateLimitResponse_DescriptorStatus, len(limits))
	for i, d := range r.Descriptors {
		l := limits[i]
		s := &rlsv3.RateLimitResponse_DescriptorStatus{Code: rlsv3.RateLimitResponse_OK}
		statuses[i] = s
		if l != nil && l.unlimited {
			s.LimitRemaining = math.MaxUint32
		}
		if !counted(i) {
			continue
		}
		counter, hits := counterOf(r.Domain, d, l), hitsOf(r, d)
		switch {
		case d.IsNegativeHits:
			m.counts[counter] = max(0, m.counts[counter]-hits)
		case !anyOver || over[i]:
			m.counts[counter] += hits
		}
		s.CurrentLimit = &rlsv3.RateLimitResponse_RateLimit{Name: l.name, RequestsPerUnit: uint32(l.count), Unit: l.unit}
		s.LimitRemaining = uint32(max(0, l.count-m.counts[counter]))
		length := int64(secondsOf[l.unit])
		s.DurationUntilReset = &durationpb.Duration{Seconds: length - time.Now().Unix()%length}
		if m.counts[counter] > l.count && !l.shadow && !d.IsNegativeHits {
			s.Code = rlsv3.RateLimitResponse_OVER_LIMIT
		}
	}
	return statuses
}

var secondsOf = map[rlsv3.RateLimitResponse_RateLimit_Unit]int{dayUnit: 86400, weekUnit: 7 * 86400, monthUnit: 30 * 86400, yearUnit: 365 * 86400}

func hitsOf(r *rlsv3.RateLimitRequest, d *descriptorv3.RateLimitDescriptor) int64 {
	if d.HitsAddend != nil {
		return int64(d.HitsAddend.Value)
	}
	return int64(max(1, r.HitsAddend))
}

func counterOf(domain string, d *descriptorv3.RateLimitDescriptor, l *modelLimit) string {
	var b strings.Builder
	b.WriteString(domain)
	for _, e := range d.Entries {
		value := e.Value
		if l.shared {
			value = l.value
		}
		fmt.Fprintf(&b, "_%s_%s", e.Key, value)
	}
	fmt.Fprintf(&b, "_%v", l.unit)
	return b.String()
}

// requestMetadata returns the dynamic metadata of a response.
func requestMetadata(r *rlsv3.RateLimitRequest, metadata map[string]any) (*structpb.Struct, error) {
	fields := map[string]any{"domain": r.Domain}
	var descriptors []any
	for _, d := range r.Descriptors {
		entries := []any{}
		for _, e := range d.Entries {
			entries = append(entries, e.Key+"="+e.Value)
		}
		one := map[string]any{"entries": entries}
		if d.Limit != nil {
			one["limit"] = d.Limit.String()
		}
		if d.HitsAddend != nil {
			one["hitsAddend"] = float64(d.HitsAddend.Value)
		}
		descriptors = append(descriptors, one)
	}
	fields["descriptors"] = descriptors
	if r.HitsAddend != 0 {
		fields["hitsAddend"] = float64(r.HitsAddend)
	}
	if len(metadata) > 0 {
		fields["metadata"] = metadata
	}
	return structpb.NewStruct(fields)
}
