package packaging

import (
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The image holds the program, certificates and a configuration, and says what it is.
func TestImage(t *testing.T) {
	t.Parallel()
	i := buildImage(t)
	if got := strings.Join(append(i.config.Entrypoint, i.config.Cmd...), " "); got != "/penstock serve" {
		t.Errorf("it runs %q", got)
	}
	if got := strings.Join(i.config.Healthcheck.Test, " "); got != "CMD /penstock health" {
		t.Errorf("its health check is %q", got)
	}
	for label, want := range map[string]string{"version": "v0.1.0", "revision": "0123456789abcdef0123456789abcdef01234567", "created": "2026-11-16T08:00:00Z", "licenses": "Apache-2.0"} {
		if got := i.config.Labels["org.opencontainers.image."+label]; got != want {
			t.Errorf("label %s is %q", label, got)
		}
	}
	if bundle := readFile(t, filepath.Join(i.rootfs, "etc/ssl/certs/ca-certificates.crt")); !strings.Contains(bundle, "BEGIN CERTIFICATE") {
		t.Error("there are no certificates")
	}
	if link, err := os.Readlink(filepath.Join(i.rootfs, "bin/ratelimit")); err != nil || link != "../penstock" {
		t.Errorf("/bin/ratelimit, which Envoy Gateway runs, is a link to %q: %v", link, err)
	}
	for _, name := range []string{"usr", "lib", "lib64"} {
		if _, err := os.Stat(filepath.Join(i.rootfs, name)); err == nil {
			t.Errorf("there is a /%s", name)
		}
	}
	testContainer(t, i)
}

// Dockerfile.source builds the same image. In place of the images of Go and Node, which are not to be had
// everywhere, it gets ones with the programs of this machine.
func TestImageFromSource(t *testing.T) {
	t.Parallel()
	needLong(t)
	dir := t.TempDir()
	b, base, clone := newBuilder(t, dir), filepath.Join(dir, "base"), filepath.Join(dir, "clone")
	writeFile(t, filepath.Join(base, "etc/ssl/certs/ca-certificates.crt"), readFile(t, "/etc/ssl/certs/ca-certificates.crt"))
	writeFile(t, filepath.Join(base, "Dockerfile"), "FROM scratch\nCOPY . /\nENV HOME=/tmp GOMODCACHE=/tmp/modules GOCACHE=/tmp/builds PATH=/usr/local/go/bin:/usr/local/bin:/usr/bin:/bin\n")
	for _, name := range []string{"bin", "lib", "lib64", "sbin"} {
		if err := os.Symlink("usr/"+name, filepath.Join(base, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"usr", "tmp"} {
		if err := os.Mkdir(filepath.Join(base, name), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	b.run("bud", "--quiet", "--isolation", "chroot", "--tag", "localhost/golang:1.26-bookworm", "--tag", "localhost/node:22-bookworm-slim", base)
	run(t, root, nil, "git", "clone", "--quiet", root, clone)
	build := []string{"bud", "--quiet", "--pull-never", "--isolation", "chroot", "--format", "docker", "--volume", "/usr:/usr:ro"}
	for variable, within := range map[string]string{"GOMODCACHE": "/tmp/modules", "GOCACHE": "/tmp/builds"} {
		build = append(build, "--volume", strings.TrimSpace(run(t, root, nil, "go", "env", variable))+":"+within)
	}
	b.run(append(build, "--file", filepath.Join(clone, "deploy/image/Dockerfile.source"), "--tag", "localhost/penstock:source", clone)...)
	testContainer(t, b.unpack("localhost/penstock:source"))
}

// testContainer runs the image: it serves, denies, answers the health check, and finishes what it has begun.
func testContainer(t *testing.T, i *image) {
	arrived, finish := make(chan struct{}), make(chan struct{})
	upstream := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/under-way" {
			close(arrived)
			<-finish
		}
	}))
	defer upstream.Close()
	gateway, health := freeAddress(t), freeAddress(t)
	c := i.start(t, []string{
		"PENSTOCK_LISTEN_GATEWAY=" + gateway, "PENSTOCK_LISTEN_HEALTH=" + health, "PENSTOCK_LISTEN_HTTP=127.0.0.1:0",
		"PENSTOCK_LISTEN_GRPC=127.0.0.1:0", "PENSTOCK_LISTEN_ADMIN=127.0.0.1:0", "PENSTOCK_GATEWAY_TIMEOUTS_DRAIN=60s",
	}, "serve", "--demo", "--upstream", upstream.URL)
	status := func(url string) int {
		answer, err := http.Get(url)
		if err != nil {
			return 0
		}
		answer.Body.Close()
		return answer.StatusCode
	}
	eventually(t, "it is ready", func() bool {
		if c.process.Exited() {
			t.Fatal("it ended")
		}
		return status("http://"+health+"/readyz") == http.StatusOK
	})
	if out, code := c.exec(t, i.config.Healthcheck.Test[1:]...); code != 0 {
		t.Errorf("health check: exit status %d: %s", code, out)
	}
	if out, code := c.exec(t, "/bin/ratelimit", "version"); code != 0 || !strings.Contains(out, "penstock ") {
		t.Errorf("/bin/ratelimit: exit status %d: %s", code, out)
	}
	answers := map[int]int{}
	for range 11 {
		answers[status("http://"+gateway+"/")]++
	}
	if answers[http.StatusOK] != 10 || answers[http.StatusTooManyRequests] != 1 {
		t.Errorf("answers %v, want 10 times 200 and one 429", answers)
	}

	underWay := make(chan int)
	go func() { underWay <- status("http://" + gateway + "/under-way") }()
	<-arrived
	c.terminate(t)
	eventually(t, "it is not ready any more", func() bool { return status("http://"+health+"/readyz") != http.StatusOK })
	close(finish)
	if got := <-underWay; got != http.StatusOK {
		t.Errorf("a request that was under way at SIGTERM: %d", got)
	}
	<-c.process.Done()
	if code := c.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("exit status %d", code)
	}
}

// freeAddress returns an address that was free a moment ago.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
