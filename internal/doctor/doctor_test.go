package doctor

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/penstock-io/penstock/internal/config"
	"github.com/penstock-io/penstock/internal/nodetest"
	"github.com/penstock-io/penstock/internal/ruledb"
	"github.com/penstock-io/penstock/internal/ruleredis"
	"github.com/penstock-io/penstock/internal/ruleservice"
)

// A testSetup is a configuration and the files it names, in its own directory.
type testSetup struct {
	t       *testing.T
	dir     string
	strict  bool
	timeout time.Duration
	version int64 // of the rules in the database
}

// visit makes a configuration for the doctor to check: listeners on loopback, one good rule.
func visit(t *testing.T, yaml string) *testSetup {
	t.Helper()
	b := &testSetup{t: t, dir: t.TempDir(), timeout: nodetest.Timeout}
	base := fmt.Sprintf("listen: {gateway: '', http: '127.0.0.1:8090', admin: ''}\ndata_dir: %s\n", b.dir)
	if !strings.Contains(yaml, "rules:") {
		yaml += "rules: {file: " + b.write("rules.yaml", "rules: [{name: one, key: [ip], limits: [{rate: 10/1m}]}]\n") + "}\n"
	}
	b.write("penstock.yaml", base+yaml)
	return b
}

func (b *testSetup) write(name, text string) (path string) {
	b.t.Helper()
	path = filepath.Join(b.dir, name)
	nodetest.WriteFile(b.t, path, text)
	return path
}

// examine runs the doctor and returns what it prints and its outcome.
func (b *testSetup) examine() (string, Outcome) {
	b.t.Helper()
	r := b.run()
	var out bytes.Buffer
	r.Print(&out, false)
	return out.String(), r.Outcome(b.strict)
}

func (b *testSetup) run() *Report {
	c, err := config.Load(config.Sources{File: filepath.Join(b.dir, "penstock.yaml")})
	return Run(b.t.Context(), Options{Config: c, Invalid: err, Timeout: b.timeout, Version: "1.2.3"})
}

var maskings = []struct {
	from *regexp.Regexp
	to   string
}{
	{regexp.MustCompile(`(?m)^  . open files.*\n(    .*→.*\n)?`), ""}, // depends on the machine
	{regexp.MustCompile(`(redis|valkey) \d+\.\d+\.\d+`), "redis VERSION"},
	{regexp.MustCompile(`took \S+ \(median\) and \S+ \(slowest\)`), "took A (median) and B (slowest)"},
	{regexp.MustCompile(`, \S+ old`), ", AGE old"},
	{regexp.MustCompile(`since \d\S*`), "since AGE"},
	{regexp.MustCompile(`NOPERM .*`), "NOPERM …"},
	{regexp.MustCompile(`(?m)^(\d+ [a-z ]+(, )?)+$\n`), ""},
}

// masked removes what differs from run to run: directories, ports, versions, times.
func (b *testSetup) masked(text string) string {
	text = strings.ReplaceAll(text, b.dir, "DIR")
	ports := map[string]string{}
	text = regexp.MustCompile(`127\.0\.0\.1:\d+`).ReplaceAllStringFunc(text, func(address string) string {
		if ports[address] == "" {
			ports[address] = fmt.Sprintf("server-%d", len(ports)+1)
		}
		return ports[address]
	})
	for _, m := range maskings {
		text = m.from.ReplaceAllString(text, m.to)
	}
	return text
}

// golden compares the doctor's output with testdata. To accept the current output: PENSTOCK_TEST_UPDATE=1 go test
// ./internal/doctor.
func (b *testSetup) golden(name string, want Outcome) string {
	b.t.Helper()
	text, code := b.examine()
	if code != want {
		b.t.Errorf("outcome %d, want %d", code, want)
	}
	got, file := b.masked(text), filepath.Join("testdata", name+".txt")
	if os.Getenv("PENSTOCK_TEST_UPDATE") != "" {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			b.t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			b.t.Fatal(err)
		}
	}
	said, err := os.ReadFile(file)
	if err != nil {
		b.t.Fatal(err)
	}
	if diff := cmp.Diff(string(said), got); diff != "" {
		b.t.Errorf("%s (-want +got)\n%s\nall of it:\n%s", file, diff, text)
	}
	return text
}

// apply saves rules as the next version in the database, and publishes them to Redis if there is an address.
func (b *testSetup) apply(rate, redis string) {
	b.t.Helper()
	defer func() { b.version++ }()
	origin, err := ruledb.NewOrigin("sqlite:"+filepath.Join(b.dir, "rules.db"), ruledb.Options{})
	if err != nil {
		b.t.Fatal(err)
	}
	defer origin.Close()
	service := &ruleservice.Service{Database: origin}
	if redis != "" {
		published, err := ruleredis.New(ruleredis.Options{Addresses: []string{redis}, KeyPrefix: "pen:", Timeout: nodetest.Timeout})
		if err != nil {
			b.t.Fatal(err)
		}
		defer published.Close()
		service.Publisher = published
	}
	document := "rules: [{name: one, key: [ip], limits: [{rate: " + rate + "}]}]\n"
	if _, err := service.Apply(b.t.Context(), "new.yaml", ruledb.Change{Author: "a test", Message: "a test", Document: []byte(document), Base: b.version}); err != nil {
		b.t.Fatal(err)
	}
}

func TestDoctorInMemory(t *testing.T) {
	b := visit(t, "")
	b.golden("memory", Healthy)
	b = visit(t, "nodes: 3\ntrusted_proxies: [10.0.0.0/8, 0.0.0.0/0]\nlisten: {gateway: '', http: ':8090', grpc: ':8081', admin: ''}\n")
	yaml, err := os.ReadFile(filepath.Join(b.dir, "penstock.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(yaml), "\n") // the other listeners
	b.write("penstock.yaml", rest)
	b.golden("memory_wrong", Unhealthy)
}

func TestDoctorOnBadConfiguration(t *testing.T) {
	b := visit(t, "nodes: many\n")
	if text, code := b.examine(); code != Unhealthy || !strings.Contains(text, "✗ configuration") || strings.Contains(text, "store") {
		t.Errorf("outcome %d\n%s", code, text)
	}
	b = visit(t, "store: {redis: {addresses: ['127.0.0.1:1']}}\n") // and no key_secret
	if text, code := b.examine(); code != Incomplete || !strings.Contains(text, "openssl rand -hex 32") || !strings.Contains(text, "✗ reach") {
		t.Errorf("outcome %d\n%s", code, text)
	}
}

func TestDoctorAsData(t *testing.T) {
	r := visit(t, "nodes: 3\n").run()
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var found struct {
		Findings []finding
		OK       int
		Fail     int
	}
	if err := json.Unmarshal(text, &found); err != nil || r.Outcome(false) != Unhealthy {
		t.Fatalf("%v\n%s", err, text)
	}
	want := finding{Section: "store", Check: "store", Level: levelFail, Fix: "store.redis.addresses",
		Text: "nodes is 3, but each counts in its own memory: together they admit up to 3 times the limits"}
	if last := found.Findings[len(found.Findings)-1]; last != want || found.Fail != 1 || found.OK == 0 {
		t.Errorf("got %+v in\n%s", last, text)
	}
}

func TestReportOnATerminal(t *testing.T) {
	var r Report
	r.begin("store")
	r.fail("mode", "mend\tit", "a server said: \x1b[2J\u202e")
	var plain, coloured bytes.Buffer
	r.Print(&plain, false)
	r.Print(&coloured, true)
	if want := "store\n  ✗ mode  a server said:  [2J \n          → mend it\n1 failed\n"; plain.String() != want {
		t.Errorf("got\n%q, want\n%q", plain.String(), want)
	}
	if !strings.Contains(coloured.String(), "\x1b[31m✗\x1b[0m mode") || strings.Contains(coloured.String(), "\x1b[2J") {
		t.Errorf("got %q", coloured.String())
	}
}
