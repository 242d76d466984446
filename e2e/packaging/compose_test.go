package packaging

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/penstock-io/penstock/internal/child"
	"github.com/penstock-io/penstock/internal/pgtest"
	"github.com/penstock-io/penstock/internal/redistest"
)

const compose = "deploy/compose"

// Every file that Compose mounts is there, and Grafana is told of the dashboard and of a source for it.
func TestComposeFiles(t *testing.T) {
	t.Parallel()
	var file struct {
		Services map[string]struct {
			Image   string
			Volumes []string
		}
		Volumes map[string]any
	}
	if err := yaml.Unmarshal([]byte(readFile(t, filepath.Join(root, compose, "compose.yaml"))), &file); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"penstock-1", "penstock-2", "valkey", "postgres", "prometheus", "grafana", "nginx"} {
		if file.Services[want].Image == "" {
			t.Errorf("there is no service %s", want)
		}
	}
	for name, service := range file.Services {
		for _, volume := range service.Volumes {
			from, _, _ := strings.Cut(volume, ":")
			if strings.HasPrefix(from, ".") {
				if _, err := os.Stat(filepath.Join(root, compose, from)); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			} else if _, ok := file.Volumes[from]; !ok {
				t.Errorf("%s: there is no volume %s", name, from)
			}
		}
	}
	var sources struct {
		Datasources []struct{ Type, URL string }
	}
	if err := yaml.Unmarshal([]byte(readFile(t, filepath.Join(root, compose, "grafana/datasources.yaml"))), &sources); err != nil || len(sources.Datasources) != 1 || sources.Datasources[0].Type != "prometheus" || sources.Datasources[0].URL != "http://prometheus:9090" {
		t.Errorf("got %+v: %v", sources, err)
	}
	var dashboards struct {
		Providers []struct {
			Type    string
			Options struct{ Path string }
		}
	}
	if err := yaml.Unmarshal([]byte(readFile(t, filepath.Join(root, compose, "grafana/dashboards.yaml"))), &dashboards); err != nil || len(dashboards.Providers) != 1 {
		t.Fatalf("got %+v: %v", dashboards, err)
	}
	if mounted := strings.Join(file.Services["grafana"].Volumes, " "); !strings.Contains(mounted, "penstock.json:"+dashboards.Providers[0].Options.Path+"/") {
		t.Errorf("the dashboard is not where Grafana looks: %s", mounted)
	}
}

// spawn starts a program that ends with the test.
func spawn(t *testing.T, dir string, env []string, name string, args ...string) {
	t.Helper()
	c := exec.Command(name, args...)
	c.Dir, c.Env = dir, append(os.Environ(), env...)
	log := filepath.Join(t.TempDir(), "log")
	p, err := child.Start(c, log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			t.Logf("%s said:\n%s", name, child.LogTail(log))
		}
	})
}

// Both nodes, nginx, PostgreSQL, Redis and Prometheus run as processes with the files of the example: limits are
// shared, and Prometheus knows both nodes and answers all that the dashboard asks.
func TestCompose(t *testing.T) {
	t.Parallel()
	nginx, prometheus, openssl := need(t, "nginx", "nginx"), need(t, "prometheus", "prometheus"), need(t, "openssl", "openssl")
	redis, postgres := redistest.Start(t), pgtest.Start(t)
	database, err := postgres.Database(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	run(t, dir, []string{"PATH=" + filepath.Dir(openssl) + ":" + os.Getenv("PATH")}, "sh", filepath.Join(root, compose, "secrets.sh"), dir)
	run(t, dir, nil, program, "rules", "apply", "--database", database, filepath.Join(root, compose, "rules.yaml"))

	site, front, metrics := freeAddress(t), freeAddress(t), freeAddress(t)
	nodes := strings.ReplaceAll(readFile(t, filepath.Join(root, compose, "penstock.yaml")), "/run/penstock/", dir+"/")
	config := writeFile(t, filepath.Join(dir, "penstock.yaml"), nodes)
	if err := os.Chmod(config, 0o600); err != nil {
		t.Fatal(err)
	}
	var gateways, admins []string
	for i := range 2 {
		gateways, admins = append(gateways, freeAddress(t)), append(admins, freeAddress(t))
		spawn(t, dir, []string{
			"PENSTOCK_LISTEN_GATEWAY=" + gateways[i], "PENSTOCK_LISTEN_ADMIN=" + admins[i], "PENSTOCK_LISTEN_HTTP=", "PENSTOCK_LISTEN_GRPC=", "PENSTOCK_LISTEN_HEALTH=",
			"PENSTOCK_UPSTREAMS=[{url: 'http://" + site + "'}]", "PENSTOCK_STORE_REDIS_ADDRESSES=" + redis.Addr, "PENSTOCK_STORE_REDIS_TIMEOUT=30s",
			"PENSTOCK_RULES_DATABASE=" + database, "PENSTOCK_TRUSTED_PROXIES=127.0.0.0/8", "PENSTOCK_DATA_DIR=" + filepath.Join(dir, fmt.Sprint("node", i)),
		}, program, "serve", "--config", config)
	}
	spawn(t, dir, nil, nginx, "-p", dir, "-c", writeNginx(t, dir, strings.NewReplacer(
		"penstock-1:8080", gateways[0], "penstock-2:8080", gateways[1], "listen 80;", "listen "+front+";", "listen 3000;", "listen "+site+";",
	)))
	writeFile(t, filepath.Join(dir, "prometheus.yml"), strings.NewReplacer(
		"15s", "1s", "/etc/prometheus/", filepath.Join(root, "deploy/prometheus")+"/", "/run/penstock/", dir+"/", "penstock-1:8091", admins[0], "penstock-2:8091", admins[1],
	).Replace(readFile(t, filepath.Join(root, compose, "prometheus.yml"))))
	spawn(t, dir, nil, prometheus, "--config.file", "prometheus.yml", "--storage.tsdb.path", filepath.Join(dir, "tsdb"), "--web.listen-address", metrics)

	authority := x509.NewCertPool()
	authority.AppendCertsFromPEM([]byte(readFile(t, filepath.Join(dir, "tls.crt"))))
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: authority}}}
	defer client.CloseIdleConnections()
	get := func(url string) (int, string) {
		answer, err := client.Get(url)
		if err != nil {
			return 0, err.Error()
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err != nil {
			return 0, err.Error()
		}
		return answer.StatusCode, string(text)
	}
	for _, admin := range admins {
		eventually(t, "a node is connected to Redis", func() bool {
			_, text := get("https://" + admin + "/readyz")
			return text == "ready\n"
		})
	}
	ask := func(expression string) (values []json.RawMessage) {
		_, text := get("http://" + metrics + "/api/v1/query?query=" + url.QueryEscape(expression))
		var answer struct {
			Status string
			Data   struct{ Result []json.RawMessage }
		}
		if err := json.Unmarshal([]byte(text), &answer); err != nil || answer.Status != "success" {
			return nil
		}
		return answer.Data.Result
	}
	eventually(t, "Prometheus knows both nodes", func() bool {
		return len(ask("penstock_ready == 1")) == 2 && len(ask("up == 1")) == 2
	})
	answers := map[int]int{}
	for range 15 {
		status, _ := get("http://" + front + "/")
		answers[status]++
	}
	if answers[http.StatusOK] != 10 || answers[http.StatusTooManyRequests] != 5 {
		t.Errorf("answers %v, want 10 times 200 and 5 times 429: the nodes share a limit of 10", answers)
	}
	eventually(t, "Prometheus has counted denials", func() bool { return len(ask(`sum(penstock_decisions_total{result="denied"}) == 5`)) == 1 })
	testDashboard(t, metrics, get, ask)
}

// writeNginx adds to the file what lets anybody run it in a folder of its own.
func writeNginx(t *testing.T, dir string, replace *strings.Replacer) string {
	t.Helper()
	text := replace.Replace(readFile(t, filepath.Join(root, compose, "nginx.conf")))
	text = strings.Replace(text, "events { }", "daemon off;\nmaster_process off;\npid nginx.pid;\nerror_log stderr;\nevents { }", 1)
	text = strings.Replace(text, "http {", "http {\n\taccess_log off;\n\tclient_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi; scgi_temp_path scgi;", 1)
	return writeFile(t, filepath.Join(dir, "nginx.conf"), text)
}

// testDashboard evaluates every expression of the dashboard.
func testDashboard(t *testing.T, metrics string, get func(string) (int, string), ask func(string) []json.RawMessage) {
	t.Helper()
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal([]byte(readFile(t, filepath.Join(root, "deploy/grafana/penstock.json"))), &dashboard); err != nil {
		t.Fatal(err)
	}
	variables := strings.NewReplacer("$instance", ".*", "${instance}", ".*", "$__rate_interval", "1m", "$__interval", "1m", "$__range", "1h")
	evaluated, answered := 0, 0
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			expression := variables.Replace(target.Expr)
			if status, text := get("http://" + metrics + "/api/v1/query?query=" + url.QueryEscape(expression)); status != http.StatusOK {
				t.Errorf("%s: %s: %d %s", panel.Title, expression, status, text)
			}
			evaluated++
			if len(ask(expression)) > 0 {
				answered++
			}
		}
	}
	if evaluated == 0 || answered < evaluated/2 {
		t.Errorf("of %d expressions only %d have an answer", evaluated, answered)
	}
	if _, text := get("http://" + metrics + "/api/v1/rules"); !strings.Contains(text, "Penstock") || strings.Contains(text, `"health":"err"`) {
		t.Errorf("alerts: %s", text)
	}
}
