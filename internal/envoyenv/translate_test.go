package envoyenv

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// settings translates variables and returns all settings that are not defaults, as "variable key=value".
func settings(t *testing.T, env ...string) []string {
	t.Helper()
	translated := Translate(env, true)
	if len(translated.Errors) > 0 {
		t.Fatalf("%v: %v", env, translated.Errors)
	}
	var all []string
	for _, s := range translated.Settings {
		if s.Variable != Flag {
			all = append(all, s.Variable+" "+s.Key+"="+s.Value)
		}
	}
	return all
}

// Variables lists exactly the variables in the settings of that service.
func TestVariablesAreComplete(t *testing.T) {
	text, err := os.ReadFile("testdata/variables.txt")
	if err != nil {
		t.Fatal(err)
	}
	var known []string
	for _, v := range Variables {
		known = append(known, v.Name)
		if v.Keys == "" && v.Note == "" {
			t.Errorf("%s is ignored without a reason", v.Name)
		}
	}
	want := append(strings.Fields(string(text)), "PROTO", "GRPC_SERVER_TLS_CA_CERT",
		"REDIS_CLUSTER_PIPELINE_PARALLELISM", "REDIS_PERSECOND_CLUSTER_PIPELINE_PARALLELISM", "REDIS_STARTUP_*")
	slices.Sort(known)
	slices.Sort(want)
	if diff := cmp.Diff(want, known); diff != "" {
		t.Errorf("(-theirs +ours):\n%s", diff)
	}
}

// A variable with a setting changes one, and only variables without a setting are ignored.
func TestVariablesDoWhatTheySay(t *testing.T) {
	around := []string{
		"GRPC_SERVER_USE_TLS=true", "GRPC_SERVER_TLS_CERT=/c", "GRPC_SERVER_TLS_KEY=/k", "GRPC_CLIENT_TLS_CACERT=/a", "REDIS_URL=h:1", "REDIS_SOCKET_TYPE=tcp",
		"REDIS_TLS=true", "REDIS_PERSECOND=true", "REDIS_PERSECOND_URL=h:2", "REDIS_PERSECOND_SOCKET_TYPE=tcp", "USE_PROMETHEUS=true", "CONFIG_GRPC_XDS_SERVER_USE_TLS=true",
	}
	samples := map[string]string{
		"GRPC_MAX_CONNECTION_AGE": "1h", "REDIS_TIMEOUT": "1s", "REDIS_PERSECOND_TIMEOUT": "1s", "LOG_LEVEL": "debug", "LOG_FORMAT": "json",
		"CONFIG_TYPE": "GRPC_XDS_SOTW", "REDIS_SOCKET_TYPE": "tcp", "REDIS_PERSECOND_SOCKET_TYPE": "tcp", "REDIS_TYPE": "cluster", "REDIS_PERSECOND_TYPE": "cluster",
		"BACKEND_TYPE": "redis", "CONFIG_GRPC_XDS_NODE_METADATA": "a=b", "CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS": "a:b", "REDIS_URL": "h:3", "REDIS_PERSECOND_URL": "h:4",
		"GRPC_UDS": "/s", "REDIS_TLS_SKIP_HOSTNAME_VERIFICATION": "false",
	}
	// These choose among settings of other variables.
	choosers := []string{"REDIS_SOCKET_TYPE", "REDIS_PERSECOND_SOCKET_TYPE", "BACKEND_TYPE", "CONFIG_TYPE", "REDIS_PERSECOND", "GRPC_SERVER_USE_TLS"}
	isBool := regexp.MustCompile(`(_TLS|USE_\w+|ENABLED|MODE|METADATA|MERGE_\w+|STOP_\w+|FORCE_\w+|PERSECOND)$`)
	for _, v := range Variables {
		value := samples[v.Name]
		if value == "" {
			value = "7"
			if isBool.MatchString(v.Name) {
				value = "true"
			}
		}
		v.Name = strings.Replace(v.Name, "*", "ANYTHING", 1)
		env := append(slices.Clone(around), v.Name+"="+value)
		if strings.HasPrefix(v.Keys, "rules.xds") {
			env = append(env, "CONFIG_TYPE=GRPC_XDS_SOTW")
		}
		translated := Translate(env, false)
		if len(translated.Errors) > 0 {
			t.Errorf("%s=%s: %v", v.Name, value, translated.Errors)
		}
		ignored := slices.ContainsFunc(translated.Ignored, func(s string) bool { return strings.HasPrefix(s, v.Name+": ") })
		if (v.Keys == "") != ignored && value != "false" {
			t.Errorf("%s: ignored %t, but its settings are %q", v.Name, ignored, v.Keys)
		}
		changes := slices.ContainsFunc(translated.Settings, func(s Setting) bool {
			return s.Variable == v.Name && strings.Contains(v.Keys, strings.TrimSuffix(s.Key, ".enabled"))
		})
		if v.Keys != "" && !changes && !slices.Contains(choosers, v.Name) {
			t.Errorf("%s does not change %s: %v", v.Name, v.Keys, translated.Settings)
		}
	}
}

func TestTranslate(t *testing.T) {
	for _, test := range []struct {
		env  string
		want []string
	}{
		{"REDIS_URL=/run/redis.sock", []string{"REDIS_URL store.redis.addresses=unix:///run/redis.sock"}},
		{"REDIS_SOCKET_TYPE=tcp REDIS_URL=redis:6379 REDIS_AUTH=pa", []string{"REDIS_URL store.redis.addresses=redis:6379", "REDIS_AUTH store.redis.password=pa"}},
		{"REDIS_SOCKET_TYPE=TCP REDIS_URL=rediss://u:p@redis REDIS_TLS_CACERT=/ca", []string{
			"REDIS_URL store.redis.password=p", "REDIS_URL store.redis.username=u", "REDIS_URL store.redis.addresses=redis:6379",
			"REDIS_TLS store.redis.tls.enabled=true", "REDIS_TLS_CACERT store.redis.tls.ca=/ca",
		}},
		{"REDIS_TYPE=SENTINEL REDIS_URL=mymaster,s1:26379,s2:26379 REDIS_AUTH=u:p REDIS_SENTINEL_AUTH=sp", []string{
			"REDIS_URL store.redis.master=mymaster", "REDIS_TYPE store.redis.mode=sentinel", "REDIS_URL store.redis.addresses=s1:26379,s2:26379",
			"REDIS_AUTH store.redis.username=u", "REDIS_AUTH store.redis.password=p", "REDIS_SENTINEL_AUTH store.redis.sentinel_password=sp",
		}},
		{"REDIS_TYPE=cluster REDIS_URL=a:1,b:2 REDIS_PERSECOND=1 REDIS_PERSECOND_URL=/s CACHE_KEY_PREFIX=x:", []string{
			"CACHE_KEY_PREFIX store.redis.key_prefix=x:", "REDIS_TYPE store.redis.mode=cluster", "REDIS_URL store.redis.addresses=a:1,b:2",
			"REDIS_PERSECOND_URL store.redis_per_second.addresses=unix:///s", "CACHE_KEY_PREFIX store.redis_per_second.key_prefix=x:",
		}},
		{"HOST=127.0.0.1 GRPC_PORT=9 RUNTIME_ROOT=/data RUNTIME_SUBDIRECTORY=ratelimit", []string{
			"HOST listen.http=127.0.0.1:8080", "GRPC_PORT listen.grpc=0.0.0.0:9", "RUNTIME_ROOT rules.envoy_ratelimit=/data/ratelimit/config",
		}},
		{"GRPC_UDS=/tmp/rl.sock LOG_LEVEL=WARNING LOG_FORMAT=fancy SHADOW_MODE=T", []string{
			"SHADOW_MODE envoy.shadow_mode=true", "GRPC_UDS listen.grpc=unix:///tmp/rl.sock", "LOG_LEVEL log.level=warn", "LOG_FORMAT log.format=text",
		}},
		{"LOCAL_CACHE_SIZE_IN_BYTES=1024 RESPONSE_DYNAMIC_METADATA=true", []string{
			"RESPONSE_DYNAMIC_METADATA envoy.response_dynamic_metadata=true", "LOCAL_CACHE_SIZE_IN_BYTES metrics.local_cache=true",
		}},
		{"LOCAL_CACHE_SIZE_IN_BYTES=0", []string{"LOCAL_CACHE_SIZE_IN_BYTES metrics.local_cache=false"}},
		{"GRPC_SERVER_TLS_CERT=/c GRPC_CLIENT_TLS_SAN=x USE_PROMETHEUS=false PROMETHEUS_ADDR=:1", nil}, // TLS and Prometheus are off
	} {
		if diff := cmp.Diff(test.want, settings(t, strings.Fields(test.env)...)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.env, diff)
		}
	}
}

func TestRefusals(t *testing.T) {
	for env, want := range map[string]string{
		"":                                  "REDIS_URL: not set",
		"REDIS_URL=x BACKEND_TYPE=memcache": `BACKEND_TYPE: "memcache" is not supported`,
		"REDIS_URL=redis:6379":              "REDIS_URL: must be the path of a Unix socket; for host:port set REDIS_SOCKET_TYPE=tcp",
		"REDIS_SOCKET_TYPE=tcp REDIS_URL=redis://secret@h/3":     "must be without a database",
		"REDIS_SOCKET_TYPE=tcp REDIS_URL=http://secret@h":        "must be host:port or redis://host:port",
		"REDIS_TYPE=sentinel REDIS_URL=master":                   "the name of the master and the sentinels",
		"REDIS_TYPE=ring REDIS_URL=x":                            `unknown type "ring"`,
		"REDIS_URL=/s REDIS_TLS_SKIP_HOSTNAME_VERIFICATION=true": "PENSTOCK_STORE_REDIS_TLS_SERVER_NAME",
		"REDIS_URL=/s REDIS_PERSECOND=true":                      "REDIS_PERSECOND_URL: not set",
		"REDIS_URL=/s CONFIG_TYPE=HTTP":                          `unknown type "HTTP"`,
		"REDIS_URL=/s SHADOW_MODE=maybe":                         `invalid value "maybe"`,
		"REDIS_URL=/s GRPC_MAX_CONNECTION_AGE=1":                 `invalid duration "1"`,
		"REDIS_URL=/s LOG_LEVEL=loud":                            `unknown level "loud"`,
		"REDIS_URL=/s LOCAL_CACHE_SIZE_IN_BYTES=1MB":             `LOCAL_CACHE_SIZE_IN_BYTES: invalid size "1MB"`,
		"REDIS_URL=/s GRPC_SERVER_USE_TLS=true":                  "requires GRPC_SERVER_TLS_CERT",
		"REDIS_URL=/s GRPC_SERVER_USE_TLS=true GRPC_SERVER_TLS_CERT=c GRPC_SERVER_TLS_KEY=k GRPC_CLIENT_TLS_SAN=x": "any client would be let in",
		"REDIS_URL=/s CONFIG_TYPE=GRPC_XDS_SOTW CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS=secret":                  "must be name:value",
	} {
		errs := Translate(strings.Fields(env), false).Errors
		if len(errs) != 1 || !strings.Contains(errs[0].Error(), want) || strings.Contains(errs[0].Error(), "secret") {
			t.Errorf("%s: %v; want one with %q", env, errs, want)
		}
	}
}
