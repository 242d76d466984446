package main

import (
	"fmt"

	"github.com/spf13/pflag"
)

// configFlags are the keys that have a flag.
var configFlags = []struct{ flag, path, usage string }{
	{"listen-gateway", "listen.gateway", "`address` of the gateway; empty turns it off, as with the others"},
	{"listen-http", "listen.http", "`address` of the decision API and forward-auth"},
	{"listen-grpc", "listen.grpc", "`address` of the decision API over gRPC"},
	{"listen-admin", "listen.admin", "`address` of the console, the admin API, /metrics and /readyz"},
	{"upstream", "upstreams", "`URL` of the server behind the gateway"},
	{"redis", "store.redis.addresses", "`host:port` of Redis, several with commas"},
	{"rules", "rules.file", "rules in a `file` or a directory"},
	{"database", "rules.database", "rules in a `database`: sqlite:FILE or postgres://…; with a password, use --database-file"},
	{"database-file", "rules.database_file", "`file` that holds the value of --database"},
	{"data-dir", "data_dir", "`directory` of the SQLite database, the last good rules, the made secret"},
}

func addConfigFlags(flags *pflag.FlagSet) {
	for _, f := range configFlags {
		flags.String(f.flag, "", f.usage)
	}
}

// loadFlags reads the configuration as serve does: defaults, the file, the environment, the flags. What is
// wrong is for check to tell.
func loadFlags(file string, env []string, demo bool, flags *pflag.FlagSet) *loader {
	var all []given
	for _, f := range configFlags {
		flag := flags.Lookup(f.flag)
		if !flag.Changed {
			continue
		}
		value := flag.Value.String()
		if f.flag == "upstream" {
			value = fmt.Sprintf("[{url: %q}]", value)
		}
		all = append(all, given{"--" + f.flag, f.path, value})
	}
	if file == "" {
		file = getenv(env, "PENSTOCK_CONFIG")
	}
	l := loadConfig(file, env, all)
	l.errs = append(l.errs, unknownVariables(env)...)
	c := l.config
	unconfigured := file == "" && len(c.Upstreams) == 0 && c.Rules.File == "" && c.Rules.Database == "" && !c.Rules.Redis
	c.demo = demo || unconfigured
	if c.demo && l.origin["listen.gateway"] == "" {
		c.Listen.Gateway = "127.0.0.1:8080" // a demo is for this machine
	}
	return l
}
