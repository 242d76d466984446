package rls_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	descriptorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/penstock-io/penstock/internal/rls"
)

func many[T any](n int, item T) []T {
	out := make([]T, n)
	for i := range out {
		out[i] = item
	}
	return out
}

func TestMalformed(t *testing.T) {
	client := newClient(t, byRules(t, newMemory(t), ownRules))
	entry := &descriptorv3.RateLimitDescriptor_Entry{Key: "k", Value: "v"}
	negative := descriptor("a=1")
	negative.IsNegativeHits = true
	multiplied := limited(1, typev3.RateLimitUnit_YEAR, descriptor("a=1"))
	multiplied.Limit.UnitMultiplier = wrapperspb.UInt32(4_000_000_000)
	for _, c := range []struct {
		name string
		ask  *rlsv3.RateLimitRequest
		code codes.Code
		want string
	}{
		{"nothing", &rlsv3.RateLimitRequest{}, codes.InvalidArgument, "domain: has 0 bytes, must have from 1 to 255; descriptors: 0 of them, must be from 1 to 64"},
		{"long domain", &rlsv3.RateLimitRequest{Domain: strings.Repeat("d", 256), Descriptors: ask("a=1").Descriptors}, codes.InvalidArgument, "domain: has 256 bytes"},
		{"thousands of descriptors", &rlsv3.RateLimitRequest{Domain: "mesh", Descriptors: many(5000, descriptor("a=1"))}, codes.InvalidArgument, "descriptors: 5000 of them, must be from 1 to 64"},
		{"thousands of entries", ask(&descriptorv3.RateLimitDescriptor{Entries: many(5000, entry)}), codes.InvalidArgument, "descriptors[0].entries: 5000 of them, at most 64"},
		{"long key", ask("a=1," + strings.Repeat("k", 126) + "=2"), codes.InvalidArgument, "descriptors[0].entries[1].key: has 126 bytes, at most 125"},
		{"huge value", ask("a=" + strings.Repeat("v", 2<<20)), codes.ResourceExhausted, "message larger than max"},
		{"unit", ask(limited(1, 0, descriptor("a=1")), limited(1, 99, descriptor("a=1"))), codes.InvalidArgument, "descriptors[0].limit.unit: unknown unit UNKNOWN: must be SECOND, MINUTE, HOUR, DAY, WEEK, MONTH or YEAR; descriptors[1].limit.unit: unknown unit 99"},
		{"multiplier", ask(multiplied), codes.InvalidArgument, "descriptors[0].limit.unit_multiplier: 4000000000 must be from 1 to 1 with the unit YEAR"},
		{"negative hits", ask(negative), codes.InvalidArgument, "descriptors[0].is_negative_hits: negative hits are refused"},
	} {
		_, err := client.ShouldRateLimit(patient(t), c.ask)
		if status.Code(err) != c.code || !strings.Contains(status.Convert(err).Message(), c.want) {
			t.Errorf("%s: got %.400v, want %v: %s", c.name, err, c.code, c.want)
		}
	}
	multiplied = limited(1, typev3.RateLimitUnit_SECOND, descriptor("a=1"))
	multiplied.Limit.UnitMultiplier = wrapperspb.UInt32(30)
	if r, err := client.ShouldRateLimit(patient(t), ask(multiplied)); err != nil || brief(r) != "OK | OK  1/UNKNOWN 0 left for 30s" {
		t.Errorf("a multiplier: %v, %v", brief(r), err)
	}
}

// limiters returns a limiter by rules and one by a file, with the same limits: two for each address, and two in total
// for values that begin with "evil".
func limiters(t *testing.T) map[string]rls.Limiter {
	return map[string]rls.Limiter{
		"rules": byRules(t, newMemory(t), `
rules:
  - {name: ip, match: {domain: mesh}, key: [ip], limits: [{rate: 2/1h, algorithm: fixed_window}]}
  - {name: evil, match: {domain: mesh, auth: "evil*"}, key: [], limits: [{rate: 2/1h, algorithm: fixed_window}]}
  - {name: auth, match: {domain: mesh}, key: [auth], limits: [{rate: 2/1h, algorithm: fixed_window}]}
`),
		"file": byFile(t, `
domain: mesh
descriptors:
  - {key: ip, rate_limit: {unit: hour, requests_per_unit: 2}}
  - {key: auth, value: "evil*", share_threshold: true, rate_limit: {unit: hour, requests_per_unit: 2}}
  - {key: auth, rate_limit: {unit: hour, requests_per_unit: 2}}
`, testServer{Store: newMemory(t)}),
	}
}

// codesOf returns the overall code and those of the descriptors.
func codesOf(r *rlsv3.RateLimitResponse) string {
	got := r.GetOverallCode().String()
	for _, s := range r.GetStatuses() {
		got += " | " + s.Code.String()
	}
	return got
}

// Clients choose values, for example in headers. A value of any length is counted separately, and so are the values
// next to it.
func TestLongValuesAreCounted(t *testing.T) {
	for name, limiter := range limiters(t) {
		client := newClient(t, limiter)
		expect := func(want string, descriptors ...any) {
			t.Helper()
			if r, err := client.ShouldRateLimit(patient(t), ask(descriptors...)); err != nil || codesOf(r) != want {
				t.Errorf("%s: got %s, %v, want %s", name, codesOf(r), err, want)
			}
		}
		for _, length := range []int{8192, 8193, 500_000} {
			value := "auth=" + strings.Repeat("v", length)
			expect("OK | OK", value)
			expect("OK | OK", value)
			expect("OVER_LIMIT | OVER_LIMIT", value)
			expect("OK | OK", strings.Replace(value, strings.Repeat("v", length/2), strings.Repeat("v", length/2-1)+"w", 1))
			expect("OVER_LIMIT | OVER_LIMIT | OK", value, fmt.Sprintf("ip=%d", length))
		}
		for _, want := range []string{"OK | OK", "OK | OK", "OVER_LIMIT | OVER_LIMIT"} {
			expect(want, "auth=evil"+strings.Repeat(want, 2000)) // patterns match long values
		}
		long := "auth=" + strings.Repeat("x", 9000)
		expect("OK | OK | OK", "ip=1", long)
		expect("OK | OK | OK", "ip=1", long)
		expect("OVER_LIMIT | OVER_LIMIT", "ip=1")
	}
}

// A descriptor that cannot be counted does not keep the others from being counted. One without entries or with an
// empty key is ordinary: no limit applies to it.
func TestBadDescriptorsAmongGoodOnes(t *testing.T) {
	negative := descriptor("ip=1")
	negative.IsNegativeHits = true
	for _, c := range []struct {
		name    string
		bad     any
		invalid int64
	}{
		{"no entries", &descriptorv3.RateLimitDescriptor{}, 0},
		{"empty key", "=1", 0},
		{"only names that collide", "x=1,x=2,x_2=3", 0},
		{"negative hits", negative, 3},
		{"long key", strings.Repeat("k", 126) + "=1", 3},
		{"long key, repeated", strings.Repeat("k", 125) + "=1," + strings.Repeat("k", 125) + "=2", 0},
		{"entries", strings.Repeat("k=1,", 64) + "k=1", 3},
		{"unit", limited(1, 0, descriptor("ip=1")), 3},
	} {
		for name, limiter := range limiters(t) {
			s := newServer(t, limiter, noRules)
			client := rlsv3.NewRateLimitServiceClient(connect(t, s))
			for i, want := range []string{"OK | OK | OK | OK", "OK | OK | OK | OK", "OVER_LIMIT | OVER_LIMIT | OK | OVER_LIMIT"} {
				r, err := client.ShouldRateLimit(patient(t), ask("ip=1", c.bad, "ip=2"))
				if err != nil || codesOf(r) != want {
					t.Errorf("%s, %s, request %d: got %s, %v, want %s", c.name, name, i, codesOf(r), err, want)
				}
			}
			if got := s.InvalidRequests()["ratelimit"]; got != c.invalid {
				t.Errorf("%s, %s: %d invalid requests are counted, want %d", c.name, name, got, c.invalid)
			}
		}
	}
}

// However many descriptors are bad, the good one after them is counted.
func TestManyBadDescriptors(t *testing.T) {
	bad := limited(1, 0, descriptor("ip=9"))
	all := append(many[any](63, bad), "ip=1")
	for name, limiter := range limiters(t) {
		client := newClient(t, limiter)
		for i, want := range []string{"OK", "OK", "OVER_LIMIT"} {
			if r, err := client.ShouldRateLimit(patient(t), ask(all...)); err != nil || r.OverallCode.String() != want {
				t.Errorf("%s, request %d: got %v, %v, want %s", name, i, r.GetOverallCode(), err, want)
			}
		}
	}
}

// Clients cannot escape a limit with bytes that are not UTF-8, which Envoy copies from headers.
func TestInvalidTextIsCounted(t *testing.T) {
	conn := connect(t, newServer(t, byRules(t, newMemory(t), "rules: [{name: r, match: {domain: mesh}, key: [a], limits: [{rate: 2/1h, algorithm: fixed_window}]}]"), noRules))
	for i, want := range []string{"OK", "OK", "OVER_LIMIT", "OVER_LIMIT"} {
		body, err := proto.Marshal(ask("a=" + strings.Repeat("long ", 100) + "v"))
		if err != nil {
			t.Fatal(err)
		}
		body = bytes.Replace(body, []byte("v"), []byte{byte(0xfc + i)}, 1)
		var raw []byte
		if err := conn.Invoke(patient(t), rlsv3.RateLimitService_ShouldRateLimit_FullMethodName, body, &raw, grpc.ForceCodec(rawCodec{})); err != nil {
			t.Fatalf("%d: %v", i, err)
		}
		var r rlsv3.RateLimitResponse
		if err := proto.Unmarshal(raw, &r); err != nil || r.OverallCode.String() != want {
			t.Errorf("%d: %v, %v, want %s", i, r.OverallCode, err, want)
		}
	}
}

// rawCodec sends messages unchanged, whatever they are.
type rawCodec struct{}

func (rawCodec) Name() string                  { return "proto" }
func (rawCodec) Marshal(v any) ([]byte, error) { return v.([]byte), nil }
func (rawCodec) Unmarshal(data []byte, v any) error {
	if to, ok := v.(*[]byte); ok {
		*to = bytes.Clone(data)
	}
	return nil
}

// Data that is not a message is refused before a decision, and the error says why. Text that is not UTF-8 comes from
// clients, in headers, and is decided.
func TestUnreadable(t *testing.T) {
	conn := connect(t, newServer(t, byRules(t, newMemory(t), ownRules), noRules))
	good, err := proto.Marshal(ask("a=v"))
	if err != nil {
		t.Fatal(err)
	}
	send := func(method string, body []byte) error {
		return conn.Invoke(patient(t), method, body, nil, grpc.ForceCodec(rawCodec{}))
	}
	const limit, authorize = rlsv3.RateLimitService_ShouldRateLimit_FullMethodName, authv3.Authorization_Check_FullMethodName
	for _, body := range [][]byte{good, bytes.Replace(good, []byte("v"), []byte{0xff}, 1)} {
		if err := send(limit, body); err != nil {
			t.Errorf("%q: %v", body, err)
		}
	}
	for _, c := range []struct {
		method string
		body   []byte
		want   string
	}{
		{limit, good[:len(good)-1], "cannot parse"},
		{limit, []byte("garbage"), "cannot parse"},
		{authorize, []byte("garbage"), "cannot parse"},
	} {
		if err := send(c.method, c.body); status.Code(err) != codes.Internal || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %q: %v, want %s", c.method, c.body, err, c.want)
		}
	}
}
