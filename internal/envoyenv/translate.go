package envoyenv

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Flag turns the translation on. It is also the origin of settings that come from no variable.
const Flag = "--envoy-ratelimit-env"

// A Setting is a key of the configuration, its value, and the variable it comes from.
type Setting struct{ Variable, Key, Value string }

// A Translation is the result of translating variables.
type Translation struct {
	Settings []Setting
	Ignored  []string // variables that are set and have no effect here, each with the reason
	Errors   []error  // invalid values, and refused variables
}

// Translate translates an environment, as from os.Environ. hasRedis says that the address of Redis is set elsewhere.
func Translate(env []string, hasRedis bool) *Translation {
	t := &translator{values: map[string]string{}}
	for _, line := range env {
		if name, value, _ := strings.Cut(line, "="); value != "" {
			t.values[name] = value
		}
	}
	t.defaults()
	for _, v := range Variables {
		if kind, ok := direct[v.Name]; ok {
			if value, ok := t.read(v.Name, kind); ok {
				t.set(v.Name, v.Keys, value)
			}
		}
	}
	t.listeners()
	t.serverTLS()
	t.logging()
	t.limits()
	t.metrics()
	t.backend(hasRedis)
	t.ignore()
	return &t.Translation
}

// ignore lists the variables that are set and have no effect.
func (t *translator) ignore() {
	for _, v := range Variables {
		if prefix, ok := strings.CutSuffix(v.Name, "*"); ok {
			for _, name := range slices.Sorted(maps.Keys(t.values)) {
				if strings.HasPrefix(name, prefix) {
					t.Ignored = append(t.Ignored, name+": "+v.Note)
				}
			}
			continue
		}
		if off, err := strconv.ParseBool(t.values[v.Name]); err == nil && !off {
			continue // false: ignoring it changes nothing
		}
		if t.values[v.Name] != "" && v.Keys == "" {
			t.Ignored = append(t.Ignored, v.Name+": "+v.Note)
		}
	}
}

type translator struct {
	Translation
	values map[string]string
}

func (t *translator) set(variable, key, value string) {
	t.Settings = append(t.Settings, Setting{variable, key, value})
}

func (t *translator) refuse(variable, format string, args ...any) {
	t.Errors = append(t.Errors, fmt.Errorf("%s: "+format, append([]any{variable}, args...)...))
}

// setGiven sets a key to a value, unless that is empty.
func (t *translator) setGiven(variable, key, value string) {
	if value != "" {
		t.set(variable, key, value)
	}
}

// copyTo sets a key to the value of a variable, if it has one.
func (t *translator) copyTo(variable, key string) { t.setGiven(variable, key, t.values[variable]) }

// A kind is the type of a value.
type kind int

const (
	text kind = iota
	boolean
	duration
)

// read returns a value in the format of the configuration. It returns false if the variable is unset or invalid.
func (t *translator) read(name string, k kind) (string, bool) {
	value, ok := t.values[name]
	if !ok || k == text {
		return value, ok
	}
	if k == boolean {
		b, err := strconv.ParseBool(value)
		if err != nil {
			t.refuse(name, "invalid value %.64q: must be true or false", value)
		}
		return strconv.FormatBool(b), err == nil
	}
	_, err := time.ParseDuration(value)
	if err != nil {
		t.refuse(name, "invalid duration %.64q, for example 10ms, 5s or 1m", value)
	}
	return value, err == nil
}

func (t *translator) isTrue(name string) bool {
	value, _ := t.read(name, boolean)
	return value == "true"
}

// defaults sets the defaults of envoyproxy/ratelimit that differ from Penstock's. Variables override them.
func (t *translator) defaults() {
	for _, s := range [][2]string{
		{"listen.gateway", ""}, {"grpc.max_connection_age", "24h"},
		{"headers", "none"}, {"envoy.denial_body", "none"}, {"envoy.denial_headers", "false"},
		{"envoy.dynamic_metadata", "false"}, {"metrics.local_cache", "false"},
	} {
		t.set(Flag, s[0], s[1])
	}
}

func (t *translator) listeners() {
	t.set(t.firstSet("PORT", "HOST"), "listen.http", t.address("HOST", "PORT", "8080"))
	if path := t.values["GRPC_UDS"]; path != "" {
		t.set("GRPC_UDS", "listen.grpc", "unix://"+path)
		return
	}
	t.set(t.firstSet("GRPC_PORT", "GRPC_HOST"), "listen.grpc", t.address("GRPC_HOST", "GRPC_PORT", "8081"))
}

func (t *translator) address(host, port, defaultPort string) string {
	return net.JoinHostPort(cmp.Or(t.values[host], "0.0.0.0"), cmp.Or(t.values[port], defaultPort))
}

// firstSet returns the first of the variables that is set.
func (t *translator) firstSet(names ...string) string {
	for _, name := range names {
		if t.values[name] != "" {
			return name
		}
	}
	return Flag
}

func (t *translator) serverTLS() {
	if !t.isTrue("GRPC_SERVER_USE_TLS") {
		return
	}
	t.copyTo("GRPC_SERVER_TLS_CERT", "grpc.tls.certificate")
	t.copyTo("GRPC_SERVER_TLS_KEY", "grpc.tls.key")
	if t.values["GRPC_SERVER_TLS_CERT"] == "" || t.values["GRPC_SERVER_TLS_KEY"] == "" {
		t.refuse("GRPC_SERVER_USE_TLS", "requires GRPC_SERVER_TLS_CERT and GRPC_SERVER_TLS_KEY")
	}
	if t.values["GRPC_CLIENT_TLS_CACERT"] != "" {
		t.copyTo("GRPC_CLIENT_TLS_CACERT", "grpc.tls.client_ca")
		t.set("GRPC_CLIENT_TLS_CACERT", "grpc.tls.required", "true")
		t.copyTo("GRPC_CLIENT_TLS_SAN", "grpc.tls.client_names")
	} else if t.values["GRPC_CLIENT_TLS_SAN"] != "" {
		t.refuse("GRPC_CLIENT_TLS_SAN", "requires GRPC_CLIENT_TLS_CACERT, or any client would be let in")
	}
}

func (t *translator) logging() {
	if level := strings.ToLower(t.values["LOG_LEVEL"]); level != "" {
		known := map[string]string{
			"trace": "debug", "debug": "debug", "info": "info", "warn": "warn", "warning": "warn", "error": "error", "fatal": "error", "panic": "error",
		}
		if known[level] == "" {
			t.refuse("LOG_LEVEL", "unknown level %.32q", level)
		} else {
			t.set("LOG_LEVEL", "log.level", known[level])
		}
	}
	if format := strings.ToLower(t.values["LOG_FORMAT"]); format != "" {
		if format != "json" {
			format = "text"
		}
		t.set("LOG_FORMAT", "log.format", format)
	}
}

// limits sets where limits come from, and how descriptors are charged.
func (t *translator) limits() {
	switch kind := cmp.Or(t.values["CONFIG_TYPE"], "FILE"); kind {
	case "FILE":
		dir := filepath.Join(cmp.Or(t.values["RUNTIME_ROOT"], "/srv/runtime_data/current"), t.values["RUNTIME_SUBDIRECTORY"], cmp.Or(t.values["RUNTIME_APPDIRECTORY"], "config"))
		t.set(t.firstSet("RUNTIME_ROOT", "RUNTIME_SUBDIRECTORY", "RUNTIME_APPDIRECTORY"), "rules.envoy_ratelimit", dir)
		if t.isTrue("FORCE_START_WITHOUT_INITIAL_CONFIG") {
			t.Ignored = append(t.Ignored, "FORCE_START_WITHOUT_INITIAL_CONFIG: Penstock does not start without files")
		}
	case "GRPC_XDS_SOTW":
		t.xds()
	default:
		t.refuse("CONFIG_TYPE", "unknown type %.32q: must be FILE or GRPC_XDS_SOTW", kind)
	}
	if t.isTrue("STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT") {
		t.set("STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT", "rules.charge", "unless_over")
	}
}

func (t *translator) xds() {
	t.set(t.firstSet("CONFIG_GRPC_XDS_SERVER_URL"), "rules.xds.server", cmp.Or(t.values["CONFIG_GRPC_XDS_SERVER_URL"], "localhost:18000"))
	t.copyTo("CONFIG_GRPC_XDS_NODE_ID", "rules.xds.node_id")
	t.copyTo("XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES", "rules.xds.max_bytes")
	var metadata, headers []string
	for _, pair := range strings.Split(t.values["CONFIG_GRPC_XDS_NODE_METADATA"], ",") {
		if strings.Contains(pair, "=") { // others have no effect there
			metadata = append(metadata, pair)
		}
	}
	for _, pair := range strings.Split(t.values["CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS"], ",") {
		if name, value, ok := strings.Cut(pair, ":"); ok {
			headers = append(headers, name+"="+value)
		} else if pair != "" {
			t.refuse("CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS", "must be name:value, several with commas")
		}
	}
	t.setGiven("CONFIG_GRPC_XDS_NODE_METADATA", "rules.xds.node_metadata", strings.Join(metadata, ","))
	t.setGiven("CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS", "rules.xds.headers", strings.Join(headers, ","))
	if value, ok := t.read("FORCE_START_WITHOUT_INITIAL_CONFIG", boolean); ok {
		t.set("FORCE_START_WITHOUT_INITIAL_CONFIG", "rules.xds.start_without_limits", value)
	}
	if t.isTrue("CONFIG_GRPC_XDS_SERVER_USE_TLS") {
		t.set("CONFIG_GRPC_XDS_SERVER_USE_TLS", "rules.xds.tls.enabled", "true")
		t.copyTo("CONFIG_GRPC_XDS_CLIENT_TLS_CERT", "rules.xds.tls.certificate")
		t.copyTo("CONFIG_GRPC_XDS_CLIENT_TLS_KEY", "rules.xds.tls.key")
		t.copyTo("CONFIG_GRPC_XDS_SERVER_TLS_CACERT", "rules.xds.tls.ca")
		t.copyTo("CONFIG_GRPC_XDS_SERVER_TLS_SAN", "rules.xds.tls.server_name")
	}
}

func (t *translator) metrics() {
	if size := t.values["LOCAL_CACHE_SIZE_IN_BYTES"]; size != "" {
		n, err := strconv.Atoi(size)
		if err != nil {
			t.refuse("LOCAL_CACHE_SIZE_IN_BYTES", "invalid size %.32q: must be a number of bytes", size)
		}
		t.set("LOCAL_CACHE_SIZE_IN_BYTES", "metrics.local_cache", strconv.FormatBool(n > 0))
	}
	if t.isTrue("USE_PROMETHEUS") {
		t.set("USE_PROMETHEUS", "metrics.compat", "envoy_ratelimit")
		t.set(t.firstSet("PROMETHEUS_ADDR", "USE_PROMETHEUS"), "listen.metrics", cmp.Or(t.values["PROMETHEUS_ADDR"], ":9090"))
	}
}

// backend sets where the counters are.
func (t *translator) backend(hasRedis bool) {
	if kind := t.values["BACKEND_TYPE"]; kind != "" && kind != "redis" {
		t.refuse("BACKEND_TYPE", "%.32q is not supported: counters are in Redis", kind)
		return
	}
	if t.isTrue("REDIS_TLS_SKIP_HOSTNAME_VERIFICATION") {
		t.refuse("REDIS_TLS_SKIP_HOSTNAME_VERIFICATION", "not supported: set PENSTOCK_STORE_REDIS_TLS_SERVER_NAME to the name in the certificate of Redis, and unset this variable")
	}
	switch {
	case t.values["REDIS_URL"] != "":
		t.redis("REDIS_", "store.redis.")
	case !hasRedis:
		t.refuse("REDIS_URL", "not set: nodes would count by themselves; set it, or PENSTOCK_STORE_REDIS_ADDRESSES")
	}
	if !t.isTrue("REDIS_PERSECOND") {
		return
	}
	if t.values["REDIS_PERSECOND_URL"] == "" {
		t.refuse("REDIS_PERSECOND_URL", "not set: REDIS_PERSECOND needs it")
		return
	}
	t.redis("REDIS_PERSECOND_", "store.redis_per_second.")
	t.copyTo("CACHE_KEY_PREFIX", "store.redis_per_second.key_prefix")
}

// redis translates the variables of one Redis.
func (t *translator) redis(prefix, key string) {
	urlVariable, location := prefix+"URL", t.values[prefix+"URL"]
	secure := t.isTrue(prefix + "TLS")
	mode := strings.ToLower(cmp.Or(t.values[prefix+"TYPE"], "single"))
	switch mode {
	case "single":
		address, overTLS, err := t.single(key, urlVariable, location, t.values[prefix+"SOCKET_TYPE"])
		if err != nil {
			t.refuse(urlVariable, "%w", err)
			return
		}
		secure = secure || overTLS
		location = address
	case "sentinel":
		master, sentinels, ok := strings.Cut(location, ",")
		if !ok {
			t.refuse(urlVariable, "must be the name of the master and the sentinels, with commas between them")
			return
		}
		t.set(urlVariable, key+"master", master)
		location = sentinels
	case "cluster":
	default:
		t.refuse(prefix+"TYPE", "unknown type %.32q: must be SINGLE, SENTINEL or CLUSTER", mode)
		return
	}
	t.set(t.firstSet(prefix+"TYPE"), key+"mode", mode)
	t.set(urlVariable, key+"addresses", location)
	t.credentials(prefix+"AUTH", key+"username", key+"password")
	t.credentials(prefix+"SENTINEL_AUTH", key+"sentinel_username", key+"sentinel_password")
	if value, ok := t.read(prefix+"TIMEOUT", duration); ok {
		t.set(prefix+"TIMEOUT", key+"timeout", value)
	}
	if secure {
		t.set(prefix+"TLS", key+"tls.enabled", "true")
		t.copyTo("REDIS_TLS_CACERT", key+"tls.ca")
		t.copyTo("REDIS_TLS_CLIENT_CERT", key+"tls.certificate")
		t.copyTo("REDIS_TLS_CLIENT_KEY", key+"tls.key")
	}
}

// single translates the address of a single server: a path, host:port or a redis:// URL. Errors do not repeat it,
// since it may contain a password.
func (t *translator) single(key, variable, location, socket string) (address string, secure bool, err error) {
	if path, ok := strings.CutPrefix(location, "unix://"); ok || socket == "" || strings.EqualFold(socket, "unix") {
		if path == "" || path[0] != '/' {
			return "", false, fmt.Errorf("must be the path of a Unix socket; for host:port set %sSOCKET_TYPE=tcp", strings.TrimSuffix(variable, "URL"))
		}
		return "unix://" + path, false, nil
	}
	if !strings.Contains(location, "://") {
		return location, false, nil
	}
	return t.redisURL(key, variable, location)
}

// redisURL translates redis://user:password@host:port, or rediss for TLS.
func (t *translator) redisURL(key, variable, location string) (address string, secure bool, err error) {
	u, err := url.Parse(location)
	if err != nil || u.Scheme != "redis" && u.Scheme != "rediss" || u.Host == "" {
		return "", false, fmt.Errorf("must be host:port or redis://host:port")
	}
	if db := strings.Trim(u.Path, "/"); db != "" && db != "0" || u.Query().Has("db") {
		return "", false, fmt.Errorf("must be without a database: Penstock uses database 0, under store.redis.key_prefix")
	}
	if password, ok := u.User.Password(); ok {
		t.set(variable, key+"password", password)
	}
	t.setGiven(variable, key+"username", u.User.Username())
	host := u.Host
	if u.Port() == "" {
		host = net.JoinHostPort(u.Hostname(), "6379")
	}
	return host, u.Scheme == "rediss", nil
}

// credentials translates user:password, or a password.
func (t *translator) credentials(variable, username, password string) {
	user, secret, ok := strings.Cut(t.values[variable], ":")
	if !ok {
		t.copyTo(variable, password)
		return
	}
	t.setGiven(variable, username, user)
	t.set(variable, password, secret)
}
