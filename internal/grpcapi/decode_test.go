package grpcapi

import (
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
)

func nested(depth int) *structpb.Value {
	v := structpb.NewStringValue("x")
	for range depth {
		v = structpb.NewListValue(&structpb.ListValue{Values: []*structpb.Value{v}})
	}
	return v
}

func TestCountFields(t *testing.T) {
	for _, test := range []struct {
		name   string
		m      *structpb.Value
		fields int // 0: it is refused
	}{
		{"text", nested(0), 1},
		{"list", structpb.NewListValue(&structpb.ListValue{Values: []*structpb.Value{nested(0), nested(0), nested(1)}}), 1 + 3 + 2 + 3},
		{"fits", nested(49), 99},
		{"too deep", nested(50), 0},
		{"many", structpb.NewListValue(&structpb.ListValue{Values: make([]*structpb.Value, 999)}), 1000},
		{"too many", structpb.NewListValue(&structpb.ListValue{Values: make([]*structpb.Value, 1000)}), 0},
	} {
		b, err := proto.Marshal(test.m)
		if err != nil {
			t.Fatal(err)
		}
		n, err := countFields(b, test.m.ProtoReflect().Descriptor(), 1000, maxDepth)
		if n != test.fields || (err == nil) != (test.fields > 0) {
			t.Errorf("%s: %d fields, %v; want %d", test.name, n, err, test.fields)
		}
		countFields(b[:len(b)/2], test.m.ProtoReflect().Descriptor(), 1000, maxDepth) // must not panic
	}
}
