package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/penstock-io/penstock/internal/nodetest"
)

// The doctor asks a running server what it serves.
func TestDoctorAsksTheServer(t *testing.T) {
	t.Parallel()
	const token = "token-of-the-doctors-test"
	dir := t.TempDir()
	file, conf := nodetest.RulesFile(t, keyRules), filepath.Join(dir, "penstock.yaml")
	nodetest.WriteFile(t, conf, "data_dir: "+dir+"\nlisten: {gateway: '', http: '127.0.0.1:0', grpc: ''}\nrules: {file: "+file+"}\nadmin: {token: "+token+"}\n")
	p := startProcess(t, "serve", "--config", conf, "--listen-admin", "127.0.0.1:0")
	ask := func(env ...string) string {
		return tell(t, env, "doctor", "--config", conf, "--timeout", "30s", "--listen-admin", p.addresses["admin"])
	}
	if text := ask(); !regexp.MustCompile(`✓ running +penstock \S+ serves version 0 of 2 rules, since `).MatchString(text) || !regexp.MustCompile(`✓ last good +.* has what the origin has`).MatchString(text) {
		t.Errorf("got\n%s", text)
	}
	nodetest.WriteFile(t, file, "rules: [")
	nodetest.Eventually(t, "the server refuses the rules", func() bool { return p.status(t, token).Rules.Refused != "" })
	if text := ask(); !regexp.MustCompile(`✗ running +.*has refused newer ones`).MatchString(text) {
		t.Errorf("got\n%s", text)
	}
	if text := ask("PENSTOCK_ADMIN_TOKEN=another-token-altogether"); !regexp.MustCompile(`\? running +.*401`).MatchString(text) {
		t.Errorf("got\n%s", text)
	}
}

// The doctor names files of envoyproxy/ratelimit that a running server has rejected.
func TestDoctorOnRefusedFilesOfEnvoy(t *testing.T) {
	t.Parallel()
	const token = "token-of-the-doctors-test"
	dir := t.TempDir()
	file, conf := filepath.Join(dir, "limits", "limits.yaml"), filepath.Join(dir, "penstock.yaml")
	if err := os.Mkdir(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	nodetest.WriteFile(t, file, "domain: mesh\ndescriptors: [{key: user, rate_limit: {unit: year, requests_per_unit: 1}}]")
	nodetest.WriteFile(t, conf, fmt.Sprintf("data_dir: %s\nlisten: {gateway: '', http: '127.0.0.1:0', grpc: ''}\nrules: {envoy_ratelimit: %q, poll_interval: 20ms}\nadmin: {token: %s}\n", dir, filepath.Dir(file), token))
	p := startProcess(t, "serve", "--config", conf, "--listen-admin", "127.0.0.1:0")
	nodetest.WriteFile(t, file, "domain: mesh\ndescriptors: [{key: user, rate_limit: {unit: moment}}]")
	nodetest.Eventually(t, "the server refuses the file", func() bool { return p.status(t, token).Rules.Refused != "" })
	report := tell(t, nil, "doctor", "--config", conf, "--timeout", "30s", "--listen-admin", p.addresses["admin"])
	for _, want := range []string{`✗ running +.*has refused newer ones: .*moment`, `✗ origin +.*moment`, `penstock rules import envoy-ratelimit \S+ lists every error`} {
		if !regexp.MustCompile(want).MatchString(report) {
			t.Errorf("the doctor does not say %s:\n%s", want, report)
		}
	}
}

// Scripts rely on the exit status.
func TestDoctorExitCodes(t *testing.T) {
	t.Parallel()
	rules := nodetest.RulesFile(t, keyRules)
	for _, test := range []struct {
		args []string
		want int
	}{
		{nil, exitYes}, {[]string{"--strict"}, exitNo}, {[]string{"-o", "json"}, exitYes},
		{[]string{"--rules", filepath.Join(t.TempDir(), "nowhere.yaml")}, exitFailed},
		{[]string{"--timeout", "0s"}, exitUsage}, {[]string{"--nonsense"}, exitUsage}, {[]string{"surplus"}, exitUsage},
	} {
		var out strings.Builder
		a := &app{stdin: strings.NewReader(""), stdout: &out, stderr: &out, env: []string{"PENSTOCK_DATA_DIR=" + t.TempDir()}}
		args := append([]string{"doctor", "--upstream", "http://127.0.0.1:1", "--rules", rules}, test.args...)
		if code := a.run(t.Context(), args); code != test.want {
			t.Errorf("%v: exit status %d, want %d\n%s", test.args, code, test.want, &out)
		}
	}
}
