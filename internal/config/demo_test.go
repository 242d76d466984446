package config

import (
	"testing"

	"github.com/spf13/pflag"
)

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
		AddFlags(flags)
		if err := flags.Parse(row.args); err != nil {
			t.Fatal(err)
		}
		conf, _ := Load(Sources{Flags: Flags(flags), Demo: row.demo})
		if got := conf.Listen.Gateway; got != row.want {
			t.Errorf("demo %v, %q: the gateway listens at %q, want %q", row.demo, row.args, got, row.want)
		}
	}
}
