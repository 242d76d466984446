package server

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/penstock-io/penstock/internal/config"
	"github.com/penstock-io/penstock/internal/nodetest"
	"github.com/penstock-io/penstock/internal/ruledb"
	"github.com/penstock-io/penstock/rules/live"
)

func TestStartFromLastGoodRules(t *testing.T) {
	t.Parallel()
	file, dir := nodetest.RulesFile(t, fmt.Sprintf(perUser, 1)), t.TempDir()
	yaml := "data_dir: " + dir + "\nrules: {file: " + file + "}"
	n := startNode(t, yaml)
	secret, err := os.ReadFile(filepath.Join(dir, "key_secret"))
	if err != nil {
		t.Fatal(err)
	}
	n.stop()
	<-n.done
	nodetest.WriteFile(t, file, "rules: [{nmae: x}]")

	again := startNode(t, yaml)
	if s := again.statusNow().Rules; !s.FromCopy || s.Refused == "" {
		t.Errorf("rules: %+v, want those of the copy", s)
	}
	if v := again.check(`{"user": "u1"}`); v.Rule != "per-user" {
		t.Errorf("got %+v", v)
	}
	if kept, _ := os.ReadFile(filepath.Join(dir, "key_secret")); string(kept) != string(secret) {
		t.Error("the secret of keys is another after a restart")
	}
}

// The copy that another file has left in data_dir does not hide a misspelt name.
func TestStartWithAnotherFile(t *testing.T) {
	t.Parallel()
	file, dir := nodetest.RulesFile(t, fmt.Sprintf(perUser, 1)), t.TempDir()
	n := startNode(t, "data_dir: "+dir+"\nrules: {file: "+file+"}")
	n.stop()
	<-n.done
	missing, broken := filepath.Join(dir, "ruls.yaml"), nodetest.RulesFile(t, "rules: [{nmae: x}]")
	for path, want := range map[string]string{missing: missing + ": no such file", broken: "come from " + file + ", not from " + broken} {
		c := *n.config
		c.Rules.File = path
		s, err := New(t.Context(), Options{Config: &c, Log: slog.New(slog.DiscardHandler)})
		if err == nil {
			s.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error that says %q", path, err, want)
		}
	}
}

// A database or Redis has the same name after a failover; a file does not change its name.
func TestOriginNames(t *testing.T) {
	database := func(source string) live.Origin {
		origin, err := ruledb.NewOrigin(source, ruledb.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { origin.Close() })
		return origin
	}
	file, err := live.NewFiles("/etc/penstock/rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for want, origin := range map[string]live.Origin{
		"postgres":                 database("postgres://me:secret@192.0.2.1/penstock"),
		"sqlite:/var/penstock.db":  database("sqlite:/var/penstock.db"),
		"/etc/penstock/rules.yaml": file,
	} {
		if got := OriginName(origin); got != want {
			t.Errorf("%v: %s, want %s", origin, got, want)
		}
	}
}

// The log warns if nothing is limited, and says where the rules should be.
func TestStartWarnsOfNoRules(t *testing.T) {
	t.Parallel()
	n := startNode(t, "rules: {file: "+nodetest.RulesFile(t, fmt.Sprintf(perUser, 1))+"}")
	const warning = `"level":"WARN","msg":"no rules: every request is allowed"`
	if log := n.log.String(); strings.Contains(log, warning) {
		t.Errorf("there is a rule:\n%s", log)
	}
	dir := t.TempDir()
	for database, file := range map[string]string{
		"": nodetest.RulesFile(t, "rules: []"),
		"sqlite:" + filepath.Join(dir, "penstock.db"): "", // as when no source of rules is configured
	} {
		c, log := *n.config, &nodetest.SyncBuffer{}
		c.Demo, c.DataDir, c.Rules.File, c.Rules.Database = false, dir, file, config.Secret(database)
		s, err := New(t.Context(), Options{Config: &c, Log: slog.New(slog.NewJSONHandler(log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		s.Close()
		if text := log.String(); !strings.Contains(text, warning) || !strings.Contains(text, `"origin":"`+database+file+`"`) {
			t.Errorf("%s%s:\n%s", database, file, text)
		}
	}
}

// The start warns about a queue that takes longer than the gateway holds requests.
func TestStartWarnsOfAShortDelay(t *testing.T) {
	t.Parallel()
	file := nodetest.RulesFile(t, "rules: [{name: even, key: [], limits: [{rate: 4/60s, queue: 6, algorithm: leaky_bucket}]}]")
	for delay, warns := range map[string]bool{"0s": false, "30s": true, "90s": false} {
		n := startNode(t, "rules: {file: "+file+"}\ngateway: {max_delay: "+delay+"}")
		if told := strings.Contains(n.log.String(), "the last request in a queue of 6 waits 90s"); told != warns {
			t.Errorf("max_delay %s: warned %v, want %v:\n%s", delay, told, warns, n.log)
		}
	}
}

// A closed server leaves nothing behind.
func TestNothingIsLeft(t *testing.T) {
	before := goleak.IgnoreCurrent()
	t.Run("server", func(t *testing.T) {
		n := startNode(t, "")
		n.get(n.url("gateway", "/"))
		n.check("{}")
	})
	nodetest.Eventually(t, "all goroutines end", func() bool { return goleak.Find(before) == nil })
}

func TestStartFails(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, change := range map[string]func(*config.Config){
		"no rules":          func(c *config.Config) { c.Rules.File = filepath.Join(dir, "nowhere.yaml") },
		"broken rules":      func(c *config.Config) { c.Rules.File = nodetest.RulesFile(t, "rules: [{nmae: x}]") },
		"no such directory": func(c *config.Config) { c.DataDir = filepath.Join(nodetest.RulesFile(t, ""), "x") },
		"an empty secret": func(c *config.Config) {
			c.Rules.File, c.DataDir = nodetest.RulesFile(t, "rules: []"), t.TempDir()
			nodetest.WriteFile(t, filepath.Join(c.DataDir, "key_secret"), "")
		},
		"a certificate that is none": func(c *config.Config) {
			c.Rules.File = nodetest.RulesFile(t, "rules: []")
			c.Gateway.TLS = config.ServerTLS{Certificate: c.Rules.File, Key: c.Rules.File}
		},
		"an address of another": func(c *config.Config) {
			c.Rules.File, c.Listen.HTTP = nodetest.RulesFile(t, "rules: []"), "192.0.2.1:0"
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := config.Default()
			c.Listen = config.Listen{Gateway: "127.0.0.1:0", HTTP: "127.0.0.1:0", Admin: "127.0.0.1:0"}
			c.DataDir, c.Demo = t.TempDir(), true
			change(c)
			s, err := New(t.Context(), Options{Config: c, Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
			if err == nil {
				s.Close()
				t.Fatal("it started")
			}
			t.Log(err)
		})
	}
}
