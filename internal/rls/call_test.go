package rls

import (
	"context"
	"errors"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	descriptorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/httplimit"
)

// checkPlain fails if a call understands a message otherwise than the decoder of protobuf does. It reports whether the
// call took the message for plain. The call must be free.
func checkPlain(t *testing.T, c *call, b []byte) bool {
	t.Helper()
	if !c.UnmarshalPlain(b) {
		return false
	}
	var m rlsv3.RateLimitRequest
	if err := proto.Unmarshal(b, &m); err != nil {
		t.Fatalf("%x: decoded, but it is malformed: %v", b, err)
	}
	if n := len(m.ProtoReflect().GetUnknown()); n > 0 {
		t.Fatalf("%x: decoded, but it has %d bytes of unknown fields", b, n)
	}
	var s Server
	want, positions, mistakes := s.read(&m)
	if mistakes != nil || positions != nil {
		t.Fatalf("%x: decoded, but it is invalid: %v", b, mistakes)
	}
	if !reflect.DeepEqual(&c.request, want) {
		t.Fatalf("%x: decoded as\n%+v, want\n%+v", b, c.request, *want)
	}
	return true
}

func usualRequest(key, value string) *rlsv3.RateLimitRequest {
	return &rlsv3.RateLimitRequest{Domain: "edge", Descriptors: []*descriptorv3.RateLimitDescriptor{
		{Entries: []*descriptorv3.RateLimitDescriptor_Entry{{Key: key, Value: value}, {Key: "path", Value: "/v1/ä"}}},
		{Entries: []*descriptorv3.RateLimitDescriptor_Entry{{Key: "plan"}, {Value: "free"}, {}}},
		{},
	}, HitsAddend: 3}
}

func wireOf(t testing.TB, m proto.Message) []byte {
	t.Helper()
	b, err := proto.MarshalOptions{AllowPartial: true}.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestPlainRequests(t *testing.T) {
	edit := func(change func(*rlsv3.RateLimitRequest)) []byte {
		m := usualRequest("user", "u")
		change(m)
		return wireOf(t, m)
	}
	for _, c := range []struct {
		name  string
		b     []byte
		plain bool
	}{
		{"usual", edit(func(*rlsv3.RateLimitRequest) {}), true},
		{"a longer value", wireOf(t, usualRequest("user", strings.Repeat("u", 3000))), true},
		{"the longest key", wireOf(t, usualRequest(strings.Repeat("k", MaxKey), "u")), true},
		{"the longest domain", edit(func(m *rlsv3.RateLimitRequest) { m.Domain = strings.Repeat("d", MaxDomain) }), true},
		{"many hits", edit(func(m *rlsv3.RateLimitRequest) { m.HitsAddend = 4294967295 }), true},
		{"hits beyond 32 bits", append(edit(func(*rlsv3.RateLimitRequest) {}), protowire.AppendVarint([]byte{hitsTag}, 1<<33|7)...), true},
		{"a domain twice", append(edit(func(*rlsv3.RateLimitRequest) {}), domainTag, 1, 'x'), true},
		{"a large message", wireOf(t, usualRequest("user", strings.Repeat("u", maxPlain))), false},
		{"a key that is too long", wireOf(t, usualRequest(strings.Repeat("k", MaxKey+1), "u")), false},
		{"a domain that is too long", edit(func(m *rlsv3.RateLimitRequest) { m.Domain = strings.Repeat("d", MaxDomain+1) }), false},
		{"no domain", edit(func(m *rlsv3.RateLimitRequest) { m.Domain = "" }), false},
		{"no descriptors", edit(func(m *rlsv3.RateLimitRequest) { m.Descriptors = nil }), false},
		{"nine descriptors", edit(func(m *rlsv3.RateLimitRequest) { m.Descriptors = make([]*descriptorv3.RateLimitDescriptor, 9) }), false},
		{"33 entries", edit(func(m *rlsv3.RateLimitRequest) {
			m.Descriptors[0].Entries = make([]*descriptorv3.RateLimitDescriptor_Entry, 33)
		}), false},
		{"a limit", edit(func(m *rlsv3.RateLimitRequest) {
			m.Descriptors[0].Limit = &descriptorv3.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: 1, Unit: 1}
		}), false},
		{"hits of a descriptor", edit(func(m *rlsv3.RateLimitRequest) { m.Descriptors[0].HitsAddend = wrapperspb.UInt64(2) }), false},
		{"negative hits", edit(func(m *rlsv3.RateLimitRequest) { m.Descriptors[1].IsNegativeHits = true }), false},
		{"an unknown field", append(edit(func(*rlsv3.RateLimitRequest) {}), 0x78, 1), false},
		{"a number as domain", append(edit(func(*rlsv3.RateLimitRequest) {}), 0x08, 1), false},
		{"bytes that are not UTF-8", append(edit(func(*rlsv3.RateLimitRequest) {}), domainTag, 1, 0xff), false},
		{"a length beyond the end", append(edit(func(*rlsv3.RateLimitRequest) {}), domainTag, 5, 'x'), false},
		{"an unfinished number", append(edit(func(*rlsv3.RateLimitRequest) {}), hitsTag, 0x80), false},
		{"nothing", nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			reused := new(call)
			reused.UnmarshalPlain(append(wireOf(t, usualRequest("before", "before")), descriptorsTag, 7, entriesTag, 5, keyTag, 1, 'x', 0x78, 1))
			reused.empty()
			if got := checkPlain(t, reused, c.b); got != c.plain {
				t.Errorf("plain is %v, want %v", got, c.plain)
			}
		})
	}
}

// TestMutatedPlainRequests damages usual requests. One call decodes all of them, so what one leaves must not be seen
// by the next.
func TestMutatedPlainRequests(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var c call
	plain := 0
	for range 50_000 {
		b := wireOf(t, usualRequest("user", strings.Repeat("u", r.IntN(200))))
		for range r.IntN(4) {
			switch i := r.IntN(len(b)); r.IntN(3) {
			case 0:
				b[i] = byte(r.Uint32())
			case 1:
				b = b[:max(1, i)]
			default:
				b = append(b[:i:i], append([]byte{byte(r.IntN(40))}, b[i:]...)...)
			}
		}
		if checkPlain(t, &c, b) {
			plain++
		}
		c.empty()
	}
	if plain < 10_000 {
		t.Errorf("only %d were plain", plain)
	}
}

func FuzzPlainRequest(f *testing.F) {
	f.Add(wireOf(f, usualRequest("user", "u")))
	f.Add(wireOf(f, usualRequest("", strings.Repeat("u", 200))))
	f.Fuzz(func(t *testing.T, b []byte) { checkPlain(t, new(call), b) })
}

// A call that is reused has nothing of the request before.
func TestFreedCallsAreEmpty(t *testing.T) {
	var c call
	for _, b := range [][]byte{wireOf(t, usualRequest("user", "u")), append(wireOf(t, usualRequest("user", "u")), 0x78, 1)} {
		if !c.UnmarshalPlain(b) {
			_ = c.Generated()
		}
		c.empty()
		if c.message != nil || c.used != 0 || c.request.Domain != "" || len(c.request.Descriptors) != 0 || c.entries != [plainEntries]penstock.Attribute{} {
			t.Errorf("after %x: %+v", b, c)
		}
	}
}

// allowing is a limiter that allows everything, by one limit.
type allowing struct{}

func (allowing) Limit(_ context.Context, r *Request) (*Answers, error) {
	a := r.Answers()
	for i := range a.Each {
		v := &a.Each[i].Verdict
		v.Add(penstock.LimitVerdict{Rule: "r", Policy: "r", Window: time.Second, Count: 9, Decision: penstock.Decision{Allowed: true, Limit: 9, Remaining: 8}})
		v.Allowed, a.Each[i].Told = true, &v.Limits[0]
	}
	return a, nil
}

// A plain request takes memory for its text, for its headers and for its response, but not for each of its parts.
func TestPlainRequestAllocations(t *testing.T) {
	writer, err := httplimit.NewWriter(httplimit.WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{Options: Options{Limiter: allowing{}, Writer: writer}}
	b := wireOf(t, usualRequest("user", "u"))
	decode := func(v any) error {
		if !v.(*call).UnmarshalPlain(b) {
			return errors.New("not plain")
		}
		return nil
	}
	intercept := func(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
		return handle(ctx, request)
	}
	n := testing.AllocsPerRun(200, func() {
		if _, err := shouldRateLimit(s, t.Context(), decode, intercept); err != nil {
			t.Error(err)
		}
	})
	if n > 16 {
		t.Errorf("%v allocations", n)
	}
}
