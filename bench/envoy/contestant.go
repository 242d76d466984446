package envoy

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/penstock-io/penstock/bench/report"
)

// limits is the file that every contestant enforces, unchanged. A year does not end within a run.
const limits = `domain: bench
descriptors:
  - key: allowed
    rate_limit: {unit: year, requests_per_unit: 4000000000}
  - key: denied
    rate_limit: {unit: year, requests_per_unit: 1}
  - key: exact
    rate_limit: {unit: year, requests_per_unit: 100}
`

// A contestant is a server in one configuration.
type contestant struct {
	name    string
	role    report.Role
	command func(dir, addr, redis string) (*exec.Cmd, error)
}

const headline = "Penstock"

func contestants(bin string) []contestant {
	return []contestant{
		{headline, report.Ours, func(dir, addr, redis string) (*exec.Cmd, error) { return ours(bin, dir, addr, redis, "[ietf]") }},
		{"Penstock, headers: none", report.Ours, func(dir, addr, redis string) (*exec.Cmd, error) { return ours(bin, dir, addr, redis, "[none]") }},
		{"envoyproxy/ratelimit", report.Peer, func(dir, addr, redis string) (*exec.Cmd, error) { return theirs(bin, dir, addr, redis) }},
		{"envoyproxy/ratelimit, pool of 64", report.Peer, func(dir, addr, redis string) (*exec.Cmd, error) {
			return theirs(bin, dir, addr, redis, "REDIS_POOL_SIZE=64")
		}},
		{"envoyproxy/ratelimit, local cache", report.Peer, func(dir, addr, redis string) (*exec.Cmd, error) {
			return theirs(bin, dir, addr, redis, "LOCAL_CACHE_SIZE_IN_BYTES=134217728")
		}},
		{bareGRPC, report.Ceiling, bare},
	}
}

// notes describe the configurations of the contestants.
var notes = []string{
	"Load, servers and Redis share this machine's processors: rates say less than processor time. Each server is built with the versions of libraries that its own module asks for.",
	"Penstock: rules.envoy_ratelimit, everything else as it comes, but that it waits for Redis as long as the other does rather than count by itself after 50 ms. It also answers with RateLimit headers and, when it denies, with a body; a row is without headers. It always remembers for up to a minute what is over its limit.",
	"envoyproxy/ratelimit: as it comes, without statsd. Its REDIS_PIPELINE_WINDOW has no effect on a single Redis in this version (each request is one pipeline of INCRBY and EXPIRE), so that connections are what can be tuned: a row has 64 instead of 10. The local cache remembers keys that are over their limit, so that Redis is not asked again; it has 128 MiB.",
}

// ours serves the directory of limits by rules.envoy_ratelimit.
func ours(bin, dir, addr, redis, headers string) (*exec.Cmd, error) {
	config := filepath.Join(dir, "config")
	if err := writeFile(filepath.Join(config, "bench.yaml"), limits); err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "penstock.yaml")
	return exec.Command(filepath.Join(bin, "penstock"), "serve", "--config", file), writeFile(file, fmt.Sprintf(`listen: {grpc: %q, http: "", gateway: "", admin: ""}
store: {redis: {addresses: [%q], timeout: 10s}}
rules: {envoy_ratelimit: %q}
headers: %s
key_secret: of the benchmark, which is not one
data_dir: %q
`, addr, redis, config, headers, dir))
}

// theirs serves the same directory. It listens at two more addresses, which are not used.
func theirs(bin, dir, addr, redis string, settings ...string) (*exec.Cmd, error) {
	if err := writeFile(filepath.Join(dir, "ratelimit", "config", "bench.yaml"), limits); err != nil {
		return nil, err
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	env := []string{
		"GRPC_HOST=" + host, "GRPC_PORT=" + port,
		"REDIS_SOCKET_TYPE=tcp", "REDIS_URL=" + redis,
		"RUNTIME_ROOT=" + dir, "RUNTIME_SUBDIRECTORY=ratelimit", "RUNTIME_WATCH_ROOT=false",
		"USE_STATSD=false", "LOG_LEVEL=warn",
	}
	for _, name := range []string{"", "DEBUG_"} {
		other, err := freeAddr()
		if err != nil {
			return nil, err
		}
		host, port, err := net.SplitHostPort(other)
		if err != nil {
			return nil, err
		}
		env = append(env, name+"HOST="+host, name+"PORT="+port)
	}
	cmd := exec.Command(filepath.Join(bin, "ratelimit"))
	cmd.Env = append(append(os.Environ(), env...), settings...)
	return cmd, nil
}

func writeFile(file, text string) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	return os.WriteFile(file, []byte(text), 0o600)
}
