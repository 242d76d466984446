package server

import (
	"fmt"
	"strings"
	"testing"

	"github.com/penstock-io/penstock/internal/config"
	"github.com/penstock-io/penstock/rules"
)

// Attributes that no listener can provide are named, with what would provide them.
func TestUnprovidedAttributes(t *testing.T) {
	const text = `
attributes: {model: {json: model}, plan: {claim: plan}, peer: {certificate: common_name}, user: {header: X-User}}
rules:
  - {name: a, key: [model, plan, peer, user], limits: [10/1m]}
  - {name: b, mode: "off", key: [model], limits: [10/1m]}
`
	doc, err := rules.Parse("rules.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	s, _, err := rules.Compile(doc, rules.Options{Secret: "of the tests"})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name   string
		change func(*config.Config)
		want   []string
	}{
		{"a gateway", func(*config.Config) {}, []string{`rule "a": no request at listen.gateway has peer`, `rule "a": no request at listen.gateway has plan`}},
		{"a gateway with tokens and certificates", func(c *config.Config) { c.JWT.JWKSURL, c.Gateway.TLS.ClientCA = "https://id.example.com/", "ca.pem" }, nil},
		{"only gRPC", func(c *config.Config) { c.Listen.Gateway, c.Listen.HTTP = "", "" }, []string{`rule "a": no listener reads bodies, so model always has its default`}},
		{"no gateway", func(c *config.Config) { c.Listen.Gateway = "" }, nil},
	} {
		c := config.Default()
		c.Listen.Gateway, c.Listen.HTTP, c.Listen.GRPC = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
		test.change(c)
		got := fmt.Sprint(checkProvided(c, s))
		if strings.Count(got, "rule ") != len(test.want) {
			t.Errorf("%s: %s", test.name, got)
		}
		for _, want := range test.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s: %s lacks %q", test.name, got, want)
			}
		}
	}
}
