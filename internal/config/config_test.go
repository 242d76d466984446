package config

import (
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// load reads a configuration as serve does.
func load(t *testing.T, yaml string, env []string, flags ...Flag) (*Config, error) {
	t.Helper()
	t.Chdir(t.TempDir())
	if err := os.WriteFile("penstock.yaml", []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	return Load(Sources{File: "penstock.yaml", Env: env, Flags: flags})
}

const upstream = "\nupstreams: [{url: http://127.0.0.1:3000}]\n"

func TestConfigPrecedence(t *testing.T) {
	const yaml = "listen: {gateway: ':1', http: ':1001', grpc: ':1002'}" + upstream
	env := []string{"PENSTOCK_LISTEN_GATEWAY=:2", "PENSTOCK_LISTEN_HTTP=:2001"}
	c, err := load(t, yaml, env, Flag{"--listen-gateway", "listen.gateway", ":3"})
	if err != nil {
		t.Fatal(err)
	}
	want := Listen{Gateway: ":3", HTTP: ":2001", GRPC: ":1002", Admin: "127.0.0.1:8091", SocketMode: "0660", Share: 50}
	if diff := cmp.Diff(want, c.Listen); diff != "" {
		t.Error("flag > environment > file > default, but (-want +got):\n" + diff)
	}
}

// gRPC servers without TLS are upstreams.
func TestH2CUpstreams(t *testing.T) {
	c, err := load(t, "upstreams: [{urls: ['h2c://127.0.0.1:50051', 'h2c://orders:50051']}]", nil)
	if err != nil || len(c.Upstreams) != 1 || len(c.Upstreams[0].Servers()) != 2 {
		t.Errorf("%v: %+v", err, c)
	}
}

func TestConfigValues(t *testing.T) {
	const yaml = `
# every kind of value
listen: {grpc: ""}
upstreams:
  - url: http://127.0.0.1:3000
  - {host: api.example.com, path: /v1, urls: ['http://a:1', 'https://b:2'], health: {path: /up, interval: 1s}}
store:
  memory: {max_bytes: 64MiB}
trusted_proxies: [10.0.0.0/8, 192.0.2.1]
headers: [ietf, x-ratelimit]
gateway: {h2c: true, limits: {body_bytes: -1}, timeouts: {idle: 1m30s}}
`
	c, err := load(t, yaml, []string{"PENSTOCK_HEADERS=none", "PENSTOCK_SERVICE_HOST=10.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	second := DefaultUpstream()
	second.Host, second.Path, second.URLs = "api.example.com", "/v1", []string{"http://a:1", "https://b:2"}
	second.Health.Path, second.Health.Interval = "/up", 1e9
	for _, check := range []struct {
		what      string
		got, want any
	}{
		{"grpc", c.Listen.GRPC, ""},
		{"upstreams", c.Upstreams[1], second},
		{"path", c.Upstreams[0].Path, "/"},
		{"max_bytes", c.Store.Memory.MaxBytes, Size(64 << 20)},
		{"networks", c.TrustedProxies[0].String() + " " + c.TrustedProxies[1].String(), "10.0.0.0/8 192.0.2.1/32"},
		{"headers", c.Headers, []string{"none"}},
		{"body_bytes", c.Gateway.Limits.BodyBytes, Size(-1)},
		{"idle", c.Gateway.Timeouts.Idle.String(), "1m30s"},
		{"database", string(c.Rules.Database), "sqlite:/var/lib/penstock/penstock.db"},
	} {
		if diff := cmp.Diff(check.want, check.got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", check.what, diff)
		}
	}
}

func TestConfigRulesAreOneChoice(t *testing.T) {
	c, err := load(t, "rules: {file: rules.yaml, poll_interval: 7s}"+upstream, nil, Flag{"--database", "rules.database", "sqlite:/x/y.db"})
	if err != nil {
		t.Fatal(err)
	}
	want := Rules{Database: "sqlite:/x/y.db", PollInterval: 7e9, Charge: "alone", XDS: Default().Rules.XDS}
	if !reflect.DeepEqual(c.Rules, want) {
		t.Errorf("got %+v, want %+v", c.Rules, want)
	}
}

func TestConfigSecretsFromFiles(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte("0123456789abcdef\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := load(t, upstream, []string{"PENSTOCK_KEY_SECRET_FILE=" + file, "PENSTOCK_ADMIN_TOKEN_FILE=" + file})
	if err != nil {
		t.Fatal(err)
	}
	if c.KeySecret != "0123456789abcdef" || c.Admin.Token != c.KeySecret {
		t.Errorf("got %q and %q", string(c.KeySecret), string(c.Admin.Token))
	}
}

// Each row has one error; the message must contain the place and the rest.
func TestConfigMistakes(t *testing.T) {
	for _, row := range []struct{ name, yaml, env, want string }{
		{"unknown field", "listen: {gatway: ':1'}" + upstream, "", `penstock.yaml:1:10: listen: unknown field "gatway", did you mean gateway?`},
		{"unknown field like no other", "listen: {port: 1}" + upstream, "", `penstock.yaml:1:10: listen: unknown field "port"; known fields: admin, client_share, gateway, grpc, health, hosts, http`},
		{"unknown top field", "lisen: {}" + upstream, "", `penstock.yaml:1:1: unknown field "lisen"`},
		{"duplicate", "data_dir: a\ndata_dir: b" + upstream, "", `penstock.yaml:2:1: data_dir: set twice`},
		{"syntax", "listen: {gateway", "", "penstock.yaml:1:"},
		{"no bound on connections", "gateway: {limits: {connections: -1}}" + upstream, "", `penstock.yaml:1:33: gateway.limits.connections: invalid number "-1": must be from 0 to 2147483647`},
		{"no JSON can be read", "gateway: {limits: {json_bytes: 0}}" + upstream, "", "penstock.yaml:1:32: gateway.limits.json_bytes: 0 is not from 1 to 134217728"},
		{"nothing can be held", "gateway: {limits: {held_bytes: 0}}" + upstream, "", "penstock.yaml:1:32: gateway.limits.held_bytes: 0 must be positive"},
		{"two documents", "data_dir: a\n---\ndata_dir: b\n", "", "penstock.yaml:2:1: a second document begins here"},
		{"section is text", "listen: hello" + upstream, "", "penstock.yaml:1:9: listen: must have fields"},
		{"root is a list", "[a]", "", "penstock.yaml:1:1: must have fields"},
		{"value is a section", "data_dir: {a: b}" + upstream, "", "penstock.yaml:1:11: data_dir: must be a single value"},
		{"list is text", "headers: ietf" + upstream, "", "penstock.yaml:1:10: headers: must be a list"},
		{"item of a list", "headers: [ietf, nope]" + upstream, "", `penstock.yaml:1:17: headers[1]: invalid value "nope": must be one of ietf, x-ratelimit, x-ratelimit-unix, none`},
		{"unknown upstream field", "upstreams: [{url: 'http://a', tls: x}]", "", `penstock.yaml:1:31: upstreams[0]: unknown field "tls"`},
		{"duration", "rules: {poll_interval: 5}" + upstream, "", `penstock.yaml:1:24: rules.poll_interval: invalid duration "5"`},
		{"negative duration", "rules: {poll_interval: -5s}" + upstream, "", `invalid duration "-5s"`},
		{"zero interval", "rules: {poll_interval: 0s}" + upstream, "", "penstock.yaml:1:24: rules.poll_interval: must be positive"},
		{"size", "store: {memory: {max_bytes: 1 gig}}" + upstream, "", `penstock.yaml:1:29: store.memory.max_bytes: invalid size "1 gig"`},
		{"huge size", "store: {memory: {max_bytes: 9EiB}}" + upstream, "", `invalid size "9EiB"`},
		{"bool", "gateway: {h2c: yes}" + upstream, "", `penstock.yaml:1:16: gateway.h2c: invalid value "yes": must be true or false`},
		{"number", "gateway: {limits: {streams: many}}" + upstream, "", `gateway.limits.streams: invalid number "many"`},
		{"negative number", "gateway: {limits: {streams: -1}}" + upstream, "", `invalid number "-1"`},
		{"level", "log: {level: loud}" + upstream, "", `penstock.yaml:1:14: log.level: invalid value "loud": must be one of debug, info, warn, error`},
		{"network", "trusted_proxies: [10.0.0.0/33]" + upstream, "", `trusted_proxies[0]: invalid network "10.0.0.0/33"`},
		{"network with host bits", "trusted_proxies: [10.0.0.1/8]" + upstream, "", "10.0.0.0/8 or 10.0.0.1/32"},
		{"environment", upstream, "PENSTOCK_STORE_REDIS_TIMEOUT=soon", `PENSTOCK_STORE_REDIS_TIMEOUT: store.redis.timeout: invalid duration "soon"`},
		{"Redis without an address", "store: {redis: {mode: cluster, password: x}}" + upstream, "", "penstock.yaml:1:23: store.redis.addresses: is empty: set it, for example to 127.0.0.1:6379, or remove all of store.redis to keep counters in memory"},
		{"no address", "store: {redis_per_second: {addresses: []}}" + upstream, "", "store.redis_per_second.addresses: is empty"},
		{"no address in the environment", upstream, "PENSTOCK_STORE_REDIS_ADDRESSES=", "PENSTOCK_STORE_REDIS_ADDRESSES: store.redis.addresses: is empty"},
		{"environment upstreams", "", "PENSTOCK_UPSTREAMS=[{uri: a}]", `PENSTOCK_UPSTREAMS:1:3: upstreams[0]: unknown field "uri"`},
		{"address", "listen: {http: nowhere}" + upstream, "", `penstock.yaml:1:16: listen.http: invalid address "nowhere"`},
		{"port", "listen: {http: ':99999'}" + upstream, "", `invalid address ":99999"`},
		{"little memory", "grpc: {max_bytes: 1MiB}" + upstream, "", "penstock.yaml:1:19: grpc.max_bytes: 1MiB must be at least 4MiB"},
		{"any memory", "grpc: {max_bytes: -1}" + upstream, "", "penstock.yaml:1:19: grpc.max_bytes: -1 must be at least 4MiB"},
		{"address twice", "listen: {http: ':7', grpc: ':7'}" + upstream, "", "penstock.yaml:1:16: listen.http: :7 is already used by listen.grpc"},
		{"no listeners", "listen: {gateway: '', http: '', grpc: ''}", "", "every listener is off"},
		{"open admin", "listen: {admin: ':8091'}" + upstream, "", "penstock.yaml:1:17: listen.admin: :8091 can be reached from other machines, which requires admin.tls and admin.token"},
		{"open admin without tls", "listen: {admin: '0.0.0.0:8091'}" + upstream, "PENSTOCK_ADMIN_TOKEN=0123456789abcdef", "which requires admin.tls and admin.token"},
		{"no upstream", "data_dir: x", "", "upstreams: the gateway has no upstream"},
		{"upstream without url", "upstreams: [{path: /}]", "", "penstock.yaml:1:12: upstreams[0]: must have either url or urls"},
		{"upstream scheme", "upstreams: [{url: 'ftp://a'}]", "", `upstreams[0].url: "ftp://a" must be the URL of a server`},
		{"upstream without a host", "upstreams: [{url: 'h2c://'}]", "", `upstreams[0].url: "h2c://…" must be the URL of a server`},
		{"upstreams of two protocols", "upstreams: [{urls: ['h2c://a:1', 'http://a:2']}]", "", `upstreams[0].url: "http://a:2": either all servers of an upstream are h2c or none`},
		{"upstream path", "upstreams: [{url: 'http://a', path: api}]", "", `upstreams[0].path: invalid path "api": must begin with /`},
		{"redis without secret", "store: {redis: {addresses: ['a:1']}}" + upstream, "", "key_secret: nodes that share limits through Redis need the same secret: create one with openssl rand -hex 32"},
		{"redis address", "store: {redis: {addresses: [a]}}" + upstream, "PENSTOCK_KEY_SECRET=0123456789abcdef", `store.redis.addresses: "a" is not host:port`},
		{"redis many", "store: {redis: {addresses: ['a:1', 'b:1']}}" + upstream, "PENSTOCK_KEY_SECRET=0123456789abcdef", "mode single takes one"},
		{"sentinel", "store: {redis: {addresses: ['a:1'], mode: sentinel}}" + upstream, "PENSTOCK_KEY_SECRET=0123456789abcdef", "mode sentinel requires the master's name"},
		{"prefix", "store: {redis: {addresses: ['a:1'], key_prefix: '{x}'}}" + upstream, "PENSTOCK_KEY_SECRET=0123456789abcdef", "without braces"},
		{"short secret", "key_secret: hunter2" + upstream, "", "key_secret: 7 bytes are too few"},
		{"two ways to rules", "rules: {file: a, database: 'sqlite:b'}" + upstream, "", "use one of file, database, redis, envoy_ratelimit and xds"},
		{"rules from no redis", "rules: {redis: true}" + upstream, "", "requires store.redis.addresses"},
		{"half a certificate", "admin: {tls: {certificate: a}}" + upstream, "", "certificate and key must be set together"},
		{"secret twice", "key_secret: 0123456789abcdef\nkey_secret_file: x" + upstream, "", "penstock.yaml:2:18: key_secret_file: key_secret and key_secret_file are both set; use one (key_secret is set by penstock.yaml:1:13)"},
		{"secret file", "key_secret_file: nowhere" + upstream, "", "penstock.yaml:1:18: key_secret_file: open nowhere"},
		{"prefix length", "client_ip: {ipv6_prefix: 129}" + upstream, "", "129 is not from 1 to 128"},
		{"removed", "store: {redis: {plain_keys: true}}" + upstream, "", `unknown field "plain_keys"`},
		{"nodes", "nodes: 10001" + upstream, "", "penstock.yaml:1:8: nodes: 10001 is not from 1 to 10000, or 0 to learn it"},
		{"node_name", "node_name: <b>" + upstream, "", `penstock.yaml:1:12: node_name: "<b>" must have 1 to 64 letters, digits and -._:+()`},
		{"large file", strings.Repeat("#", maxFile+1), "", "more than 262144 bytes"},
	} {
		t.Run(row.name, func(t *testing.T) {
			_, err := load(t, row.yaml, []string{row.env})
			if err == nil || !strings.Contains(err.Error(), row.want) {
				t.Errorf("got  %v\nwant %s", err, row.want)
			}
			if err != nil && strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%v shows a secret", err)
			}
		})
	}
}

func TestConfigTellsEveryMistake(t *testing.T) {
	_, err := load(t, "log: {level: loud, color: blue}\nkey_secret_file: nowhere\nstore: {redis: {addresses: ['a:1']}}\n", []string{"PENSTOCK_LOG_FORMAT=xml"},
		Flag{"--listen-grpc", "listen.grpc", "x"})
	// One or two errors from each source, a missing file without a second error about the secret, and the missing
	// upstreams.
	if n := strings.Count(err.Error(), "\n") + 1; n != 6 {
		t.Errorf("%d mistakes, want 6:\n%v", n, err)
	}
}

func FuzzConfig(f *testing.F) {
	f.Add("listen: {gateway: ':1'}" + upstream)
	f.Add("upstreams: [{url: [a], health: {path: /}}]\nheaders: [a, b]")
	f.Add("a: &x {b: *x}\n<<: *x")
	f.Add("key_secret: |\n  text\n? complex\n: value")
	f.Fuzz(func(t *testing.T, text string) {
		l := newLoader()
		l.readYAML("fuzz.yaml", []byte(text), l.root(), "")
		l.check()
	})
}

// Reading a configuration is bounded: its cost is in proportion to its bytes.
func TestConfigIsBounded(t *testing.T) {
	for name, text := range map[string]string{
		"values":   "headers: [" + strings.Repeat("x,", 100_000) + "]",
		"sections": "upstreams: [" + strings.Repeat("{},", 80_000) + "]",
		"brackets": strings.Repeat("[", 200_000),
		"fields":   strings.Repeat("a: 1\n", 50_000),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := load(t, text, nil)
		runtime.ReadMemStats(&after)
		if err == nil || strings.Count(err.Error(), "\n") > 10 {
			t.Errorf("%s: %.300v", name, err)
		}
		if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 16<<20 {
			t.Errorf("%s: %d bytes were allocated", name, allocated)
		}
	}
}

// Items of a list have the defaults of their own type, or none.
func TestListsOfSections(t *testing.T) {
	type item struct {
		Name string `key:"name"`
		Size int    `key:"size"`
	}
	var c struct {
		Items     []item     `key:"items"`
		Upstreams []Upstream `key:"upstreams"`
	}
	l := newLoader()
	l.readYAML("x.yaml", []byte("items: [{name: a}, {size: 2}]\nupstreams: [{url: http://a}]\n"), reflect.ValueOf(&c).Elem(), "")
	upstream := DefaultUpstream()
	upstream.URL = "http://a"
	if want := []item{{Name: "a"}, {Size: 2}}; len(l.errs) > 0 || !slices.Equal(c.Items, want) || !reflect.DeepEqual(c.Upstreams, []Upstream{upstream}) {
		t.Errorf("got %+v, %v", c, l.errs)
	}
}
