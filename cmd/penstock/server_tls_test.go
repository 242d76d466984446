package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/penstock-io/penstock/internal/certtest"
	"github.com/penstock-io/penstock/internal/nodetest"
	"github.com/penstock-io/penstock/internal/redistest"
)

// socketDir is a directory whose path leaves room for a socket's name.
func socketDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "penstock")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// envoyFile is a directory with one limit for each user, of so many requests a year.
func envoyFile(t *testing.T, requests int) string {
	t.Helper()
	dir := t.TempDir()
	nodetest.WriteFile(t, filepath.Join(dir, "limits.yaml"), fmt.Sprintf("domain: mesh\ndescriptors: [{key: user, rate_limit: {unit: year, requests_per_unit: %d}}]", requests))
	return dir
}

// serveConfig runs the real program with a configuration file, on free ports.
func serveConfig(t *testing.T, yaml string) *process {
	t.Helper()
	file := filepath.Join(t.TempDir(), "penstock.yaml")
	nodetest.WriteFile(t, file, "data_dir: "+t.TempDir()+"\n"+yaml)
	return startProcess(t, "serve", "--config", file, "--listen-gateway", "", "--listen-http", "127.0.0.1:0", "--listen-admin", "127.0.0.1:0")
}

// limitAs asks over gRPC whether a user is over the limit.
func limitAs(ctx context.Context, target, user string, as credentials.TransportCredentials) (bool, error) {
	conn, err := grpc.NewClient(target, grpc.WithTransportCredentials(as))
	if err != nil {
		return false, err
	}
	defer conn.Close()
	var request rlsv3.RateLimitRequest
	if err := protojson.Unmarshal(fmt.Appendf(nil, oneUser, user), &request); err != nil {
		return false, err
	}
	answer, err := rlsv3.NewRateLimitServiceClient(conn).ShouldRateLimit(ctx, &request)
	return answer.GetOverallCode() == rlsv3.RateLimitResponse_OVER_LIMIT, err
}

func TestGRPCOverTLS(t *testing.T) {
	ca, other := certtest.NewAuthority(t), certtest.NewAuthority(t)
	own, envoy, stranger := ca.Issue(t, "localhost", "127.0.0.1"), ca.Issue(t, "envoy.example"), other.Issue(t, "envoy.example")
	p := serveConfig(t, fmt.Sprintf(`
listen: {grpc: "127.0.0.1:0"}
grpc: {tls: {certificate: %q, key: %q, client_ca: %q, required: true, client_names: [envoy.example]}}
rules: {envoy_ratelimit: %q}
`, own.Certificate, own.Key, ca.File, envoyFile(t, 1)))
	for _, client := range []struct {
		name   string
		as     credentials.TransportCredentials
		passes bool
	}{
		{"without TLS", insecure.NewCredentials(), false},
		{"without a certificate", credentials.NewTLS(ca.Client(t)), false},
		{"with one of another CA", credentials.NewTLS(ca.Client(t, stranger)), false},
		{"with another name", credentials.NewTLS(ca.Client(t, own)), false},
		{"with the right one", credentials.NewTLS(ca.Client(t, envoy)), true},
	} {
		for _, wantOver := range []bool{false, true} {
			over, err := limitAs(t.Context(), p.addresses["grpc"], "u", client.as)
			if (err == nil) != client.passes || err == nil && over != wantOver {
				t.Errorf("%s: over limit %t, %v", client.name, over, err)
			}
		}
	}
}

// Envoy does not always say by ALPN that it speaks HTTP/2.
func TestGRPCOverTLSWithoutALPN(t *testing.T) {
	ca := certtest.NewAuthority(t)
	own := ca.Issue(t, "localhost")
	n := startNode(t, fmt.Sprintf("grpc: {tls: {certificate: %q, key: %q}}", own.Certificate, own.Key))
	conn, err := grpc.NewClient(n.door("grpc").listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()),
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
		conn, err := tls.Dial("tcp", n.door(name).listener.Addr().String(), as)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		return conn.ConnectionState().PeerCertificates[0].SerialNumber
	}
	for name, pair := range pairs {
		before := pair.Serial
		certtest.ReplaceFile(t, pair.Certificate, []byte("not a certificate"))
		nodetest.Eventually(t, "the mistake is counted", func() bool { return n.tls[name].Status().Refusals == 1 })
		if shown(name).Cmp(before) != 0 {
			t.Errorf("%s: a broken file took the certificate away", name)
		}
		pair.Replace(t, ca.Issue(t, "localhost"))
		nodetest.Eventually(t, "the new certificate is shown", func() bool { return shown(name).Cmp(pair.Serial) == 0 })
	}
	if got := n.state().Certificates["grpc"]; got.Reloads != 1 || got.Refusals != 1 || got.NotAfter.IsZero() {
		t.Errorf("the metrics say %+v", got)
	}
	if log := n.log.String(); strings.Count(log, "changed TLS files refused, the old certificate stays in use") != 3 || !strings.Contains(log, `"listener":"grpc"`) {
		t.Errorf("the log does not tell of each:\n%s", log)
	}
}

func TestUnixSockets(t *testing.T) {
	dir := socketDir(t)
	redis := filepath.Join(dir, "redis")
	redistest.Start(t, "--unixsocket", redis)
	store := fmt.Sprintf(`
store: {redis: {addresses: ["unix://%s"], timeout: 20s}}
key_secret: 0123456789abcdef0123456789abcdef
rules: {envoy_ratelimit: %q}
`, redis, envoyFile(t, 3))
	yaml := fmt.Sprintf("listen: {grpc: 'unix://%s', socket_mode: '0600'}%s", filepath.Join(dir, "grpc"), store)
	over := func(p *process) bool {
		t.Helper()
		got, err := limitAs(t.Context(), p.addresses["grpc"], "u", insecure.NewCredentials())
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	p := serveConfig(t, yaml)
	if want := "unix://" + filepath.Join(dir, "grpc"); p.addresses["grpc"] != want {
		t.Fatalf("it listens at %s, want %s", p.addresses["grpc"], want)
	}
	if info, err := os.Stat(filepath.Join(dir, "grpc")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if over(p) || over(p) {
		t.Error("two of three do not pass")
	}
	if err := p.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-p.exited
	if _, err := os.Stat(filepath.Join(dir, "grpc")); err != nil {
		t.Fatalf("a killed process leaves its socket: %v", err)
	}
	p = serveConfig(t, yaml)
	if over(p) || !over(p) {
		t.Error("the count is not the one in Redis")
	}
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := <-p.exited; err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "grpc")); !os.IsNotExist(err) {
		t.Errorf("the socket is left: %v", err)
	}
	report, _ := visit(t, store).examine()
	if !strings.Contains(report, "unix://"+redis) || strings.Contains(report, "cannot be used") {
		t.Errorf("the doctor does not reach Redis:\n%s", report)
	}
}
