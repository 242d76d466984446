package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/penstock-io/penstock/internal/config"
)

// A token that the server made is the same after a restart, printed once, and readable by its owner alone.
func TestMadeTokenIsKept(t *testing.T) {
	dir := t.TempDir()
	first := startNode(t, "data_dir: "+dir)
	var greeting bytes.Buffer
	first.greet(&greeting)
	file := filepath.Join(dir, "admin_token")
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%s: %v, %v", file, info, err)
	}
	if text := greeting.String(); !strings.Contains(text, first.token+" (shown once, kept in "+file+")") {
		t.Errorf("the first start says\n%s", text)
	}
	first.stop()
	<-first.done

	second := startNode(t, "data_dir: "+dir)
	greeting.Reset()
	second.greet(&greeting)
	if text := greeting.String(); strings.Contains(text, first.token) || !strings.Contains(text, "token    in "+file+"\n") {
		t.Errorf("the second start says\n%s", text)
	}
	second.token = first.token
	second.statusNow()
}

// A demo is reached from this machine only, unless an address is given.
func TestDemoIsOnLoopback(t *testing.T) {
	for _, row := range []struct {
		demo bool
		args []string
		want string
	}{
		{true, nil, "127.0.0.1:8080"},
		{false, nil, "127.0.0.1:8080"}, // nothing is configured
		{true, []string{"--listen-gateway", ":8080"}, ":8080"},
		{true, []string{"--listen-gateway", ""}, ""},
		{false, []string{"--upstream", "http://127.0.0.1:3000"}, ":8080"},
	} {
		flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
		config.AddFlags(flags)
		if err := flags.Parse(row.args); err != nil {
			t.Fatal(err)
		}
		conf, _ := config.Load(config.Sources{Flags: config.Flags(flags), Demo: row.demo})
		if got := conf.Listen.Gateway; got != row.want {
			t.Errorf("demo %v, %q: the gateway listens at %q, want %q", row.demo, row.args, got, row.want)
		}
	}
}
