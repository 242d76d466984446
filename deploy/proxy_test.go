package deploy

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/penstock-io/penstock/internal/child"
)

// A proxy is a program to run with files of this folder.
type proxy struct {
	program string
	files   []string          // the first is the program's configuration
	changed map[string]string // text of the files to replace for the test
	extra   map[string]string // further files
	args    []string
	closed  string // text to replace so that no request passes while no node answers; empty: none does anyway
	closes  string // what replaces it
	module  string // a file that the program loads; scripts/need nginx-lua installs it
	built   bool   // scripts/PROGRAM builds it from source, which takes minutes
	silent  bool   // it adds no RateLimit headers to the responses of allowed requests
}

// Addresses in the files.
const (
	penstockAt = "127.0.0.1:8090" // one node
	otherAt    = "127.0.0.1:8190" // the other
	insideAt   = "127.0.0.1:8089" // where a proxy sends its own questions
	backendAt  = "127.0.0.1:3000"
)

// absent is an address at which no node listens.
const absent = "127.0.0.1:1"

// patience is how long a proxy waits for Penstock: a test must not depend on the speed of a machine.
const patience = "30s"

var proxies = map[string]proxy{
	"nginx": {
		program: "nginx",
		files:   []string{"nginx/penstock.conf"},
		changed: map[string]string{"listen 80;": "listen $LISTEN;", "50ms": patience},
		extra:   map[string]string{"nginx.conf": nginxConfig},
		args:    []string{"-p", ".", "-c", "nginx.conf"},
		closed:  "error_page 502 504 = @penstock_open;",
	},
	"caddy": {
		program: "caddy",
		files:   []string{"caddy/Caddyfile"},
		changed: map[string]string{":80 {": "{\n\tadmin off\n}\nhttp://:$PORT {\n\tbind 127.0.0.1", "50ms": patience},
		args:    []string{"run", "--config", "Caddyfile"},
		closed:  "reverse_proxy @unanswered 127.0.0.1:3000",
	},
	"haproxy": {
		program: "haproxy",
		files:   []string{"haproxy/haproxy.cfg", "haproxy/penstock.lua"},
		changed: map[string]string{"bind :80": "bind $LISTEN", "50ms": patience},
		args:    []string{"-db", "-f", "haproxy.cfg"},
		closed:  "fail_open = true",
		closes:  "fail_open = false",
	},
	"traefik": {
		program: "traefik",
		files:   []string{"traefik/traefik.yaml", "traefik/dynamic.yaml"},
		changed: map[string]string{`":80"`: `"$LISTEN"`, "50ms": patience},
		args:    []string{"--configFile=traefik.yaml"},
		built:   true,
		silent:  true,
	},
}

// nginxConfig includes the file, and runs without root in its own folder.
const nginxConfig = `daemon off;
master_process off;
pid nginx.pid;
error_log stderr;
events { }
http {
	access_log off;
	client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi; scgi_temp_path scgi;
	include penstock.conf;
}
`

// start runs a proxy in front of the backend and returns its address. It asks the nodes, and ends with the test.
func (p proxy) start(t *testing.T, nodes [2]string, backend string) string {
	t.Helper()
	program := p.find(t)
	const attempts = 5 // another process may take the port before the proxy does
	for attempt := 1; ; attempt++ {
		address := freeAddress(t)
		err := p.try(t, program, address, backend, strings.NewReplacer("$LISTEN", address, "$PORT", strings.TrimPrefix(address, "127.0.0.1:"),
			insideAt, freeAddress(t), penstockAt, nodes[0], otherAt, nodes[1], backendAt, backend))
		if err == nil {
			return address
		}
		if attempt == attempts {
			t.Fatal(err)
		}
	}
}

// find returns the program. Only on a machine that is nobody's to equip is a test left out, or if the program takes
// long to build.
func (p proxy) find(t *testing.T) string {
	t.Helper()
	program := p.program
	if _, err := os.Stat(p.module); err != nil && p.module != "" {
		program = "nginx-lua"
	}
	for _, name := range []string{program, "/usr/sbin/" + program, "/usr/local/sbin/" + program, "../bin/" + program} {
		if path, err := exec.LookPath(name); err == nil {
			path, err = filepath.Abs(path)
			if err != nil {
				t.Fatal(err)
			}
			return path
		}
	}
	message := fmt.Sprintf("%s is not installed; `scripts/need %[1]s` installs it", program)
	if p.built {
		message = fmt.Sprintf("%s is not installed; `scripts/%[1]s` builds it", program)
	}
	if os.Getenv("CI") != "" && (!p.built || os.Getenv("PENSTOCK_TEST_LONG") != "") {
		t.Fatal(message)
	}
	t.Skip(message)
	return ""
}

func (p proxy) try(t *testing.T, program, address, backend string, addresses *strings.Replacer) error {
	dir := t.TempDir()
	for name, text := range p.extra {
		write(t, filepath.Join(dir, name), text)
	}
	for _, file := range p.files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, filepath.Base(file)), addresses.Replace(p.change(string(text))))
	}
	cmd, log := exec.Command(program, p.args...), filepath.Join(dir, "log")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_CONFIG_HOME="+dir, "XDG_DATA_HOME="+dir)
	process, err := child.Start(cmd, log)
	if err != nil {
		t.Fatal(err)
	}
	if err := answers(process, address, backend); err != nil {
		process.Kill()
		return fmt.Errorf("%s at %s: %w\n%s", p.program, address, err, child.LogTail(log))
	}
	t.Cleanup(func() {
		process.Kill()
		if t.Failed() {
			t.Logf("%s:\n%s", p.program, child.LogTail(log))
		}
	})
	return nil
}

func (p proxy) change(text string) string {
	for old, new := range p.changed {
		text = strings.ReplaceAll(text, old, new)
	}
	return text
}

// answers waits until our backend answers through the proxy: another process might answer at that address.
func answers(process *child.Process, address, backend string) error {
	client := &http.Client{Timeout: 10 * time.Second} // another process may never answer
	defer client.CloseIdleConnections()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if process.Exited() {
			return errors.New("it ended before it answered")
		}
		response, err := client.Get("http://" + address + "/")
		if err != nil {
			continue
		}
		response.Body.Close()
		if response.Header.Get("X-Backend") == backend {
			return nil
		}
	}
	return errors.New("it does not answer")
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

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
