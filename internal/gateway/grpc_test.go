package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// The cases are those of grpc-go's package interop by the same names. That package itself needs modules for
// authentication.

const initialKey, trailingKey = "x-grpc-test-echo-initial", "x-grpc-test-echo-trailing-bin"

// A grpcServer is a server with the service of the cases.
type grpcServer struct {
	testgrpc.UnimplementedTestServiceServer
}

func (grpcServer) EmptyCall(context.Context, *testgrpc.Empty) (*testgrpc.Empty, error) {
	return new(testgrpc.Empty), nil
}

func (grpcServer) UnaryCall(ctx context.Context, in *testgrpc.SimpleRequest) (*testgrpc.SimpleResponse, error) {
	header, trailer := echoed(ctx)
	_ = grpc.SetHeader(ctx, header)
	_ = grpc.SetTrailer(ctx, trailer)
	if s := in.ResponseStatus; s.GetCode() != 0 {
		return nil, status.Error(codes.Code(s.Code), s.Message)
	}
	return &testgrpc.SimpleResponse{Payload: payload(in.ResponseSize)}, nil
}

// echoed returns the metadata that the client wants back.
func echoed(ctx context.Context) (header, trailer metadata.MD) {
	header, trailer = metadata.MD{}, metadata.MD{}
	got, _ := metadata.FromIncomingContext(ctx)
	if v := got[initialKey]; v != nil {
		header[initialKey] = v
	}
	if v := got[trailingKey]; v != nil {
		trailer[trailingKey] = v
	}
	return header, trailer
}

func payload(size int32) *testgrpc.Payload { return &testgrpc.Payload{Body: make([]byte, size)} }

func (grpcServer) StreamingInputCall(stream testgrpc.TestService_StreamingInputCallServer) error {
	var sum int32
	for {
		in, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return stream.SendAndClose(&testgrpc.StreamingInputCallResponse{AggregatedPayloadSize: sum})
		}
		if err != nil {
			return err
		}
		sum += int32(len(in.GetPayload().GetBody()))
	}
}

func (grpcServer) StreamingOutputCall(in *testgrpc.StreamingOutputCallRequest, stream testgrpc.TestService_StreamingOutputCallServer) error {
	for _, p := range in.ResponseParameters {
		if err := stream.Send(&testgrpc.StreamingOutputCallResponse{Payload: payload(p.Size)}); err != nil {
			return err
		}
	}
	return nil
}

func (grpcServer) FullDuplexCall(stream testgrpc.TestService_FullDuplexCallServer) error {
	header, trailer := echoed(stream.Context())
	_ = stream.SetHeader(header)
	stream.SetTrailer(trailer)
	for {
		in, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if s := in.ResponseStatus; s.GetCode() != 0 {
			return status.Error(codes.Code(s.Code), s.Message)
		}
		for _, p := range in.ResponseParameters {
			if err := stream.Send(&testgrpc.StreamingOutputCallResponse{Payload: payload(p.Size)}); err != nil {
				return err
			}
		}
	}
}

// serveGRPC starts a server and returns its address.
func serveGRPC(t *testing.T, o ...grpc.ServerOption) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(o...)
	testgrpc.RegisterTestServiceServer(server, grpcServer{})
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	t.Cleanup(func() {
		server.Stop()
		<-served
	})
	return l.Addr().String()
}

// TestGRPC calls a real server through the gateway, without TLS and with it.
func TestGRPC(t *testing.T) {
	pair := newPair(t)
	certificate, err := tls.LoadX509KeyPair(pair.certificate, pair.key)
	if err != nil {
		t.Fatal(err)
	}
	secure := &tls.Config{Certificates: []tls.Certificate{certificate}, NextProtos: []string{"h2"}}
	for name, test := range map[string]struct {
		options Options
		dial    credentials.TransportCredentials
	}{
		"h2c": {Options{Upstreams: upstreams("h2c://" + serveGRPC(t)), H2C: true}, insecure.NewCredentials()},
		"TLS": {
			Options{Upstreams: []Upstream{{URLs: []string{"https://" + serveGRPC(t, grpc.Creds(credentials.NewTLS(secure)))}, RootCAs: pair.certificate}}, TLS: pair.files(t)},
			credentials.NewTLS(&tls.Config{RootCAs: pair.pool}),
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, setting{rules: everyCall, options: test.options})
			conn, err := grpc.NewClient(s.listen.String(), grpc.WithTransportCredentials(test.dial))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			client := testgrpc.NewTestServiceClient(conn)
			for name, check := range grpcCases {
				if err := check(ctx, client); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
			_, err = testgrpc.NewUnimplementedServiceClient(conn).UnimplementedCall(ctx, &testgrpc.Empty{})
			if err := wantCode(err, codes.Unimplemented, ""); err != nil {
				t.Errorf("unimplemented_service: %v", err)
			}
		})
	}
}

func wantCode(err error, code codes.Code, message string) error {
	if s := status.Convert(err); s.Code() != code || message != "" && s.Message() != message {
		return fmt.Errorf("status %v %q, want %v %q", s.Code(), s.Message(), code, message)
	}
	return nil
}

var grpcCases = map[string]func(context.Context, testgrpc.TestServiceClient) error{
	"empty_unary": func(ctx context.Context, c testgrpc.TestServiceClient) error {
		_, err := c.EmptyCall(ctx, &testgrpc.Empty{})
		return err
	},
	"large_unary": func(ctx context.Context, c testgrpc.TestServiceClient) error {
		out, err := c.UnaryCall(ctx, &testgrpc.SimpleRequest{ResponseSize: 314159, Payload: payload(271828)})
		if n := len(out.GetPayload().GetBody()); err == nil && n != 314159 {
			return fmt.Errorf("%d bytes", n)
		}
		return err
	},
	"client_streaming": func(ctx context.Context, c testgrpc.TestServiceClient) error {
		stream, err := c.StreamingInputCall(ctx)
		if err != nil {
			return err
		}
		for _, size := range []int32{27182, 8, 1828, 45904} {
			if err := stream.Send(&testgrpc.StreamingInputCallRequest{Payload: payload(size)}); err != nil {
				return err
			}
		}
		out, err := stream.CloseAndRecv()
		if err == nil && out.AggregatedPayloadSize != 74922 {
			return fmt.Errorf("%d bytes", out.AggregatedPayloadSize)
		}
		return err
	},
	"server_streaming": func(ctx context.Context, c testgrpc.TestServiceClient) error {
		sizes := []int32{31415, 9, 2653, 58979}
		in := &testgrpc.StreamingOutputCallRequest{}
		for _, size := range sizes {
			in.ResponseParameters = append(in.ResponseParameters, &testgrpc.ResponseParameters{Size: size})
		}
		stream, err := c.StreamingOutputCall(ctx, in)
		if err != nil {
			return err
		}
		for _, size := range sizes {
			if out, err := stream.Recv(); err != nil || len(out.Payload.Body) != int(size) {
				return fmt.Errorf("%d bytes of %d: %w", len(out.GetPayload().GetBody()), size, err)
			}
		}
		return wantEnd(stream.Recv())
	},
	"ping_pong": func(ctx context.Context, c testgrpc.TestServiceClient) error {
		stream, err := c.FullDuplexCall(ctx)
		if err != nil {
			return err
		}
		for _, size := range []int32{31415, 9, 2653, 58979} {
			if err := exchangeOne(stream, size); err != nil {
				return err
			}
		}
		if err := stream.CloseSend(); err != nil {
			return err
		}
		return wantEnd(stream.Recv())
	},
	"empty_stream": func(ctx context.Context, c testgrpc.TestServiceClient) error {
		stream, err := c.FullDuplexCall(ctx)
		if err != nil {
			return err
		}
		if err := stream.CloseSend(); err != nil {
			return err
		}
		return wantEnd(stream.Recv())
	},
	"custom_metadata": func(ctx context.Context, c testgrpc.TestServiceClient) error {
		ctx = metadata.NewOutgoingContext(ctx, metadata.Pairs(initialKey, "initial", trailingKey, "\x0a\x0b\x0a\x0b"))
		var header, trailer metadata.MD
		_, err := c.UnaryCall(ctx, &testgrpc.SimpleRequest{ResponseSize: 1}, grpc.Header(&header), grpc.Trailer(&trailer))
		if got := fmt.Sprintf("%q %q", header[initialKey], trailer[trailingKey]); err == nil && got != `["initial"] ["\n\v\n\v"]` {
			return errors.New(got)
		}
		return err
	},
	"status_code_and_message": func(ctx context.Context, c testgrpc.TestServiceClient) error {
		echo := &testgrpc.EchoStatus{Code: 2, Message: "test status message"}
		_, err := c.UnaryCall(ctx, &testgrpc.SimpleRequest{ResponseStatus: echo})
		if err := wantCode(err, codes.Unknown, echo.Message); err != nil {
			return err
		}
		stream, err := c.FullDuplexCall(ctx)
		if err != nil {
			return err
		}
		if err := stream.Send(&testgrpc.StreamingOutputCallRequest{ResponseStatus: echo}); err != nil {
			return err
		}
		_, err = stream.Recv()
		return wantCode(err, codes.Unknown, echo.Message)
	},
	"special_status_message": func(ctx context.Context, c testgrpc.TestServiceClient) error {
		echo := &testgrpc.EchoStatus{Code: 2, Message: "\t\ntest with whitespace\r\nand Unicode BMP ☺ and non-BMP 😈\t\n"}
		_, err := c.UnaryCall(ctx, &testgrpc.SimpleRequest{ResponseStatus: echo})
		return wantCode(err, codes.Unknown, echo.Message)
	},
	"unimplemented_method": func(ctx context.Context, c testgrpc.TestServiceClient) error {
		_, err := c.UnimplementedCall(ctx, &testgrpc.Empty{})
		return wantCode(err, codes.Unimplemented, "")
	},
	"cancel_after_begin": func(ctx context.Context, c testgrpc.TestServiceClient) error {
		ctx, cancel := context.WithCancel(ctx)
		stream, err := c.StreamingInputCall(ctx)
		cancel()
		if err != nil {
			return err
		}
		_, err = stream.CloseAndRecv()
		return wantCode(err, codes.Canceled, "")
	},
	"cancel_after_first_response": func(ctx context.Context, c testgrpc.TestServiceClient) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		stream, err := c.FullDuplexCall(ctx)
		if err != nil {
			return err
		}
		if err := exchangeOne(stream, 31415); err != nil {
			return err
		}
		cancel()
		_, err = stream.Recv()
		return wantCode(err, codes.Canceled, "")
	},
	"timeout_on_sleeping_server": func(ctx context.Context, c testgrpc.TestServiceClient) error {
		ctx, cancel := context.WithTimeout(ctx, time.Millisecond)
		defer cancel()
		stream, err := c.FullDuplexCall(ctx)
		if err == nil {
			_, err = stream.Recv()
		}
		return wantCode(err, codes.DeadlineExceeded, "")
	},
}

// exchangeOne asks for one message and waits for it.
func exchangeOne(stream testgrpc.TestService_FullDuplexCallClient, size int32) error {
	in := &testgrpc.StreamingOutputCallRequest{ResponseParameters: []*testgrpc.ResponseParameters{{Size: size}}, Payload: payload(size)}
	if err := stream.Send(in); err != nil {
		return err
	}
	out, err := stream.Recv()
	if n := len(out.GetPayload().GetBody()); err == nil && n != int(size) {
		return fmt.Errorf("%d bytes of %d", n, size)
	}
	return err
}

func wantEnd(_ *testgrpc.StreamingOutputCallResponse, err error) error {
	if !errors.Is(err, io.EOF) {
		return fmt.Errorf("instead of the end: %v", err)
	}
	return nil
}
