package main

import (
	"bytes"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/penstock-io/penstock/internal/nodetest"
	"github.com/penstock-io/penstock/internal/redistest"
)

// With --connect, ok means that everything the configuration names has answered.
func TestCheckConnects(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	upstream := httptest.NewServer(http.NotFoundHandler())
	defer upstream.Close()
	closed := closedAddress(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "rules.yaml")
	nodetest.WriteFile(t, file, "rules: [{name: one, key: [ip], limits: [{rate: 10/1m}]}]\n")
	for _, c := range []struct {
		redis, upstream, database string
		want                      []string // of stderr; none: ok
	}{
		{redis: redis.Addr, upstream: upstream.URL},
		{closed, upstream.URL, "", []string{"store.redis: cannot use " + closed}},
		{redis.Addr, "http://" + closed, "", []string{"upstreams[0]: cannot connect to http://" + closed}},
		{redis.Addr, strings.Replace(upstream.URL, "http:", "https:", 1), "", []string{"upstreams[0]: cannot connect to https:"}},
		{closed, "http://" + closed, "postgres://penstock@" + closed + "/penstock", []string{"store.redis: ", "upstreams[0]: ", "rules: cannot read the rules"}},
	} {
		args := []string{"serve", "--check", "--connect", "--data-dir", dir, "--redis", c.redis, "--upstream", c.upstream}
		if c.database == "" {
			args = append(args, "--rules", file)
		} else {
			args = append(args, "--database", c.database)
		}
		var errs bytes.Buffer
		a := &app{stdin: strings.NewReader(""), stdout: &errs, stderr: &errs, env: []string{"PENSTOCK_KEY_SECRET=0123456789abcdef"}}
		code := a.run(t.Context(), args)
		if ok := code == exitYes && strings.HasPrefix(errs.String(), "ok: "); ok != (len(c.want) == 0) {
			t.Errorf("%v: exit status %d\n%s", args, code, &errs)
		}
		for _, want := range c.want {
			if !strings.Contains(errs.String(), want) {
				t.Errorf("%v: no %q in\n%s", args, want, &errs)
			}
		}
	}
}

// closedAddress returns an address at which nothing listens.
func closedAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
