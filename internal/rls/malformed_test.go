package rls_test

import (
	"bytes"
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
		{"thousands of entries", ask(&descriptorv3.RateLimitDescriptor{Entries: many(5000, entry)}), codes.InvalidArgument, "descriptors[0].entries: 5000 of them, must be from 1 to 64"},
		{"no entries", ask("a=1", &descriptorv3.RateLimitDescriptor{}), codes.InvalidArgument, "descriptors[1].entries: 0 of them"},
		{"empty key", ask("a=1,=2"), codes.InvalidArgument, "descriptors[0].entries[1].key: has 0 bytes, must have from 1 to 128"},
		{"huge value", ask("a=" + strings.Repeat("v", 2<<20)), codes.ResourceExhausted, "message larger than max"},
		{"the same name after all", ask("a=1,a=2,a_2=3"), codes.InvalidArgument, `descriptors[0]: invalid call: attribute "a_2" is there twice`},
		{"unit", ask(limited(1, 0, descriptor("a=1")), limited(1, 99, descriptor("a=1"))), codes.InvalidArgument, "descriptors[0].limit.unit: UNKNOWN is none; one of SECOND, MINUTE, HOUR, DAY, WEEK, MONTH, YEAR; descriptors[1].limit.unit: 99 is none"},
		{"multiplier", ask(multiplied), codes.InvalidArgument, "descriptors[0].limit.unit_multiplier: 4000000000 must be from 1 to 1 with the unit YEAR"},
		{"negative hits", ask(negative), codes.InvalidArgument, "descriptors[0].is_negative_hits: hits cannot be given back here"},
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

// A value that is too long to be counted by comes from a client, whose request Envoy would let pass if
// it were answered with an error.
func TestLongValuesAreDenied(t *testing.T) {
	for name, limiter := range map[string]rls.Limiter{
		"rules": byRules(t, newMemory(t), ownRules), "file": byFile(t, limits, served{Store: newMemory(t)}),
	} {
		client := newClient(t, limiter)
		for length, want := range map[int]string{8192: "OK | OK | OK", 8193: "OVER_LIMIT | OK | OVER_LIMIT", 1000_000: "OVER_LIMIT | OK | OVER_LIMIT"} {
			r, err := client.ShouldRateLimit(patient(t), ask("unknown=1", "unknown="+strings.Repeat("v", length)))
			if err != nil {
				t.Errorf("%s: a value of %d bytes: %v", name, length, err)
				continue
			}
			got := r.OverallCode.String()
			for _, s := range r.Statuses {
				got += " | " + s.Code.String()
			}
			if got != want {
				t.Errorf("%s: a value of %d bytes: %s, want %s", name, length, got, want)
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
		if err := conn.Invoke(patient(t), rlsv3.RateLimitService_ShouldRateLimit_FullMethodName, body, &raw, grpc.ForceCodec(plain{})); err != nil {
			t.Fatalf("%d: %v", i, err)
		}
		var r rlsv3.RateLimitResponse
		if err := proto.Unmarshal(raw, &r); err != nil || r.OverallCode.String() != want {
			t.Errorf("%d: %v, %v, want %s", i, r.OverallCode, err, want)
		}
	}
}

// plain sends messages as they are, whatever they are.
type plain struct{}

func (plain) Name() string                  { return "proto" }
func (plain) Marshal(v any) ([]byte, error) { return v.([]byte), nil }
func (plain) Unmarshal(data []byte, v any) error {
	if to, ok := v.(*[]byte); ok {
		*to = bytes.Clone(data)
	}
	return nil
}

// What is no message at all is refused before it is decided about, and the error says why. Text that is
// not UTF-8 comes from clients, in headers, and is decided about.
func TestUnreadable(t *testing.T) {
	conn := connect(t, newServer(t, byRules(t, newMemory(t), ownRules), noRules))
	good, err := proto.Marshal(ask("a=v"))
	if err != nil {
		t.Fatal(err)
	}
	send := func(method string, body []byte) error {
		return conn.Invoke(patient(t), method, body, nil, grpc.ForceCodec(plain{}))
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
