package clients

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/penstock-io/penstock/internal/child"
	"github.com/penstock-io/penstock/internal/nodetest"
)

// patient is how long a test waits for what must come. None depends on how soon it does.
const patient = time.Minute

// program is the path of the binary.
var program string

func TestMain(m *testing.M) {
	os.Exit(nodetest.BuildAndRun(func(built string) int {
		program = built
		return m.Run()
	}))
}

type object = map[string]any

// A session is what happens to a node, in order.
type session struct {
	Rules string
	Calls []struct {
		Do          string
		Call        json.RawMessage
		Calls       []json.RawMessage
		Reservation string
		Response    json.RawMessage
		Cost        int64
		TTL         int64 `json:"ttl_ms"`
		As          string
		Expect      object
		Expects     []object
		Error       string
	}
	Requests []struct {
		Path    string
		Sent    map[string]string `json:"headers_sent"`
		Status  int
		Headers map[string]string
		Absent  []string
		Problem object
	}
}

func readJSON(t *testing.T, name string, into any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("conformance", name))
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func readSession(t *testing.T) (s session) {
	t.Helper()
	readJSON(t, "session.json", &s)
	return s
}

var address = regexp.MustCompile(`(?m)^  http +(http://\S+)$`)

// startNode starts a node with the rules, and returns the URL of its decision API.
func startNode(t *testing.T, rules string) string {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "rules.yaml")
	if err := os.WriteFile(file, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	c := exec.Command(program, "serve", "--rules", file, "--data-dir", dir, "--listen-gateway", "", "--listen-grpc", "", "--listen-admin", "", "--listen-http", "127.0.0.1:0")
	log := filepath.Join(dir, "log")
	p, err := child.Start(c, log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			t.Logf("the node said:\n%s", child.LogTail(log))
		}
	})
	for end := time.Now().Add(patient); time.Now().Before(end) && !p.Exited(); time.Sleep(10 * time.Millisecond) {
		text, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		if found := address.FindSubmatch(text); found != nil {
			if answer, err := http.Get(string(found[1]) + "/readyz"); err == nil {
				answer.Body.Close()
				if answer.StatusCode == http.StatusOK {
					return string(found[1])
				}
			}
		}
	}
	t.Fatalf("the node is not ready:\n%s", child.LogTail(log))
	return ""
}

// snippet returns a snippet of the console's page of integrations, for the node at a URL.
func snippet(t *testing.T, name, url string) string {
	t.Helper()
	text, err := os.ReadFile("../internal/console/web/src/snippets.json")
	if err != nil {
		t.Fatal(err)
	}
	var all []struct{ Name, Text string }
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		if s.Name == name {
			return strings.ReplaceAll(s.Text, "http://{http}", url)
		}
	}
	t.Fatalf("there is no snippet for %s", name)
	return ""
}
