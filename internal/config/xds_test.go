package config

import (
	"reflect"
	"strings"
	"testing"
)

func TestXDS(t *testing.T) {
	c, err := load(t, "rules: {xds: {server: 'gateway:18001', node_id: edge, node_metadata: [zone=a], headers: ['authorization=Bearer a=b']}}"+upstream, nil)
	if err != nil {
		t.Fatal(err)
	}
	o := c.Rules.XDS.Options()
	if o.Server != "gateway:18001" || o.NodeID != "edge" || o.TLS != nil || o.MaxBytes != 16<<20 ||
		!reflect.DeepEqual(o.Metadata, map[string]string{"zone": "a"}) || !reflect.DeepEqual(o.Headers, map[string]string{"authorization": "Bearer a=b"}) {
		t.Errorf("got %+v", o)
	}
	if c.Rules.Database != "" || c.Rules.Compiler() == nil || !c.Rules.IsEnvoy() {
		t.Errorf("got %+v", c.Rules)
	}
}

func TestXDSMistakes(t *testing.T) {
	for yaml, want := range map[string]string{
		"server: gateway":                                                  `invalid address "gateway"`,
		"server: 'g:1', node_metadata: [zone]":                             `"zone" is not name=value`,
		"server: 'g:1', headers: ['secret-token']":                         "number 1 is not name=value",
		"server: 'g:1', headers: [\"a=b\\nc\"]":                            "number 1 is not name=value",
		"server: 'g:1', max_bytes: 1":                                      "from 1KiB to 1GiB",
		"server: 'g:1', tls: {certificate: x.pem}":                         "must be set together",
		"server: 'g:1', tls: {enabled: true, ca: /nowhere.pem}":            "rules.xds.tls.ca: read CA certificates",
		"server: 'g:1', tls: {enabled: true, certificate: /n.pem, key: k}": "rules.xds.tls.certificate: open /n.pem",
	} {
		_, err := load(t, "rules: {xds: {"+yaml+"}}"+upstream, nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", yaml, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "secret-token") {
			t.Errorf("the error tells a secret: %v", err)
		}
	}
}
