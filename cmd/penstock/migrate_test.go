package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/penstock-io/penstock/internal/redistest"
)

// guideBlock is a block of commands in the migration guide, and what they print.
var guideBlock = regexp.MustCompile("(?s)```sh\n(.*?)```\n(?:\n```text\n(.*?)```\n)?")

// A shell runs one block after another.
type shell struct {
	t   *testing.T
	in  io.Writer
	out *bufio.Reader
}

func startShell(t *testing.T, dir string, env ...string) *shell {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute) // bounds a block that never ends
	c := exec.CommandContext(ctx, "bash")
	c.Dir, c.Env = dir, append(os.Environ(), env...)
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.Stderr = c.Stdout
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, _ = io.WriteString(in, "kill $(jobs -p); wait\n") // or the test has failed before
		in.Close()
		_, _ = io.Copy(io.Discard, out)
		cancel()
		_ = c.Wait()
	})
	return &shell{t, in, bufio.NewReader(out)}
}

// run returns what the commands print.
func (s *shell) run(block string) string {
	s.t.Helper()
	const mark = "--- the block ended with status "
	fmt.Fprintf(s.in, "%s\necho \"%s$?\"\n", block, mark)
	var text strings.Builder
	for {
		line, err := s.out.ReadString('\n')
		if err != nil {
			s.t.Fatalf("%v after %q in\n%s", err, text.String(), block)
		}
		if last, status, ended := strings.Cut(line, mark); ended {
			if last != "" { // the last line of the output does not end
				text.WriteString(last + "\n")
			}
			if status != "0\n" {
				s.t.Errorf("status %s\n%s\n%s", status, block, text.String())
			}
			return text.String()
		}
		text.WriteString(line)
	}
}

// Every command of the migration guide runs against the real program and prints what the guide shows. Between
// the commands, Envoy's side speaks gRPC.
func TestMigrationGuide(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/how-to/envoy-migrate.md")
	if err != nil {
		t.Fatal(err)
	}
	redis := redistest.Start(t)
	ports := []string{"6379", redis.Addr[strings.LastIndex(redis.Addr, ":")+1:]}
	for _, port := range []string{"8080", "8081", "9090"} {
		ports = append(ports, port, freePort(t))
	}
	local := strings.NewReplacer(ports...)
	dir := t.TempDir()
	s := startShell(t, dir, "HOME="+dir, "PENSTOCK_LISTEN_ADMIN=127.0.0.1:0", "PENSTOCK_STORE_REDIS_TIMEOUT=20s", "PENSTOCK_RULES_POLL_INTERVAL=50ms", "GRPC_PORT="+local.Replace("8081"))
	blocks := guideBlock.FindAllStringSubmatch(string(page), -1)
	if len(blocks) < 8 {
		t.Fatalf("the guide has %d blocks of commands", len(blocks))
	}
	for _, b := range blocks {
		commands := local.Replace(b[1])
		if strings.Contains(commands, "serve --envoy-ratelimit-env >") && !strings.Contains(commands, "PORT=") {
			commands = "export PORT=" + local.Replace("8080") + "\n" + commands // the default, which others may use on this machine
		}
		if got, want := s.run(commands), local.Replace(b[2]); got != want {
			t.Errorf("%s\nprints\n%s\nwant\n%s", b[1], got, want)
		}
		switch {
		case strings.Contains(b[1], "curl -s http://localhost:8080/healthcheck"):
			checkHealthOverGRPC(t, local.Replace("localhost:8081"))
		case strings.Contains(b[1], "GRPC_CLIENT_TLS_SAN"):
			checkGuideTLS(t, dir, local.Replace("localhost:8081"))
		}
	}
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return fmt.Sprint(l.Addr().(*net.TCPAddr).Port)
}

func checkHealthOverGRPC(t *testing.T, target string) {
	t.Helper()
	conn, err := grpc.NewClient(target, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	got, err := grpc_health_v1.NewHealthClient(conn).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: "ratelimit"})
	if err != nil || got.Status != grpc_health_v1.HealthCheckResponse_SERVING {
		t.Errorf("gRPC health: %v, %v", got, err)
	}
}

// checkGuideTLS asks with the certificates that the guide has made.
func checkGuideTLS(t *testing.T, dir, target string) {
	t.Helper()
	pem, err := os.ReadFile(filepath.Join(dir, "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	for name, passes := range map[string]bool{"envoy": true, "localhost": false, "": false} {
		config := &tls.Config{RootCAs: roots}
		if name != "" {
			pair, err := tls.LoadX509KeyPair(filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key"))
			if err != nil {
				t.Fatal(err)
			}
			config.Certificates = []tls.Certificate{pair}
		}
		if over, err := limitAs(t.Context(), target, "dave", credentials.NewTLS(config)); (err == nil) != passes || over {
			t.Errorf("with the certificate %q: over limit %t, %v", name, over, err)
		}
	}
}
