package server

import (
	"context"
	"crypto/tls"
	"fmt"
	"math/big"
	"net"
	"strings"
	"testing"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/penstock-io/penstock/internal/certtest"
	"github.com/penstock-io/penstock/internal/nodetest"
)

// Envoy does not always announce HTTP/2 by ALPN.
func TestGRPCOverTLSWithoutALPN(t *testing.T) {
	t.Parallel()
	ca := certtest.NewAuthority(t)
	own := ca.Issue(t, "localhost")
	n := startNode(t, fmt.Sprintf("grpc: {tls: {certificate: %q, key: %q}}", own.Certificate, own.Key))
	conn, err := grpc.NewClient(n.endpoint("grpc").listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, to string) (net.Conn, error) {
			return (&tls.Dialer{Config: ca.Client(t)}).DialContext(ctx, "tcp", to)
		}))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var request rlsv3.RateLimitRequest
	if err := protojson.Unmarshal(fmt.Appendf(nil, oneUser, "u"), &request); err != nil {
		t.Fatal(err)
	}
	if _, err := rlsv3.NewRateLimitServiceClient(conn).ShouldRateLimit(t.Context(), &request); err != nil {
		t.Error(err)
	}
}

// A renewed certificate is used without a restart; one that cannot be used is counted, and the old one stays.
func TestCertificatesAreReadAgain(t *testing.T) {
	t.Parallel()
	ca := certtest.NewAuthority(t)
	pairs := map[string]*certtest.Pair{}
	for _, name := range []string{"grpc", "admin", "gateway"} {
		pair := ca.Issue(t, "localhost")
		pairs[name] = &pair
	}
	n := startNode(t, fmt.Sprintf("grpc: {tls: {certificate: %q, key: %q}}\nadmin: {tls: {certificate: %q, key: %q}}\ngateway: {tls: {certificate: %q, key: %q}}",
		pairs["grpc"].Certificate, pairs["grpc"].Key, pairs["admin"].Certificate, pairs["admin"].Key, pairs["gateway"].Certificate, pairs["gateway"].Key))
	shown := func(name string) *big.Int {
		t.Helper()
		as := ca.Client(t)
		as.NextProtos = []string{"h2"}
		conn, err := tls.Dial("tcp", n.endpoint(name).listener.Addr().String(), as)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		return conn.ConnectionState().PeerCertificates[0].SerialNumber
	}
	for _, pair := range pairs { // all at once: each is noticed when its files are next read
		certtest.ReplaceFile(t, pair.Certificate, []byte("not a certificate"))
	}
	for name, pair := range pairs {
		nodetest.Eventually(t, "the mistake is counted", func() bool { return n.tls[name].Status().Refusals == 1 })
		if shown(name).Cmp(pair.Serial) != 0 {
			t.Errorf("%s: a broken file took the certificate away", name)
		}
	}
	for _, pair := range pairs {
		pair.Replace(t, ca.Issue(t, "localhost"))
	}
	for name, pair := range pairs {
		nodetest.Eventually(t, "the new certificate is shown", func() bool { return shown(name).Cmp(pair.Serial) == 0 })
	}
	if got := n.state().Certificates["grpc"]; got.Reloads != 1 || got.Refusals != 1 || got.NotAfter.IsZero() {
		t.Errorf("the metrics say %+v", got)
	}
	if all := n.status().Certificates; len(all) != 3 || all[2].Listener != "grpc" || all[2].Refusals != 1 || !all[2].NotAfter.After(all[2].NotBefore) {
		t.Errorf("the status says %+v", all)
	}
	if log := n.log.String(); strings.Count(log, "changed TLS files refused, the old certificate stays in use") != 3 || !strings.Contains(log, `"listener":"grpc"`) {
		t.Errorf("the log does not tell of each:\n%s", log)
	}
}
