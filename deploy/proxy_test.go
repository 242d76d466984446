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
}

// Addresses in the files, and how long a proxy waits for Penstock: a test must not depend on the speed of a
// machine.
const (
	penstockAt = "127.0.0.1:8090"
	backendAt  = "127.0.0.1:3000"
)

var proxies = map[string]proxy{
	"nginx": {
		program: "nginx",
		files:   []string{"nginx/penstock.conf"},
		changed: map[string]string{"listen 80;": "listen $LISTEN;", "50ms": "30s"},
		extra:   map[string]string{"nginx.conf": nginxConfig},
		args:    []string{"-p", ".", "-c", "nginx.conf"},
	},
	"caddy": {
		program: "caddy",
		files:   []string{"caddy/Caddyfile"},
		changed: map[string]string{":80 {": "{\n\tadmin off\n}\nhttp://:$PORT {\n\tbind 127.0.0.1", "50ms": "30s"},
		args:    []string{"run", "--config", "Caddyfile"},
	},
	"haproxy": {
		program: "haproxy",
		files:   []string{"haproxy/haproxy.cfg", "haproxy/penstock.lua"},
		changed: map[string]string{"bind :80": "bind $LISTEN", "timeout = 50 ": "timeout = 30000 "},
		args:    []string{"-db", "-f", "haproxy.cfg"},
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

// start runs a proxy in front of the backend and returns its address. It ends with the test.
func (p proxy) start(t *testing.T, penstock, backend string) string {
	t.Helper()
	program := p.find(t)
	const attempts = 5 // another process may take the port before the proxy does
	for attempt := 1; ; attempt++ {
		address := freeAddress(t)
		err := p.try(t, program, address, backend, strings.NewReplacer("$LISTEN", address, "$PORT", strings.TrimPrefix(address, "127.0.0.1:"), penstockAt, penstock, backendAt, backend))
		if err == nil {
			return address
		}
		if attempt == attempts {
			t.Fatal(err)
		}
	}
}

// find returns the program. Only on a machine that is nobody's to equip is a test left out.
func (p proxy) find(t *testing.T) string {
	t.Helper()
	for _, name := range []string{p.program, "/usr/sbin/" + p.program, "/usr/local/sbin/" + p.program} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	message := fmt.Sprintf("%s is not installed; `scripts/need %s` installs it", p.program, p.program)
	if os.Getenv("CI") != "" {
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
