package main

import (
	"context"
	"fmt"
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

// envoyFile returns a directory with one limit of that many requests a year for each user.
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
	if err := protojson.Unmarshal(fmt.Appendf(nil, `{"domain": "mesh", "descriptors": [{"entries": [{"key": "user", "value": %q}]}]}`, user), &request); err != nil {
		return false, err
	}
	answer, err := rlsv3.NewRateLimitServiceClient(conn).ShouldRateLimit(ctx, &request)
	return answer.GetOverallCode() == rlsv3.RateLimitResponse_OVER_LIMIT, err
}

// passed sends that many requests of a user and returns how many of them pass.
func passed(t *testing.T, p *process, user string, requests int, as credentials.TransportCredentials) (n int) {
	t.Helper()
	for range requests {
		over, err := limitAs(t.Context(), p.addresses["grpc"], user, as)
		if err != nil {
			t.Fatal(err)
		}
		if !over {
			n++
		}
	}
	return n
}

func TestGRPCOverTLS(t *testing.T) {
	t.Parallel()
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

func TestUnixSockets(t *testing.T) {
	t.Parallel()
	dir := socketDir(t)
	redis := filepath.Join(dir, "redis")
	redistest.Start(t, "--unixsocket", redis)
	store := fmt.Sprintf(`
store: {redis: {addresses: ["unix://%s"], timeout: 20s}}
key_secret: 0123456789abcdef0123456789abcdef
rules: {envoy_ratelimit: %q}
`, redis, envoyFile(t, 3))
	yaml := fmt.Sprintf("listen: {grpc: 'unix://%s', socket_mode: '0600'}%s", filepath.Join(dir, "grpc"), store)
	connected := func(p *process) {
		nodetest.Eventually(t, "the store is connected", func() bool {
			_, text := p.request(t, "GET", "admin", "/readyz", "")
			return text == "ready\n"
		})
	}
	p := serveConfig(t, yaml)
	connected(p)
	if want := "unix://" + filepath.Join(dir, "grpc"); p.addresses["grpc"] != want {
		t.Fatalf("it listens at %s, want %s", p.addresses["grpc"], want)
	}
	if info, err := os.Stat(filepath.Join(dir, "grpc")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if got := passed(t, p, "u", 2, insecure.NewCredentials()); got != 2 {
		t.Errorf("%d of two pass, below a limit of three", got)
	}
	if err := p.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-p.exited
	if _, err := os.Stat(filepath.Join(dir, "grpc")); err != nil {
		t.Fatalf("a killed process leaves its socket: %v", err)
	}
	p = serveConfig(t, yaml)
	connected(p)
	if got := passed(t, p, "u", 2, insecure.NewCredentials()); got != 1 {
		t.Errorf("%d of two more pass, want 1: the count is not the one in Redis", got)
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
	file := filepath.Join(t.TempDir(), "penstock.yaml")
	nodetest.WriteFile(t, file, "listen: {gateway: ''}\n"+store)
	report := tell(t, []string{"PENSTOCK_DATA_DIR=" + t.TempDir()}, "doctor", "--config", file, "--timeout", "30s")
	if !strings.Contains(report, "unix://"+redis) || strings.Contains(report, "cannot use") {
		t.Errorf("the doctor does not reach Redis:\n%s", report)
	}
}
