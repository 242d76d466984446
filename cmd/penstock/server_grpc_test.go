package main

import (
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	grpcstatus "google.golang.org/grpc/status"
)

// Nobody learns what there is to ask unless the operator wants it.
func TestReflection(t *testing.T) {
	for config, want := range map[string]codes.Code{"": codes.Unimplemented, "grpc: {reflection: true}": codes.OK} {
		n := startNode(t, config)
		conn, err := grpc.NewClient(n.door("grpc").listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		stream, err := reflectionpb.NewServerReflectionClient(conn).ServerReflectionInfo(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_ = stream.Send(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}}) // Recv says why not
		if _, err := stream.Recv(); grpcstatus.Code(err) != want {
			t.Errorf("%q: got %v, want %v", config, err, want)
		}
	}
}
