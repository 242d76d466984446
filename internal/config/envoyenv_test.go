package config

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/penstock-io/penstock/internal/envoyenv"
)

// theirs is the environment that Envoy Gateway gives to a rate limit service, without TLS.
var theirs = []string{
	"RUNTIME_ROOT=/data", "RUNTIME_SUBDIRECTORY=ratelimit", "RUNTIME_IGNOREDOTFILES=true", "RUNTIME_WATCH_ROOT=false", "LOG_LEVEL=info", "USE_STATSD=false",
	"CONFIG_TYPE=GRPC_XDS_SOTW", "CONFIG_GRPC_XDS_SERVER_URL=envoy-gateway:18001", "CONFIG_GRPC_XDS_NODE_ID=envoy-ratelimit",
	"FORCE_START_WITHOUT_INITIAL_CONFIG=true", "REDIS_SOCKET_TYPE=tcp", "REDIS_URL=redis.redis-system.svc.cluster.local:6379",
	"USE_PROMETHEUS=true", "PROMETHEUS_ADDR=:19001", "PROMETHEUS_MAPPER_YAML=/etc/statsd-exporter/conf.yaml",
	"PENSTOCK_KEY_SECRET=0123456789abcdef0123456789abcdef",
}

func TestEnvoyEnv(t *testing.T) {
	t.Chdir(t.TempDir())
	c, err := Load(Sources{Env: append(theirs, "PENSTOCK_LISTEN_HTTP=127.0.0.1:8088"), EnvoyEnv: true, Flags: []Flag{{"--listen-grpc", "listen.grpc", ":1"}}})
	if err != nil {
		t.Fatal(err)
	}
	if c.Demo || c.Listen.Gateway != "" || c.Listen.HTTP != "127.0.0.1:8088" || c.Listen.GRPC != ":1" || c.Listen.Metrics != ":19001" {
		t.Errorf("flags beat PENSTOCK_ variables, which beat theirs; listeners are %+v", c.Listen)
	}
	x := c.Rules.XDS
	if x.Server != "envoy-gateway:18001" || x.NodeID != "envoy-ratelimit" || !x.Empty || c.Rules.Envoy != "" || c.Rules.Database != "" {
		t.Errorf("rules are %+v", c.Rules)
	}
	if c.Metrics.Compat != "envoy_ratelimit" || !slices.Equal(c.Store.Redis.Addresses, []string{"redis.redis-system.svc.cluster.local:6379"}) || !slices.Equal(c.Headers, []string{"none"}) {
		t.Errorf("got %+v %+v %v", c.Metrics, c.Store.Redis, c.Headers)
	}
	if !c.AdminOptional || c.Envoy.Remarks || c.Envoy.Metadata || c.Metrics.Cached {
		t.Errorf("optional admin listener %t, %+v, %+v", c.AdminOptional, c.Envoy, c.Metrics)
	}
	if c, err := Load(Sources{Env: append(theirs, "PENSTOCK_LISTEN_ADMIN=127.0.0.1:8091"), EnvoyEnv: true}); err != nil || c.AdminOptional {
		t.Errorf("an admin listener that is asked for is optional: %v", err)
	}
	if len(c.Ignored) != 2 || !strings.HasPrefix(c.Ignored[0], "PROMETHEUS_MAPPER_YAML: ") || !strings.HasPrefix(c.Ignored[1], "RUNTIME_IGNOREDOTFILES: ") {
		t.Errorf("ignored: %q", c.Ignored)
	}
	if c, err := Load(Sources{Env: append(theirs, "PENSTOCK_ENVOY_RATELIMIT_ENV=true")}); err != nil || c.Rules.XDS.Server == "" {
		t.Errorf("the variable does not turn it on: %v", err)
	}
	if c, err := Load(Sources{Env: theirs}); err != nil || c.Rules.IsEnvoy() || c.HasRedis() {
		t.Errorf("their variables count unasked: %v", err)
	}
}

func TestEnvoyEnvMistakes(t *testing.T) {
	t.Chdir(t.TempDir())
	_, err := Load(Sources{Env: append(theirs, "BACKEND_TYPE=memcache", "PORT=http", "CACHE_KEY_PREFIX={x}"), EnvoyEnv: true})
	for _, want := range []string{`BACKEND_TYPE: "memcache" is not supported`, `PORT: listen.http: invalid address "0.0.0.0:http"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("not told: %s: %v", want, err)
		}
	}
}

// The settings that variables become exist.
func TestEnvoyEnvKeys(t *testing.T) {
	known := settings(reflect.ValueOf(Default()).Elem(), "")
	for _, v := range envoyenv.Variables {
		for _, key := range strings.FieldsFunc(v.Keys, func(r rune) bool { return r == ',' || r == ' ' }) {
			if key != "or" && !slices.ContainsFunc(known, func(s setting) bool { return s.path == key || strings.HasPrefix(s.path, key+".") }) {
				t.Errorf("%s: there is no setting %s", v.Name, key)
			}
		}
	}
}
