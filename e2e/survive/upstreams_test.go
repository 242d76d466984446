//go:build linux

package survive

import (
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/penstock-io/penstock/internal/child"
)

// A recordingUpstream is an upstream that remembers what it was asked.
type recordingUpstream struct {
	url  string
	seen func() []string // the targets, or what it could read of them
}

// witnesses are servers that read HTTP each in their own way.
var witnesses = map[string]func(*testing.T) recordingUpstream{
	"go":      newGoWitness,
	"nginx":   newNginxWitness,
	"haproxy": newHAProxyWitness,
}

func newGoWitness(t *testing.T) recordingUpstream {
	var mu sync.Mutex
	var targets []string
	url := newUpstream(t, func(_ http.ResponseWriter, req *http.Request) {
		mu.Lock()
		targets = append(targets, req.RequestURI)
		mu.Unlock()
		io.Copy(io.Discard, req.Body)
	})
	return recordingUpstream{url, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return targets
	}}
}

const nginxConfig = `daemon off;
master_process off;
pid nginx.pid;
error_log stderr;
events { worker_connections 1024; }
http {
	log_format seen '$request';
	access_log seen.log seen;
	client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi; scgi_temp_path scgi;
	server { listen $LISTEN; location / { add_header X-Saw "<$uri>"; return 200; } }
}
`

// newNginxWitness reads nginx's log, which includes the requests that it refused.
func newNginxWitness(t *testing.T) recordingUpstream {
	url, dir := startServer(t, "nginx", "nginx.conf", nginxConfig, "-p", ".", "-c", "nginx.conf", "-e", "stderr")
	return recordingUpstream{url, func() []string {
		log, err := os.ReadFile(filepath.Join(dir, "seen.log"))
		if err != nil {
			t.Fatal(err)
		}
		var targets []string
		for line := range strings.Lines(string(log)) {
			if target := strings.TrimSpace(line); !strings.Contains(target, readyPath) {
				targets = append(targets, target)
			}
		}
		return targets
	}}
}

const haproxyConfig = `defaults
	mode http
	timeout connect 30s
	timeout client 30s
	timeout server 30s
frontend all
	bind $LISTEN
	default_backend behind
backend behind
	http-reuse always
	server it $BEHIND
`

// newHAProxyWitness is a Go server behind HAProxy, which shares its connections among requests.
func newHAProxyWitness(t *testing.T) recordingUpstream {
	behind := newGoWitness(t)
	config := strings.ReplaceAll(haproxyConfig, "$BEHIND", strings.TrimPrefix(behind.url, "http://"))
	url, _ := startServer(t, "haproxy", "haproxy.cfg", config, "-db", "-f", "haproxy.cfg")
	return recordingUpstream{url, func() []string {
		var targets []string
		for _, target := range behind.seen() {
			if target != readyPath {
				targets = append(targets, target)
			}
		}
		return targets
	}}
}

// readyPath is asked for to see that a server answers.
const readyPath = "/ready"

// startServer runs a server with a configuration, in which $LISTEN is its address, in a directory of
// its own.
func startServer(t *testing.T, name, file, config string, args ...string) (url, dir string) {
	t.Helper()
	program := find(t, name)
	const attempts = 5 // another process may take the port first
	for range attempts {
		dir = t.TempDir()
		address := freeAddress(t)
		write(t, filepath.Join(dir, file), strings.ReplaceAll(config, "$LISTEN", address))
		cmd, log := exec.Command(program, args...), filepath.Join(dir, "log")
		cmd.Dir = dir
		process, err := child.Start(cmd, log)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(process.Kill)
		url = "http://" + address
		eventually(t, name+" answers or ends", func() bool {
			return process.Exited() || answers(url)
		})
		if !process.Exited() {
			return url, dir
		}
		t.Logf("%s ended: %s", name, child.LogTail(log))
	}
	t.Fatalf("%s does not start", name)
	return "", ""
}

func answers(url string) bool {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience / 4}
	res, err := client.Get(url + readyPath)
	if err != nil {
		return false
	}
	res.Body.Close()
	return res.StatusCode == http.StatusOK
}

// find returns the program. If it is missing, the test fails in CI and is skipped elsewhere.
func find(t *testing.T, program string) string {
	t.Helper()
	for _, name := range []string{program, "/usr/sbin/" + program, "/usr/local/sbin/" + program} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	message := fmt.Sprintf("%s is not installed; `scripts/need %s` installs it", program, program)
	if os.Getenv("CI") != "" {
		t.Fatal(message)
	}
	t.Skip(message)
	return ""
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

var numbered = regexp.MustCompile(`^(?:\S+ )?/p/(\d+)/`)

// perPayload counts targets by the number of the payload they are from; "" is none.
func perPayload(targets []string) map[string]int {
	counts := map[string]int{}
	for _, target := range targets {
		number := ""
		if found := numbered.FindStringSubmatch(target); found != nil {
			number = found[1]
		}
		counts[number]++
	}
	return counts
}

// sum is of all counts.
func sum(counts map[string]int) (total int) {
	for n := range maps.Values(counts) {
		total += n
	}
	return total
}
