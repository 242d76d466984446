package e2e

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ratelimit/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-io/penstock/internal/child"
)

// A snippet is shown by the console's page of integrations.
type snippet struct{ Name, Text, File string }

// testers try the snippets of the console, with the addresses of a node filled in. Those for Python and Node are
// tried with their packages, in clients/.
var testers = map[string]func(t *testing.T, n *node, text string){
	"curl": testCurl, "Gateway": testGateway, "Envoy": testEnvoy, "Prometheus": testPrometheus, "Go": testGo,
	"Docker":     inPage("../docs/how-to/install.md"),
	"Kubernetes": inPage("../docs/how-to/kubernetes.md"),
	"Python":     inTest("../clients/python_test.go"),
	"Node":       inTest("../clients/node_test.go"),
}

// Every snippet of the console works. Files of deploy/ have tests there, with the real proxies.
func TestConsoleSnippets(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../internal/console/web/src/snippets.json")
	if err != nil {
		t.Fatal(err)
	}
	var all []snippet
	if err := json.Unmarshal(text, &all); err != nil || len(all) < 12 {
		t.Fatal(len(all), err)
	}
	n := start(t, newUpstream(t).config(), rulesFile(t, "rules: [{name: per-ip, key: [ip], limits: [1000/1h]}]"))
	host, port, err := net.SplitHostPort(n.addresses["grpc"])
	if err != nil {
		t.Fatal(err)
	}
	fill := strings.NewReplacer("{http}", n.addresses["http"], "{gateway}", n.addresses["gateway"], "{admin}", n.addresses["admin"], "{grpc_host}", host, "{grpc_port}", port)
	for _, s := range all {
		t.Run(s.Name, func(t *testing.T) {
			if s.File != "" {
				inPage("../deploy/proxy_test.go")(t, n, s.File)
				return
			}
			testers[s.Name](t, n, fill.Replace(s.Text))
		})
	}
}

// inPage returns a test that a snippet is in a file, which has its own tests.
func inPage(file string) func(*testing.T, *node, string) {
	return func(t *testing.T, _ *node, text string) {
		page, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(text) {
			if !strings.Contains(string(page), strings.TrimSpace(line)) {
				t.Errorf("%s has no line %q", file, line)
			}
		}
	}
}

// inTest returns a test that another test tries the snippet.
func inTest(file string) func(*testing.T, *node, string) {
	return func(t *testing.T, n *node, _ string) { inPage(file)(t, n, "snippet(t, ") }
}

// shell runs a command in a directory and returns what it prints.
func shell(t *testing.T, dir, command string) string {
	t.Helper()
	c := exec.CommandContext(t.Context(), "bash", "-c", command)
	c.Dir = dir
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
	return string(out)
}

func testCurl(t *testing.T, _ *node, text string) {
	if out := shell(t, "", text); !strings.Contains(out, `"allowed":true`) {
		t.Errorf("it answers %s", out)
	}
}

func testGateway(t *testing.T, _ *node, text string) {
	serve, curl, _ := strings.Cut(text, "\n")
	if out := shell(t, "", curl); !strings.Contains(out, "200 OK") {
		t.Errorf("it answers %s", out)
	}
	args := append(strings.Fields(serve)[1:], "--check")
	dir := t.TempDir()
	if out, err := command(dir, args...).CombinedOutput(); err != nil {
		t.Errorf("%s: %v\n%s", serve, err, out)
	}
}

// testEnvoy reads the snippet as Envoy does, with its own types.
func testEnvoy(t *testing.T, n *node, text string) {
	var parts struct {
		Filters  []any `yaml:"http_filters"`
		Clusters []any
	}
	if err := yaml.Unmarshal([]byte(text), &parts); err != nil {
		t.Fatal(err)
	}
	read := func(part any, into proto.Message) {
		t.Helper()
		text, err := json.Marshal(part)
		if err == nil {
			err = protojson.Unmarshal(text, into)
		}
		if validated, ok := into.(interface{ ValidateAll() error }); ok && err == nil {
			err = validated.ValidateAll()
		}
		if err != nil {
			t.Fatalf("%v: %v", part, err)
		}
	}
	read(parts.Filters[0], &hcmv3.HttpFilter{})
	var c clusterv3.Cluster
	read(parts.Clusters[0], &c)
	at := c.GetLoadAssignment().GetEndpoints()[0].GetLbEndpoints()[0].GetEndpoint().GetAddress().GetSocketAddress()
	if got := net.JoinHostPort(at.GetAddress(), fmt.Sprint(at.GetPortValue())); got != n.addresses["grpc"] {
		t.Errorf("it asks %s, the node listens at %s", got, n.addresses["grpc"])
	}
}

// testPrometheus lets a real Prometheus scrape the node.
func testPrometheus(t *testing.T, _ *node, text string) {
	program, err := exec.LookPath("prometheus")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip("no prometheus; apt-get install prometheus")
	}
	dir := t.TempDir()
	for name, content := range map[string]string{"prometheus.yml": "global: {scrape_interval: 1s}\n" + text, "penstock_token": adminToken + "\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const attempts = 5 // another process may take the port before Prometheus does
	for attempt := 1; !scrapes(t, program, dir); attempt++ {
		if attempt == attempts {
			log, _ := os.ReadFile(filepath.Join(dir, "log"))
			t.Fatalf("Prometheus ended\n%s", log)
		}
	}
}

// scrapes runs Prometheus in a directory until it has metrics of the node, or ends.
func scrapes(t *testing.T, program, dir string) bool {
	t.Helper()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	free.Close()
	c := exec.Command(program, "--config.file=prometheus.yml", "--storage.tsdb.path=data", "--web.listen-address="+address)
	c.Dir = dir
	process, err := child.Start(c, filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer process.Kill()
	eventually(t, "Prometheus has metrics of the node", func() bool { return process.Exited() || hasMetrics(address) })
	return !process.Exited()
}

func hasMetrics(prometheus string) bool {
	answer, err := http.Get("http://" + prometheus + "/api/v1/query?query=penstock_rules_version")
	if err != nil {
		return false
	}
	defer answer.Body.Close()
	var found struct {
		Data struct{ Result []any }
	}
	return json.NewDecoder(answer.Body).Decode(&found) == nil && len(found.Data.Result) == 1
}

// testGo compiles the snippet, as a file of this module.
func testGo(t *testing.T, _ *node, text string) {
	file := filepath.Join(t.TempDir(), "main.go")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	shell(t, "", "go vet "+file)
}
