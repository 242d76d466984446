package config

import (
	"fmt"

	"github.com/spf13/pflag"
)

// flagKeys are the keys that have a flag.
var flagKeys = []struct{ flag, path, usage string }{
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

func AddFlags(flags *pflag.FlagSet) {
	for _, f := range flagKeys {
		flags.String(f.flag, "", f.usage)
	}
}

// Flags returns the keys that are set by flags.
func Flags(flags *pflag.FlagSet) (all []Flag) {
	for _, f := range flagKeys {
		flag := flags.Lookup(f.flag)
		if !flag.Changed {
			continue
		}
		value := flag.Value.String()
		if f.flag == "upstream" {
			value = fmt.Sprintf("[{url: %q}]", value)
		}
		all = append(all, Flag{"--" + f.flag, f.path, value})
	}
	return all
}
