package main

import (
	"crypto/tls"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	configv3 "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/grpc/credentials"

	"github.com/penstock-io/penstock/internal/certtest"
	"github.com/penstock-io/penstock/internal/nodetest"
	"github.com/penstock-io/penstock/internal/redistest"
	"github.com/penstock-io/penstock/internal/xdstest"
)

// Penstock runs in a container that Envoy Gateway makes for envoyproxy/ratelimit: as /bin/ratelimit, with these
// variables, the certificates in these files, and no configuration until a policy is created.
func TestEnvoyGatewaysContainer(t *testing.T) {
	t.Parallel()
	ca := certtest.NewAuthority(t)
	own := ca.Issue(t, "envoy-ratelimit", "localhost")
	pair, err := tls.LoadX509KeyPair(own.Certificate, own.Key)
	if err != nil {
		t.Fatal(err)
	}
	gateway := xdstest.Start(t, "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: ca.Client(t).RootCAs, ClientAuth: tls.RequireAndVerifyClientCert})
	dir := t.TempDir()
	p, err := tryProgram(t, t.Output(), []string{"ratelimit"},
		"RUNTIME_ROOT=/data", "RUNTIME_SUBDIRECTORY=ratelimit", "RUNTIME_IGNOREDOTFILES=true", "RUNTIME_WATCH_ROOT=false", "LOG_LEVEL=info", "USE_STATSD=false",
		"CONFIG_TYPE=GRPC_XDS_SOTW", "CONFIG_GRPC_XDS_SERVER_URL=localhost"+gateway.Address[strings.LastIndex(gateway.Address, ":"):], "CONFIG_GRPC_XDS_NODE_ID=envoy-ratelimit",
		"GRPC_SERVER_USE_TLS=true", "GRPC_SERVER_TLS_CERT="+own.Certificate, "GRPC_SERVER_TLS_KEY="+own.Key, "GRPC_SERVER_TLS_CA_CERT="+ca.File,
		"CONFIG_GRPC_XDS_SERVER_USE_TLS=true", "CONFIG_GRPC_XDS_CLIENT_TLS_CERT="+own.Certificate, "CONFIG_GRPC_XDS_CLIENT_TLS_KEY="+own.Key, "CONFIG_GRPC_XDS_SERVER_TLS_CACERT="+ca.File,
		"FORCE_START_WITHOUT_INITIAL_CONFIG=true", "REDIS_SOCKET_TYPE=tcp", "REDIS_URL="+redistest.Start(t).Addr,
		"USE_PROMETHEUS=true", "PROMETHEUS_ADDR=127.0.0.1:0", "PROMETHEUS_MAPPER_YAML=/etc/statsd-exporter/conf.yaml",
		"PORT=0", "GRPC_PORT=0", "HOST=127.0.0.1", "GRPC_HOST=127.0.0.1", // it uses the defaults, 8080 and 8081
		"PENSTOCK_KEY_SECRET=0123456789abcdef0123456789abcdef", "PENSTOCK_DATA_DIR="+dir, "PENSTOCK_STORE_REDIS_TIMEOUT=20s", "PENSTOCK_LISTEN_ADMIN=127.0.0.1:0",
	)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{p.addresses["http"] + "/healthcheck", p.addresses["metrics"] + "/metrics"} {
		if answer, _ := nodetest.Send(t, http.DefaultClient, nodetest.Request{Method: http.MethodGet, URL: "http://" + path}); answer.StatusCode != http.StatusOK {
			t.Errorf("%s: %s", path, answer.Status)
		}
	}
	if got := passed(t, p, "u", 2, credentials.NewTLS(ca.Client(t))); got != 2 {
		t.Errorf("%d of two pass before there are limits", got)
	}
	gateway.Push("envoy-ratelimit", "1", perUserByXDS(configv3.RateLimitUnit_DAY, 1))
	nodetest.Eventually(t, "the limits are acknowledged", func() bool { acked, _ := gateway.Answers(); return len(acked) == 1 })
	if got := passed(t, p, "v", 2, credentials.NewTLS(ca.Client(t))); got != 1 {
		t.Errorf("%d of two pass, want 1", got)
	}
	nodetest.Eventually(t, "a copy is kept", func() bool { _, err := os.Stat(filepath.Join(dir, "xds.last-good")); return err == nil })
}
