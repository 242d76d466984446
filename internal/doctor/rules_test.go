package doctor

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/penstock-io/penstock/internal/nodetest"
	"github.com/penstock-io/penstock/internal/redistest"
	"github.com/penstock-io/penstock/rules"
	"github.com/penstock-io/penstock/rules/live"
)

// The rules in the database are newer than the copy on disk, and than what a node serves.
func TestDoctorOnFreshness(t *testing.T) {
	b := visit(t, "rules: {database: 'sqlite:rules.db'}\n")
	b.golden("no_database", Healthy)
	b.apply("10/1m", "")
	b.apply("20/1m", "")
	b.keepCopy("rules.last-good", "sqlite:"+filepath.Join(b.dir, "rules.db"))
	b.golden("old_copy", Healthy)
	b.write("rules.last-good", "penstock rules 1\nsha256:00")
	if said, code := b.examine(); code != Unhealthy || !strings.Contains(said, "✗ last good") {
		t.Errorf("a torn copy: outcome %d\n%s", code, said)
	}
}

// A start during an outage does not use a copy of another origin.
func TestDoctorOnACopyOfAnotherOrigin(t *testing.T) {
	b := visit(t, "rules: {database: 'sqlite:rules.db'}\n")
	database := "sqlite:" + filepath.Join(b.dir, "rules.db")
	b.apply("10/1m", "")
	for origin, want := range map[string]string{
		"/etc/penstock/rules.yaml": `! last good +\S+ has rules of /etc/penstock/rules.yaml, not of ` + database + `: a server does not start with it`,
		"":                         `! last good +\S+ does not say where its rules come from: a server does not start with it`,
		database:                   `! last good +\S+ has version 1, \S+ old, but the origin has`,
	} {
		b.keepCopy("rules.last-good", origin)
		if text, _ := b.examine(); !regexp.MustCompile(want).MatchString(text) {
			t.Errorf("a copy of %q: it does not say %s:\n%s", origin, want, text)
		}
	}
	if err := os.Remove(filepath.Join(b.dir, "rules.db")); err != nil {
		t.Fatal(err)
	}
	for origin, want := range map[string]string{
		"postgres": `! last good +\S+ has rules of postgres, not of ` + database,
		database:   `✓ last good +\S+ version 1, \S+ old; a server starts with it`,
	} {
		b.keepCopy("rules.last-good", origin)
		if text, _ := b.examine(); !regexp.MustCompile(want).MatchString(text) {
			t.Errorf("without a database, a copy of %q: it does not say %s:\n%s", origin, want, text)
		}
	}
}

// keepCopy writes a last good copy of an origin. A copy without the name of one is what older versions wrote.
func (b *testSetup) keepCopy(name, origin string) {
	b.t.Helper()
	text := live.NewText(1, time.Time{}, rules.File{Name: "new.yaml", Data: []byte("rules: []")})
	if origin == "" {
		data, err := text.Encode()
		if err != nil {
			b.t.Fatal(err)
		}
		b.write(name, string(data))
		return
	}
	r, err := live.Follow(b.t.Context(), fixedOrigin{text}, live.Options{LastGood: filepath.Join(b.dir, name), OriginName: origin})
	if err != nil {
		b.t.Fatal(err)
	}
	r.Close()
}

// A fixedOrigin always has the same rules.
type fixedOrigin struct{ text *live.Text }

func (o fixedOrigin) Read(context.Context) (*live.Text, error) { return o.text, nil }

func (o fixedOrigin) Watch(ctx context.Context, _ func(), _ func(error)) { <-ctx.Done() }

func (o fixedOrigin) String() string { return "fixed" }

// Nodes without a database get the rules through Redis.
func TestDoctorOnPublishedRules(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	b := visit(t, nodetest.OnRedis("single", server.Addr)+"rules: {database: 'sqlite:rules.db'}\n")
	b.apply("10/1m", "")
	for _, step := range []struct {
		rate, redis string
		want        string
	}{
		{"", "", `! in redis +no rules are published`},
		{"20/1m", server.Addr, `✓ in redis +Redis has what the database has \(version 2\)`},
		{"30/1m", "", `! in redis +nodes with rules.redis have version 2, the database has version 3`},
	} {
		if step.rate != "" {
			b.apply(step.rate, step.redis)
		}
		if text, _ := b.examine(); !regexp.MustCompile(step.want).MatchString(text) {
			t.Errorf("it does not say %s:\n%s", step.want, text)
		}
	}
	nodetest.RedisCommand(t, server.Addr, "ACL", "SETUSER", "default", "-publish")
	if text, _ := b.examine(); !regexp.MustCompile(`! rights +cannot publish rules .* may not publish`).MatchString(text) {
		t.Errorf("got\n%s", text)
	}
}

func TestDoctorOnBadRules(t *testing.T) {
	b := visit(t, "")
	b.write("rules.yaml", "rules: [{name: one, key: [ip], limits: [{rate: fast}]}]\n")
	if text, code := b.examine(); code != Unhealthy || !strings.Contains(text, "✗ origin") {
		t.Errorf("outcome %d\n%s", code, text)
	}
	if err := os.Remove(filepath.Join(b.dir, "rules.yaml")); err != nil {
		t.Fatal(err)
	}
	if text, code := b.examine(); code != Incomplete || !strings.Contains(text, "cannot read the rules") {
		t.Errorf("outcome %d\n%s", code, text)
	}
}

// The doctor reports files with limits that are not read.
func TestDoctorOnIgnoredFilesOfEnvoy(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"limits.yaml", "config", ".hidden"} {
		nodetest.WriteFile(t, filepath.Join(dir, name), "domain: mesh"+name)
	}
	if err := os.Mkdir(filepath.Join(dir, "more"), 0o700); err != nil {
		t.Fatal(err)
	}
	if report, _ := visit(t, fmt.Sprintf("rules: {envoy_ratelimit: %q}\n", dir)).examine(); !strings.Contains(report, `"config" in `+dir+" is ignored") || !strings.Contains(report, `"more" in `+dir+" is ignored") || strings.Contains(report, "hidden") {
		t.Errorf("got\n%s", report)
	}
}
