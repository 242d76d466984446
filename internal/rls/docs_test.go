package rls_test

import (
	"encoding/json"
	"os"
	"regexp"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_authz/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ratelimit/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	"github.com/goccy/go-yaml"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

var snippet = regexp.MustCompile("(?ms)^ *```yaml\n(.*?)^ *```$")

// Envoy can read the configuration in the documentation.
func TestDocumentedConfiguration(t *testing.T) {
	text, err := os.ReadFile("../../docs/reference/envoy.md")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]int{}
	for _, match := range snippet.FindAllSubmatch(text, -1) {
		var content any
		if err := yaml.Unmarshal(match[1], &content); err != nil {
			t.Errorf("%v\n%s", err, match[1])
			continue
		}
		look(t, content, found)
	}
	for what, want := range map[string]int{"@type": 6, "clusters": 1, "rate_limits": 4} {
		if found[what] != want {
			t.Errorf("found %d of %s, want %d", found[what], what, want)
		}
	}
}

// look checks everything in a snippet that has a type of Envoy's.
func look(t *testing.T, content any, found map[string]int) {
	t.Helper()
	switch content := content.(type) {
	case []any:
		for _, item := range content {
			look(t, item, found)
		}
	case map[string]any:
		for key, value := range content {
			switch key {
			case "@type":
				found[key]++
				readable(t, content, &anypb.Any{})
			case "clusters":
				found[key]++
				readable(t, value.([]any)[0], &clusterv3.Cluster{})
			case "rate_limits":
				found[key]++
				readable(t, value.([]any)[0], &routev3.RateLimit{})
			}
			look(t, value, found)
		}
	}
}

func readable(t *testing.T, content any, as proto.Message) {
	t.Helper()
	text, err := json.Marshal(content)
	if err == nil {
		err = protojson.Unmarshal(text, as)
	}
	if checked, ok := as.(interface{ ValidateAll() error }); ok && err == nil {
		err = checked.ValidateAll()
	}
	if inner, ok := as.(*anypb.Any); ok && err == nil {
		var message proto.Message
		if message, err = inner.UnmarshalNew(); err == nil {
			err = message.(interface{ ValidateAll() error }).ValidateAll()
		}
	}
	if err != nil {
		t.Errorf("%v\n%s", err, text)
	}
}
