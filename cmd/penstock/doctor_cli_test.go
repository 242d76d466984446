package main

import (
	"path/filepath"
	"regexp"
	"testing"

	"github.com/penstock-io/penstock/internal/nodetest"
)

// A server that runs is asked what it serves.
func TestDoctorAsksTheServer(t *testing.T) {
	const token = "token-of-the-doctors-test"
	dir := t.TempDir()
	file, conf := nodetest.RulesFile(t, keyRules), filepath.Join(dir, "penstock.yaml")
	nodetest.WriteFile(t, conf, "data_dir: "+dir+"\nlisten: {gateway: '', http: '127.0.0.1:0', grpc: ''}\nrules: {file: "+file+"}\nadmin: {token: "+token+"}\n")
	p := startProcess(t, "serve", "--config", conf, "--listen-admin", "127.0.0.1:0")
	ask := func(env ...string) string {
		return tell(t, env, "doctor", "--config", conf, "--timeout", "30s", "--listen-admin", p.addresses["admin"])
	}
	if text := ask(); !regexp.MustCompile(`✓ running +penstock \S+ serves version 0 of 2 rules, since `).MatchString(text) || !regexp.MustCompile(`✓ last good +.* is what the origin has`).MatchString(text) {
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
