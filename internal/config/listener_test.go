package config

import (
	"strings"
	"testing"
)

func TestListenerMistakes(t *testing.T) {
	for yaml, want := range map[string]string{
		"listen: {http: 'unix:///run/http.sock'}":                                        `invalid address "unix:///run/http.sock"`,
		"listen: {grpc: 'unix://grpc.sock'}":                                             "must be absolute",
		"listen: {socket_mode: rw}":                                                      `invalid file mode "rw"`,
		"grpc: {tls: {certificate: cert.pem}}":                                           "certificate and key must be set together",
		"grpc: {tls: {certificate: cert.pem, key: key.pem, client_names: [envoy]}}":      "client_names require required",
		"store: {redis: {addresses: ['unix://redis.sock']}}":                             "absolute path",
		"store: {redis: {addresses: ['unix:///redis.sock'], mode: sentinel, master: m}}": "mode single",
		"store: {redis: {addresses: ['unix:///redis.sock'], tls: {enabled: true}}}":      "without tls",
	} {
		_, err := load(t, yaml+upstream, nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", yaml, err, want)
		}
	}
}
