package grpcapi_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/penstock-io/penstock/internal/grpcapi"
	"github.com/penstock-io/penstock/internal/racetest"
	penstockv1 "github.com/penstock-io/penstock/proto/penstock/v1"
)

// A request that is not completely received ends by the server's deadline, even if the client's is later. Health
// watches have no deadline.
func TestDeadline(t *testing.T) {
	e, states := newEngine(t, nil), health.NewServer()
	conn := serve(t, grpcapi.Options{Decider: e, Concluder: e, Health: states, MaxDuration: 100 * time.Millisecond})
	watch, err := grpc_health_v1.NewHealthClient(conn).Watch(patient(t), &grpc_health_v1.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if r, err := watch.Recv(); err != nil || r.Status != grpc_health_v1.HealthCheckResponse_SERVING {
		t.Fatal(r, err)
	}
	for range 3 {
		unfinished, err := conn.NewStream(patient(t), &grpc.StreamDesc{ClientStreams: true}, penstockv1.Decisions_Check_FullMethodName)
		if err != nil {
			t.Fatal(err)
		}
		wantCode(t, unfinished.RecvMsg(new(penstockv1.Verdict)), codes.DeadlineExceeded)
	}
	states.SetServingStatus("", grpc_health_v1.HealthCheckResponse_NOT_SERVING)
	if r, err := watch.Recv(); err != nil || r.Status != grpc_health_v1.HealthCheckResponse_NOT_SERVING {
		t.Error(r, err)
	}
}

func TestCompressedMessagesAreRefused(t *testing.T) {
	_, err := newClient(t).Check(patient(t), call("/search"), grpc.UseCompressor(gzip.Name))
	wantCode(t, err, codes.Internal)
	if want := "compressed messages are not accepted"; !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
}

// rawCodec sends messages unchanged, whatever they are.
type rawCodec struct{}

func (rawCodec) Name() string                { return "proto" }
func (rawCodec) Unmarshal([]byte, any) error { return nil }
func (rawCodec) Marshal(v any) ([]byte, error) {
	return v.([]byte), nil
}

// Large messages give back their room, whether they are answered or refused. There is room for about 30 at a time.
func TestLargeMessages(t *testing.T) {
	racetest.Skip(t, racetest.OneGoroutine)
	e := newEngine(t, nil)
	conn := serve(t, grpcapi.Options{Decider: e, Concluder: e, Batch: e})
	times := 40
	if testing.Short() {
		times = 4
	}
	calls := func(n, length int) []byte {
		call := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), make([]byte, length))
		return bytes.Repeat(protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), call), n)
	}
	for _, test := range []struct {
		name, method string
		message      []byte
		code         codes.Code
		want         string
	}{
		{"long texts", penstockv1.Decisions_CheckBatch_FullMethodName, calls(1000, 1000), codes.InvalidArgument, "domain"},
		{"many calls", penstockv1.Decisions_CheckBatch_FullMethodName, calls(49_000, 0), codes.InvalidArgument, "49000 calls, must be from 1 to "},
		{"too many calls", penstockv1.Decisions_CheckBatch_FullMethodName, calls(51_000, 0), codes.Internal, "the message has more than 100000 fields"},
		{"no message", penstockv1.Decisions_CheckBatch_FullMethodName, bytes.Repeat([]byte{0xff}, 1<<20), codes.Internal, "unmarshal"},
		{"no message after all", penstockv1.Decisions_CheckBatch_FullMethodName, append(calls(1000, 1000), 0xff), codes.Internal, "unmarshal"},
		{"health", grpc_health_v1.Health_Check_FullMethodName, append([]byte{0x0a, 0x80, 0x80, 0x3c}, make([]byte, 60<<14)...), codes.NotFound, ""},
		{"watched health", grpc_health_v1.Health_Watch_FullMethodName, append([]byte{0x0a, 0x80, 0x80, 0x3c}, make([]byte, 60<<14)...), codes.OK, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			for range times {
				stream, err := conn.NewStream(patient(t), &grpc.StreamDesc{ServerStreams: true}, test.method, grpc.ForceCodec(rawCodec{}))
				if err != nil {
					t.Fatal(err)
				}
				if err := stream.SendMsg(test.message); err != nil {
					t.Fatal(err)
				}
				stream.CloseSend()
				err = stream.RecvMsg(nil)
				if status.Code(err) != test.code || !strings.Contains(fmt.Sprint(err), test.want) {
					t.Fatalf("got %.300v, want %v: %s", err, test.code, test.want)
				}
			}
		})
	}
	if _, err := penstockv1.NewDecisionsClient(conn).Check(patient(t), call("/search")); err != nil {
		t.Error(err)
	}
}
