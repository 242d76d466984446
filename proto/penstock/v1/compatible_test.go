package penstockv1_test

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/penstock-io/penstock/internal/baseline"
	penstockv1 "github.com/penstock-io/penstock/proto/penstock/v1"
)

func TestAPIIsCompatible(t *testing.T) {
	baseline.Check(t, "decisions.baseline", promises(penstockv1.File_penstock_v1_decisions_proto))
}

// promises lists methods, fields with their numbers and types, and the values of enums.
func promises(file protoreflect.FileDescriptor) (lines []string) {
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	for s := range each(file.Services()) {
		for m := range each(s.Methods()) {
			add("rpc %s(%s) %s, streaming %v %v", m.FullName(), m.Input().FullName(), m.Output().FullName(), m.IsStreamingClient(), m.IsStreamingServer())
		}
	}
	addEnums := func(enums protoreflect.EnumDescriptors) {
		for e := range each(enums) {
			for v := range each(e.Values()) {
				add("%s.%s = %d", e.FullName(), v.Name(), v.Number())
			}
		}
	}
	var addMessages func(protoreflect.MessageDescriptors)
	addMessages = func(messages protoreflect.MessageDescriptors) {
		for m := range each(messages) {
			for f := range each(m.Fields()) {
				add("%s = %d %s", f.FullName(), f.Number(), typeOf(f))
				if f.Cardinality() == protoreflect.Required {
					add("%s%s", baseline.Requires, f.FullName())
				}
			}
			addEnums(m.Enums())
			addMessages(m.Messages())
		}
	}
	addEnums(file.Enums())
	addMessages(file.Messages())
	return lines
}

// typeOf tells apart what differs on the wire, in JSON or in generated code.
func typeOf(f protoreflect.FieldDescriptor) string {
	text := f.Kind().String()
	switch {
	case f.Enum() != nil:
		text = string(f.Enum().FullName())
	case f.Message() != nil:
		text = string(f.Message().FullName())
	}
	if f.Cardinality() == protoreflect.Repeated {
		text = "repeated " + text
	}
	if f.HasPresence() && f.Message() == nil {
		text = "optional " + text
	}
	if oneof := f.ContainingOneof(); oneof != nil && !oneof.IsSynthetic() {
		text += " of " + string(oneof.Name())
	}
	return text + " json " + f.JSONName()
}

// each iterates over a list of descriptors.
func each[D any](list interface {
	Len() int
	Get(int) D
}) func(func(D) bool) {
	return func(yield func(D) bool) {
		for i := range list.Len() {
			if !yield(list.Get(i)) {
				return
			}
		}
	}
}

// What breaks a client is found, and what does not is let pass.
func TestPromises(t *testing.T) {
	before := promises(penstockv1.File_penstock_v1_decisions_proto)
	for name, test := range map[string]struct {
		change func(*descriptorpb.FileDescriptorProto)
		want   string // "" if clients keep working
	}{
		"nothing":          {func(*descriptorpb.FileDescriptorProto) {}, ""},
		"field removed":    {func(f *descriptorpb.FileDescriptorProto) { m := f.MessageType[0]; m.Field = m.Field[:len(m.Field)-1] }, "no longer: penstock.v1."},
		"field renamed":    {func(f *descriptorpb.FileDescriptorProto) { f.MessageType[0].Field[0].Name = proto.String("other") }, "no longer: penstock.v1."},
		"field renumbered": {func(f *descriptorpb.FileDescriptorProto) { f.MessageType[0].Field[0].Number = proto.Int32(99) }, "no longer: penstock.v1."},
		"type changed": {func(f *descriptorpb.FileDescriptorProto) {
			f.MessageType[0].Field[0].Type = descriptorpb.FieldDescriptorProto_TYPE_BYTES.Enum()
		}, "no longer: penstock.v1."},
		"value removed":  {func(f *descriptorpb.FileDescriptorProto) { e := f.EnumType[0]; e.Value = e.Value[:len(e.Value)-1] }, "no longer: penstock.v1."},
		"method removed": {func(f *descriptorpb.FileDescriptorProto) { f.Service[0].Method = f.Service[0].Method[1:] }, "no longer: rpc penstock.v1."},

		"field added": {func(f *descriptorpb.FileDescriptorProto) {
			added := proto.CloneOf(f.MessageType[0].Field[0])
			added.Name, added.JsonName, added.Number = proto.String("added"), proto.String("added"), proto.Int32(99)
			f.MessageType[0].Field = append(f.MessageType[0].Field, added)
		}, ""},
		"value added": {func(f *descriptorpb.FileDescriptorProto) {
			f.EnumType[0].Value = append(f.EnumType[0].Value, &descriptorpb.EnumValueDescriptorProto{Name: proto.String("ADDED"), Number: proto.Int32(99)})
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			changed := protodesc.ToFileDescriptorProto(penstockv1.File_penstock_v1_decisions_proto)
			test.change(changed)
			file, err := protodesc.NewFile(changed, nil)
			if err != nil {
				t.Fatal(err)
			}
			broken := strings.Join(baseline.Broken(before, promises(file)), "\n")
			if (broken == "") != (test.want == "") || !strings.HasPrefix(broken, test.want) {
				t.Errorf("%q, want %q", broken, test.want)
			}
		})
	}
}
