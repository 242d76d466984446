package main

import (
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/penstock-io/penstock/internal/config"
	"github.com/penstock-io/penstock/internal/nodetest"
)

// The command finds the node by its configuration, and its status is the answer.
func TestHealth(t *testing.T) {
	t.Parallel()
	p := startProcess(t, onFreePorts...)
	config := filepath.Join(t.TempDir(), "penstock.yaml")
	nodetest.WriteFile(t, config, `listen: {http: "`+p.addresses["http"]+`"}`)
	_, port, err := net.SplitHostPort(p.addresses["http"])
	if err != nil {
		t.Fatal(err)
	}
	draining := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "not ready: stopping", http.StatusServiceUnavailable)
	}))
	defer draining.Close()
	closed := httptest.NewServer(nil)
	closed.Close()
	for _, test := range []struct {
		env  []string
		args []string
		code int
		out  string // what is printed begins with it
		errs string // and what is complained of has it
	}{
		{nil, []string{"--config", config}, exitYes, "ready", ""},
		{[]string{"PENSTOCK_CONFIG=" + config}, []string{"-o", "json"}, exitYes, "{\n  \"detail\": \"ready\"", ""},
		{[]string{"PENSTOCK_LISTEN_HEALTH=:" + port}, nil, exitYes, "ready", ""},
		{nil, []string{"--url", draining.URL + "/readyz"}, exitNo, "not ready: stopping\n", ""},
		{nil, []string{"--url", closed.URL}, exitFailed, "", "refused"},
		{[]string{"PENSTOCK_LISTEN_HTTP=", "PENSTOCK_LISTEN_ADMIN="}, nil, exitFailed, "", "no listener serves /readyz"},
		{nil, []string{"--timeout", "0s"}, exitUsage, "", "--timeout 0s is not positive"},
	} {
		var out, errs strings.Builder
		a := &app{stdin: strings.NewReader(""), stdout: &out, stderr: &errs, env: test.env}
		code := a.run(t.Context(), append([]string{"health", "--timeout", "30s"}, test.args...))
		if code != test.code || !strings.HasPrefix(out.String(), test.out) || !strings.Contains(errs.String(), test.errs) {
			t.Errorf("%v %v: exit status %d, %q, %q", test.env, test.args, code, &out, &errs)
		}
	}
}

func TestHealthAddress(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ health, http, admin, certificate, want string }{
		{":8092", "127.0.0.1:8090", "127.0.0.1:8091", "", "127.0.0.1:8092"},
		{"0.0.0.0:8092", "", "", "", "127.0.0.1:8092"},
		{"[::]:8092", "", "", "", "[::1]:8092"},
		{"", "10.0.0.1:8090", "127.0.0.1:8091", "", "10.0.0.1:8090"},
		{"", "", "127.0.0.1:8091", "", "127.0.0.1:8091"},
		{"", "", "10.0.0.1:8091", "tls.crt", ""},
		{"127.0.0.1:0", "", "", "", ""},
	} {
		c := &config.Config{Listen: config.Listen{Health: test.health, HTTP: test.http, Admin: test.admin}}
		c.Admin.TLS.Certificate = test.certificate
		if got, err := healthAddress(c); got != test.want || (err == nil) != (test.want != "") {
			t.Errorf("%+v: got %q, %v", test, got, err)
		}
	}
}
