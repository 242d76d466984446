package xdsconfig

import (
	"strings"
	"testing"

	configv3 "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/penstock-io/penstock/internal/envoyratelimit"
	"github.com/penstock-io/penstock/rules"
)

func anyOf(t *testing.T, m proto.Message) *anypb.Any {
	t.Helper()
	a, err := anypb.New(m)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// Every field of the messages has the same meaning as in a file.
func TestConvert(t *testing.T) {
	quota := &configv3.RateLimitDescriptor{Key: "quota", RateLimit: &configv3.RateLimitPolicy{Unit: 7, RequestsPerUnit: 7}}
	quota.ProtoReflect().SetUnknown(protowire.AppendVarint(protowire.AppendTag(nil, 7, protowire.VarintType), 1)) // quota_mode
	files := convert([]*anypb.Any{anyOf(t, &configv3.RateLimitConfig{
		Name: "all", Domain: "mesh <&> \"x\"\u2028é",
		Descriptors: []*configv3.RateLimitDescriptor{
			{Key: "a", Value: "1", RateLimit: &configv3.RateLimitPolicy{Unit: 1, Name: "first", Replaces: []*configv3.RateLimitReplace{{Name: "second"}}}},
			{Key: "b", ShadowMode: true, DetailedMetric: true, RateLimit: &configv3.RateLimitPolicy{Unit: 5, RequestsPerUnit: 5}, Descriptors: []*configv3.RateLimitDescriptor{
				{Key: "c", RateLimit: &configv3.RateLimitPolicy{Unlimited: true}},
			}},
			quota,
		},
	}), anyOf(t, &configv3.RateLimitConfig{Domain: "a"})})
	want := []rules.File{{Name: "a", Data: []byte("domain: a")}, {Name: "all", Data: []byte(`
domain: "mesh <&> \"x\"\u2028é"
descriptors:
  - {key: a, value: "1", rate_limit: {unit: second, requests_per_unit: 0, name: first, replaces: [{name: second}]}}
  - key: b
    shadow_mode: true
    detailed_metric: true
    rate_limit: {unit: month, requests_per_unit: 5}
    descriptors: [{key: c, rate_limit: {unlimited: true}}]
  - {key: quota, quota_mode: true, rate_limit: {unit: week, requests_per_unit: 7}}
`)}}
	if diff := cmp.Diff(compiled(t, want), compiled(t, files)); diff != "" {
		t.Errorf("(-file +xDS):\n%s\n%s", diff, files[1].Data)
	}
	if text := string(files[1].Data); !strings.Contains(text, `"quota_mode": true`) || !strings.Contains(text, `"replaces"`) {
		t.Errorf("got\n%s", text)
	}
}

// compiled describes the limits in files.
func compiled(t *testing.T, files []rules.File) (all []string) {
	t.Helper()
	s, warnings, err := Compile(envoyratelimit.Options{})(files, rules.Options{})
	if err != nil || len(warnings) > 0 {
		t.Fatal(err, warnings)
	}
	for _, r := range s.Rules {
		all = append(all, strings.Join([]string{r.Name, r.Mode.String(), r.Limits[0].String()}, " "))
	}
	return all
}

func TestUnreadableResources(t *testing.T) {
	files := convert([]*anypb.Any{
		anyOf(t, &configv3.RateLimitConfig{Name: "good", Domain: "mesh"}), anyOf(t, durationpb.New(1)),
		{TypeUrl: TypeURL, Value: []byte("\xff")},
	})
	_, _, err := Compile(envoyratelimit.Options{})(files, rules.Options{})
	if err == nil || strings.Count(err.Error(), "cannot decode the resource") != 2 {
		t.Errorf("got %v", err)
	}
}

// Fields of newer versions of the messages are not dropped silently.
func TestUnknownFields(t *testing.T) {
	inner := &configv3.RateLimitDescriptor{Key: "b", RateLimit: &configv3.RateLimitPolicy{Unit: 1, RequestsPerUnit: 1}}
	config := &configv3.RateLimitConfig{Name: "edge", Domain: "mesh", Descriptors: []*configv3.RateLimitDescriptor{{Key: "a", Descriptors: []*configv3.RateLimitDescriptor{inner}}}}
	compile := func() rules.Problems {
		t.Helper()
		s, warnings, err := Compile(envoyratelimit.Options{})(convert([]*anypb.Any{anyOf(t, config)}), rules.Options{})
		if err != nil || len(s.Rules) != 1 {
			t.Fatal(s, err)
		}
		return warnings
	}
	field := func(number protowire.Number) []byte {
		return protowire.AppendVarint(protowire.AppendTag(nil, number, protowire.VarintType), 1)
	}
	inner.ProtoReflect().SetUnknown(field(7)) // quota_mode
	if w := compile(); len(w) != 0 {
		t.Errorf("warnings %v", w)
	}
	for _, m := range []proto.Message{inner, inner.RateLimit, config} {
		m.ProtoReflect().SetUnknown(field(99))
		if w := compile(); len(w) != 1 || !strings.Contains(w[0].String(), "edge: ") || !strings.Contains(w[0].String(), "does not know some fields") {
			t.Errorf("%T: warnings %v", m, w)
		}
		m.ProtoReflect().SetUnknown(nil)
	}
}
