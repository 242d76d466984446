package grpcapi_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/grpcapi"
	"github.com/penstock-io/penstock/internal/wire"
	penstockv1 "github.com/penstock-io/penstock/proto/penstock/v1"
)

// violations returns the errors in a status, as "field: description".
func violations(t testing.TB, err error) (all []string) {
	t.Helper()
	wantCode(t, err, codes.InvalidArgument)
	for _, d := range status.Convert(err).Details() {
		if bad, ok := d.(*errdetails.BadRequest); ok {
			for _, v := range bad.FieldViolations {
				all = append(all, v.Field+": "+v.Description)
			}
		}
	}
	return all
}

// All errors are reported at once, with their positions, and nothing is charged.
func TestMistakes(t *testing.T) {
	client := newClient(t)
	unknown := call("/search")
	unknown.ProtoReflect().SetUnknown([]byte{0x98, 0x06, 0x01}) // field 99

	tests := []struct {
		name string
		ask  func(context.Context) error
		want []string
	}{
		{"of a check", func(ctx context.Context) error {
			_, err := client.Check(ctx, &penstockv1.CheckRequest{
				Cost: proto.Int64(-1), MaxDelayMs: 3_600_001, Id: strings.Repeat("x", 8193), Domain: strings.Repeat("d", 256),
				Attributes: map[string]string{"": "v", "user": strings.Repeat("u", 8193)},
			})
			return err
		}, []string{
			"domain: has 256 bytes, must have from 0 to 255",
			"id: has 8193 bytes, must have from 0 to 8192",
			"cost: -1 is not from 0 to 1000000000000",
			"max_delay_ms: 3600001 is not from 0 to 3600000",
			`attributes: the name "" has 0 bytes, must have from 1 to 128`,
			`attributes["user"]: has 8193 bytes, must have from 0 to 8192`,
		}},
		{"names of attributes", func(ctx context.Context) error {
			_, err := client.Check(ctx, &penstockv1.CheckRequest{Attributes: map[string]string{strings.Repeat("n", 129): ""}})
			return err
		}, []string{`attributes: the name "` + strings.Repeat("n", 32) + `" has 129 bytes, must have from 1 to 128`}},
		{"too many attributes", func(ctx context.Context) error {
			attributes := map[string]string{}
			for i := range 257 {
				attributes[fmt.Sprint(i)] = ""
			}
			_, err := client.Check(ctx, &penstockv1.CheckRequest{Attributes: attributes})
			return err
		}, []string{"attributes: 257 attributes; at most 256"}},
		{"a field unknown", func(ctx context.Context) error {
			_, err := client.Check(ctx, unknown)
			return err
		}, []string{": field 99 is unknown"}},
		{"of a batch", func(ctx context.Context) error {
			_, err := client.CheckBatch(ctx, &penstockv1.CheckBatchRequest{Calls: []*penstockv1.CheckRequest{call("/search"), {Cost: proto.Int64(-2)}, unknown}})
			return err
		}, []string{"calls[1].cost: -2 is not from 0 to 1000000000000", "calls[2]: field 99 is unknown"}},
		{"an empty batch", func(ctx context.Context) error {
			_, err := client.CheckBatch(ctx, new(penstockv1.CheckBatchRequest))
			return err
		}, []string{"calls: 0 calls, must be from 1 to 1000"}},
		{"of a reservation", func(ctx context.Context) error {
			_, err := client.Reserve(ctx, &penstockv1.ReserveRequest{TtlMs: -1})
			return err
		}, []string{"call: is missing", "ttl_ms: -1 is not from 1 to 86400000"}},
		{"of a settlement", func(ctx context.Context) error {
			_, err := client.Settle(ctx, new(penstockv1.SettleRequest))
			return err
		}, []string{"cost: set either cost or response", "reservation: is missing"}},
		{"of a response", func(ctx context.Context) error {
			_, err := client.Settle(ctx, &penstockv1.SettleRequest{Reservation: "r", Response: &penstockv1.Response{Bytes: -5}})
			return err
		}, []string{"response.bytes: -5 must be at least 0, or -1 if unknown"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := violations(t, test.ask(patient(t)))
			if strings.Join(got, "\n") != strings.Join(test.want, "\n") {
				t.Errorf("told\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(test.want, "\n"))
			}
		})
	}
	if v, err := client.Check(patient(t), call("/search")); err != nil || v.Limits[0].Used != 1 {
		t.Errorf("%v, %v: a call with mistakes was charged", v, err)
	}
}

func TestSizes(t *testing.T) {
	client := newClient(t)
	long := call("/search")
	for i := range 10 {
		long.Attributes[strings.Repeat("x", i+1)] = strings.Repeat("v", 8<<10)
	}
	_, err := client.Check(patient(t), long)
	if got := violations(t, err); len(got) != 1 || !strings.HasSuffix(got[0], "bytes; at most 65536") {
		t.Errorf("told %q", got)
	}
	batch := &penstockv1.CheckBatchRequest{Calls: []*penstockv1.CheckRequest{long, call("/search")}}
	if r, err := client.CheckBatch(patient(t), batch); err != nil || len(r.Results) != 2 || !r.Results[1].Allowed {
		t.Errorf("a batch within its limit: %v, %v", r, err)
	}
	for range 12 {
		batch.Calls = append(batch.Calls, long)
	}
	_, err = client.CheckBatch(patient(t), batch)
	wantCode(t, err, codes.ResourceExhausted) // grpc's own limit: it was not even read
	_, err = client.CheckBatch(patient(t), &penstockv1.CheckBatchRequest{Calls: make([]*penstockv1.CheckRequest, 1001)})
	if got := violations(t, err); len(got) != 1 || got[0] != "calls: 1001 calls, must be from 1 to 1000" {
		t.Errorf("told %q", got)
	}
}

// Of very many errors the first are reported, with the number of the others.
func TestManyMistakes(t *testing.T) {
	client := newClient(t)
	batch := new(penstockv1.CheckBatchRequest)
	for range 40 {
		batch.Calls = append(batch.Calls, &penstockv1.CheckRequest{Cost: proto.Int64(-1)})
	}
	_, err := client.CheckBatch(patient(t), batch)
	if got := violations(t, err); len(got) != wire.MaxMistakes {
		t.Errorf("told %d, want %d", len(got), wire.MaxMistakes)
	}
	if text := status.Convert(err).Message(); !strings.HasSuffix(text, "; and 8 more") {
		t.Errorf("told %q", text)
	}
}

// blamingDecider is a decider that finds its own errors.
type blamingDecider struct{}

func (blamingDecider) Decide(context.Context, *penstock.Call, *penstock.Verdict) error {
	return fmt.Errorf("%w call: this\n%w call: that", penstock.ErrInvalid, penstock.ErrInvalid)
}

func (blamingDecider) Conclude(context.Context, *penstock.Conclusion, *penstock.Verdict) error {
	return fmt.Errorf("%w settlement", penstock.ErrInvalid)
}

func TestBlamed(t *testing.T) {
	client := penstockv1.NewDecisionsClient(serve(t, grpcapi.Options{Decider: blamingDecider{}, Concluder: blamingDecider{}}))
	_, err := client.Check(patient(t), call("/search"))
	if got := violations(t, err); len(got) != 2 || got[0] != ": invalid call: this" || got[1] != ": invalid call: that" {
		t.Errorf("told %q", got)
	}
	_, err = client.Release(patient(t), &penstockv1.ReleaseRequest{Reservation: "some"})
	if got := violations(t, err); len(got) != 1 || got[0] != ": invalid settlement" {
		t.Errorf("told %q", got)
	}
	reply, err := client.CheckBatch(patient(t), &penstockv1.CheckBatchRequest{Calls: []*penstockv1.CheckRequest{call("/search")}})
	if err != nil || reply.Results[0].Allowed || reply.Results[0].Error == "" {
		t.Errorf("%v, %v: want it denied with an error", reply, err)
	}
}
