package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/penstock-io/penstock/internal/nodetest"
	"github.com/penstock-io/penstock/internal/redistest"
)

// A first start on an empty database, and applying rules with the Redis rights that docs/reference/redis.md lists, are
// normal: the log has no errors, and says what to do next.
func TestNormalStatesAreNoErrors(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	nodetest.RedisCommand(t, redis.Addr, append([]string{"ACL", "SETUSER", "penstock", "on", ">only-in-tests", "~pen:*", "-@all"}, nodetest.DocumentedRights(t)...)...)
	as := strings.Replace(nodetest.OnRedis("single", redis.Addr), "timeout:", "username: penstock, password: only-in-tests, timeout:", 1)
	dir := t.TempDir()
	file := filepath.Join(dir, "penstock.yaml")
	nodetest.WriteFile(t, file, as+"data_dir: "+dir+"\nlisten: {gateway: '', http: '127.0.0.1:0', grpc: '127.0.0.1:0', admin: '127.0.0.1:0'}\nrules: {database: 'sqlite:rules.db', poll_interval: 50ms}\n")
	var log nodetest.SyncBuffer
	p, err := tryProcess(t, &log, "serve", "--config", file)
	if err != nil {
		t.Fatalf("%v\n%s", err, &log)
	}
	token := kept(t, dir)
	served := func() int64 { return p.status(t, token).Rules.Version }
	// The log is another pipe than the addresses, so it may be read later.
	nodetest.Eventually(t, "the log says that there are no rules", func() bool { return strings.Contains(log.String(), `"no rules: every request is allowed"`) })
	for _, rate := range []string{"1/1m", "2/1m", "3/1m"} {
		version := served()
		nodetest.WriteFile(t, filepath.Join(dir, "rules.yaml"), "rules: [{name: one, key: [ip], limits: [{rate: "+rate+"}]}]\n")
		var out bytes.Buffer
		a := &app{stdin: strings.NewReader(""), stdout: &out, stderr: &out}
		if code := a.run(t.Context(), []string{"rules", "apply", "--config", file, "-m", "a test", filepath.Join(dir, "rules.yaml")}); code != exitYes {
			t.Fatalf("apply: exit status %d: %s", code, &out)
		}
		nodetest.Eventually(t, "the rules are served", func() bool { return served() > version })
	}
	const said = `"rules not published to Redis: the Redis user lacks permission"`
	nodetest.Eventually(t, "the log says what is not published", func() bool { return strings.Contains(log.String(), said) })
	if text := log.String(); strings.Count(text, said) != 1 || strings.Contains(text, `"level":"ERROR"`) {
		t.Errorf("got\n%s", text)
	}
	var out bytes.Buffer
	a := &app{stdin: strings.NewReader(""), stdout: &out, stderr: &out, env: []string{"PENSTOCK_STORE_REDIS_USERNAME=penstock", "PENSTOCK_STORE_REDIS_PASSWORD=only-in-tests"}}
	if code := a.run(t.Context(), []string{"rules", "apply", "--config", file, "--redis", redis.Addr, filepath.Join(dir, "rules.yaml")}); code != exitFailed {
		t.Errorf("apply --redis without the rights: exit status %d: %s", code, &out)
	}
}
