package packaging

import (
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/penstock-io/penstock/internal/child"
)

const unit = "deploy/systemd/penstock.service"

// systemd understands every line of the unit, and rates its exposure at 2.0 or less of 10.
func TestUnit(t *testing.T) {
	t.Parallel()
	analyze := need(t, "systemd-analyze", "systemd")
	text := readFile(t, filepath.Join(root, unit))
	here := strings.ReplaceAll(text, "/usr/bin/penstock", program)
	path := writeFile(t, filepath.Join(t.TempDir(), "penstock.service"), here)
	out, err := tryRun(t, root, nil, analyze, "verify", "--man=no", "--recursive-errors=no", path)
	if err != nil || strings.Contains(out, "penstock.service") { // it may also speak of units of this machine
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
	out = run(t, root, nil, analyze, "security", "--no-pager", "--offline=true", path)
	found := regexp.MustCompile(`exposure level for penstock\.service: ([0-9.]+)`).FindStringSubmatch(out)
	if found == nil {
		t.Fatalf("systemd-analyze security says\n%s", out)
	}
	if exposure, err := strconv.ParseFloat(found[1], 64); err != nil || exposure > 2 {
		t.Errorf("exposure %s is above 2.0:\n%s", found[1], out)
	}
	broken := writeFile(t, filepath.Join(t.TempDir(), "penstock.service"), strings.ReplaceAll(here, "WatchdogSec=30", "WatchdogSec=often"))
	if out, _ := tryRun(t, root, nil, analyze, "verify", "--man=no", "--recursive-errors=no", broken); !strings.Contains(out, "often") {
		t.Errorf("systemd-analyze verify accepts a unit that is wrong: %s", out)
	}
}

// The service as systemd runs it: it says when it is ready, reads its rules again on SIGHUP, gives signs of life, and
// says that it stops.
func TestNotify(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	socket, next := notifySocket(t)
	rules := writeFile(t, filepath.Join(dir, "rules.yaml"), "rules: [{name: one, match: {path: /one}, key: [ip], limits: [5/1h]}]\n")
	config := writeFile(t, filepath.Join(dir, "penstock.yaml"), `
listen: {gateway: "", grpc: "", http: "127.0.0.1:0", admin: ""}
rules: {file: `+rules+`, poll_interval: 1h}
`)
	c := exec.Command(program, "serve", "--config", config)
	c.Env = append(os.Environ(), "STATE_DIRECTORY="+dir, "NOTIFY_SOCKET="+socket, "WATCHDOG_USEC=100000")
	log := filepath.Join(dir, "log")
	p, err := child.Start(c, log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			t.Logf("it said:\n%s", child.LogTail(log))
		}
	})
	next("READY=1")
	next("WATCHDOG=1")
	address := regexp.MustCompile(`(?m)^  http +http://(\S+)$`)
	eventually(t, "it says where it is", func() bool { return address.MatchString(readFile(t, log)) })
	url := "http://" + address.FindStringSubmatch(readFile(t, log))[1] + "/v1/check"
	rule := func() string {
		answer, err := http.Post(url, "application/json", strings.NewReader(`{"attributes": {"path": "/two", "ip": "198.51.100.7"}}`))
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		text := new(strings.Builder)
		if err := answer.Write(text); err != nil {
			t.Fatal(err)
		}
		return text.String()
	}
	if got := rule(); !strings.Contains(got, "no_rule") {
		t.Errorf("before: %s", got)
	}
	writeFile(t, rules, "rules: [{name: two, match: {path: /two}, key: [ip], limits: [5/1h]}]\n")
	if err := p.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	next("RELOADING=1")
	next("READY=1")
	eventually(t, "the new rules are served", func() bool { return strings.Contains(rule(), `"rule":"two"`) })
	if err := p.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	next("STOPPING=1")
	<-p.Done()
	if code := c.ProcessState.ExitCode(); code != 0 {
		t.Errorf("exit status %d", code)
	}
}

// notifySocket is systemd's side: next waits for a state.
func notifySocket(t *testing.T) (path string, next func(state string)) {
	t.Helper()
	dir, err := os.MkdirTemp("", "notify") // short: the path of a socket is bounded
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	path = filepath.Join(dir, "s")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { socket.Close() })
	return path, func(state string) {
		t.Helper()
		buffer := make([]byte, 4096)
		for {
			if err := socket.SetReadDeadline(time.Now().Add(patient)); err != nil {
				t.Fatal(err)
			}
			n, err := socket.Read(buffer)
			if err != nil {
				t.Fatalf("%s did not come: %v", state, err)
			}
			if strings.HasPrefix(string(buffer[:n]), state) {
				return
			}
		}
	}
}
