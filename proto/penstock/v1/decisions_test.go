package penstockv1_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/penstock-io/penstock"
	penstockv1 "github.com/penstock-io/penstock/proto/penstock/v1"
)

// What is compiled in is what decisions.proto says.
func TestGenerated(t *testing.T) {
	protoc, err := exec.LookPath("protoc")
	if err != nil {
		t.Skip("no protoc to read decisions.proto with: apt-get install protobuf-compiler")
	}
	out, err := exec.Command(protoc, "--proto_path=../..", "--descriptor_set_out=/dev/stdout", "penstock/v1/decisions.proto").Output()
	if err != nil {
		t.Fatalf("protoc: %v", err)
	}
	var set descriptorpb.FileDescriptorSet
	if err := proto.Unmarshal(out, &set); err != nil {
		t.Fatal(err)
	}
	written := set.File[0]
	generated := protodesc.ToFileDescriptorProto(penstockv1.File_penstock_v1_decisions_proto)
	if diff := cmp.Diff(written, generated, protocmp.Transform(), protocmp.IgnoreFields(&descriptorpb.FieldDescriptorProto{}, "json_name")); diff != "" {
		t.Errorf("decisions.proto and its Go code differ: run make generate\n-written +generated\n%s", diff)
	}
}

// Both ends convert enums by number: the names must be the same as everywhere else.
func TestEnums(t *testing.T) {
	same(t, penstockv1.Reason(0).Descriptor(), "REASON_", 1, func(i int) string { return penstock.Reason(i).String() })
	same(t, penstockv1.Quality(0).Descriptor(), "QUALITY_", 1, func(i int) string { return penstock.Quality(i).String() })
	same(t, penstockv1.Algorithm(0).Descriptor(), "ALGORITHM_", 0, func(i int) string { return penstock.Algorithm(i).String() })
	same(t, penstockv1.Refill(0).Descriptor(), "REFILL_", 0, func(i int) string { return penstock.Refill(i).String() })
}

// same checks that the value with each number is named like the one of the root package that many
// less, and that neither has more.
func same(t *testing.T, enum protoreflect.EnumDescriptor, prefix string, less int, name func(int) string) {
	t.Helper()
	values := enum.Values()
	for i := 1; i < values.Len(); i++ {
		v := values.Get(i)
		got := strings.ToLower(strings.TrimPrefix(string(v.Name()), prefix))
		if want := name(int(v.Number()) - less); got != want {
			t.Errorf("%s = %d is %q in the root package", v.Name(), v.Number(), want)
		}
	}
	if beyond := name(values.Len() - less); !strings.HasPrefix(beyond, string(enum.Name())+"(") {
		t.Errorf("%s lacks %q", enum.Name(), beyond)
	}
}
