package envoy

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"

	descriptorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-io/penstock/bench/lab"
	"github.com/penstock-io/penstock/bench/report"
)

// limits is the file that every contestant enforces, unchanged.
//
//go:embed config/bench.yaml
var limits string

// A contestant is a server in one configuration.
type contestant struct {
	name    string
	role    report.Role
	command command
}

// A command returns what serves at an address, with files in a directory.
type command func(dir, addr, redis string) *exec.Cmd

const (
	headline = "Penstock"
	bareGRPC = "bare grpc-go server" // decides nothing: the least that a decision over gRPC costs
)

func contestants(bin string) []contestant {
	penstock := func(headers string) command {
		return func(dir, addr, redis string) *exec.Cmd {
			lab.Write(dir, "config/bench.yaml", limits)
			return ours(bin, dir, addr, redis, "listen: {grpc: %q, http: \"\", gateway: \"\", admin: \"\"}\nrules: {envoy_ratelimit: %q}\nheaders: "+headers+"\n")
		}
	}
	peer := func(settings ...string) command {
		return func(dir, addr, redis string) *exec.Cmd {
			lab.Write(dir, "ratelimit/config/bench.yaml", limits)
			return theirs(bin, dir, addr, redis, settings...)
		}
	}
	return []contestant{
		{headline, report.Ours, penstock("[ietf]")},
		{"Penstock, headers: none", report.Ours, penstock("[none]")},
		{"envoyproxy/ratelimit", report.Peer, peer()},
		{"envoyproxy/ratelimit, pool of 64", report.Peer, peer("REDIS_POOL_SIZE=64")},
		{"envoyproxy/ratelimit, local cache", report.Peer, peer("LOCAL_CACHE_SIZE_IN_BYTES=134217728")},
		{bareGRPC, report.Ceiling, func(_, addr, _ string) *exec.Cmd { return lab.Self(Role, addr) }},
	}
}

// notes describe the configurations of the contestants.
var notes = []string{
	"Load, servers and Redis share this machine's processors: rates say less than processor time. Each server is built with the versions of libraries that its own module asks for.",
	"Penstock: rules.envoy_ratelimit, everything else as it comes, but that it waits for Redis as long as the other does rather than count by itself after 50 ms. It also answers with RateLimit headers and, when it denies, with a body; a row is without headers. It always remembers for up to a minute what is over its limit; before each measurement, every contestant is asked about each denied key once.",
	"envoyproxy/ratelimit: as it comes, without statsd. Its REDIS_PIPELINE_WINDOW has no effect on a single Redis in this version (each request is one pipeline of INCRBY and EXPIRE), so that connections are what can be tuned: a row has 64 instead of 10. The local cache remembers keys that are over their limit, so that Redis is not asked again; it has 128 MiB.",
}

// ours serves the directory config of limits. The settings are formatted with the address and that directory.
func ours(bin, dir, addr, redis, settings string) *exec.Cmd {
	file := lab.Write(dir, "penstock.yaml", fmt.Sprintf(settings, addr, filepath.Join(dir, "config"))+fmt.Sprintf(`store: {redis: {addresses: [%q], timeout: 10s}}
key_secret: of the benchmark, which is not one
data_dir: %q
`, redis, dir))
	return exec.Command(filepath.Join(bin, "penstock"), "serve", "--config", file)
}

// theirs serves the directory ratelimit/config. It listens at two more addresses, which are not used.
func theirs(bin, dir, addr, redis string, settings ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(bin, "ratelimit"))
	cmd.Env = append(os.Environ(),
		"REDIS_SOCKET_TYPE=tcp", "REDIS_URL="+redis,
		"RUNTIME_ROOT="+dir, "RUNTIME_SUBDIRECTORY=ratelimit", "RUNTIME_WATCH_ROOT=false",
		"USE_STATSD=false", "LOG_LEVEL=warn")
	for name, addr := range map[string]string{"GRPC_": addr, "": lab.FreeAddr(), "DEBUG_": lab.FreeAddr()} {
		host, port, err := net.SplitHostPort(addr)
		lab.Check(err)
		cmd.Env = append(cmd.Env, name+"HOST="+host, name+"PORT="+port)
	}
	cmd.Env = append(cmd.Env, settings...)
	return cmd
}

// build builds both programs into the directory, each with the versions of its own module.
func build(b *lab.Bench, dir string) {
	root := lab.Must(exec.CommandContext(b, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/penstock-io/penstock").Output())
	source := strings.TrimSpace(string(root))
	b.Build(source, filepath.Join(dir, "penstock"), "./cmd/penstock")
	b.Build(filepath.Join(source, "bench", "envoy", "ratelimit"), filepath.Join(dir, "ratelimit"), "github.com/envoyproxy/ratelimit/src/service_cmd")
}

// A server is a running contestant with its own Redis.
type server struct {
	*lab.Server
	redis lab.Redis
	conns []*grpc.ClientConn
}

// launch starts a contestant until the end of the scope.
func launch(b *lab.Bench, dir string, of command) *server {
	const connections = 4 // one for each worker of an Envoy
	dir = lab.Must(os.MkdirTemp(dir, "server-"))
	s, addr := &server{redis: b.Redis()}, lab.FreeAddr()
	s.Server = b.Start(dir, "server", addr, of(dir, addr, s.redis.Addr))
	for range connections {
		conn := lab.Must(grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials())))
		b.Cleanup(func() { conn.Close() })
		s.conns = append(s.conns, conn)
	}
	b.Await(s.Server, "report that it serves", func() bool {
		r, err := grpc_health_v1.NewHealthClient(s.conns[0]).Check(b, &grpc_health_v1.HealthCheckRequest{})
		return err == nil && r.Status == grpc_health_v1.HealthCheckResponse_SERVING
	})
	return s
}

func (s *server) client(i int) rlsv3.RateLimitServiceClient {
	return rlsv3.NewRateLimitServiceClient(s.conns[i%len(s.conns)])
}

// Role is the role of a child process that runs the bare server.
const Role = "rls"

// Serve runs the bare server at an address.
func Serve(args []string) error {
	l, err := net.Listen("tcp", args[0])
	if err != nil {
		return err
	}
	s := grpc.NewServer()
	rlsv3.RegisterRateLimitServiceServer(s, bareService{})
	grpc_health_v1.RegisterHealthServer(s, health.NewServer())
	return s.Serve(l)
}

type bareService struct {
	rlsv3.UnimplementedRateLimitServiceServer
}

// ShouldRateLimit gives the answer that the traffic expects, in the form of a decision.
func (bareService) ShouldRateLimit(_ context.Context, r *rlsv3.RateLimitRequest) (*rlsv3.RateLimitResponse, error) {
	code := rlsv3.RateLimitResponse_OK
	if r.Descriptors[0].Entries[0].Key == "denied" {
		code = rlsv3.RateLimitResponse_OVER_LIMIT
	}
	return &rlsv3.RateLimitResponse{OverallCode: code, Statuses: []*rlsv3.RateLimitResponse_DescriptorStatus{{
		Code: code, LimitRemaining: 1,
		CurrentLimit: &rlsv3.RateLimitResponse_RateLimit{RequestsPerUnit: 100, Unit: rlsv3.RateLimitResponse_RateLimit_YEAR},
	}}}, nil
}

// Requests cost the load generator as little as possible: they are encoded before the load, and only the first field of
// a response is read.

// A traffic is a kind of requests that must all get the same answer.
type traffic struct {
	name string // also the descriptor's key
	want rlsv3.RateLimitResponse_Code
	warm int // requests per key before the answer is as expected
	of   int // divides the number of keys: few clients are denied, again and again
}

var traffics = []traffic{
	{"allowed", rlsv3.RateLimitResponse_OK, 1, 1},
	{"denied", rlsv3.RateLimitResponse_OVER_LIMIT, 2, 10},
}

func request(name, key string) *rlsv3.RateLimitRequest {
	return &rlsv3.RateLimitRequest{Domain: "bench", Descriptors: []*descriptorv3.RateLimitDescriptor{
		{Entries: []*descriptorv3.RateLimitDescriptor_Entry{{Key: name, Value: key}}},
	}}
}

// requests returns encoded requests, each about a key of its own.
func (t traffic) requests(keys int) (all []string) {
	for _, key := range lab.Keys(max(1, keys/t.of)) {
		all = append(all, string(lab.Must(proto.Marshal(request(t.name, key)))))
	}
	return all
}

// rawCodec passes messages through unchanged.
type rawCodec struct{}

func (rawCodec) Name() string { return "proto" }

func (rawCodec) Marshal(v any) ([]byte, error) { return *v.(*[]byte), nil }

func (rawCodec) Unmarshal(data []byte, v any) error {
	*v.(*[]byte) = append((*v.(*[]byte))[:0], data...)
	return nil
}

// target returns a server under one kind of traffic, in the form that the loads use. A key is an encoded request.
func (s *server) target(t traffic) lab.Limiter {
	var next atomic.Uint64
	connect := func() *grpc.ClientConn { return s.conns[next.Add(1)%uint64(len(s.conns))] }
	ask := func(ctx context.Context, conn *grpc.ClientConn, request string, response *[]byte) error {
		text := []byte(request)
		err := conn.Invoke(ctx, rlsv3.RateLimitService_ShouldRateLimit_FullMethodName, &text, response, grpc.ForceCodec(rawCodec{}))
		if err == nil && bytes.Contains(*response, []byte("quality")) {
			err = fmt.Errorf("answered without Redis: %q", *response)
		}
		return err
	}
	expected := []byte{1 << 3, byte(t.want)} // the overall code, which all servers encode first
	return lab.Limiter{
		Caller: func() lab.TakeFunc {
			conn := connect()
			var response []byte
			return func(ctx context.Context, request string) (bool, error) {
				err := ask(ctx, conn, request, &response)
				if err == nil && !bytes.HasPrefix(response, expected) {
					err = fmt.Errorf("answered %q, want %v", response, t.want)
				}
				return err == nil, err
			}
		},
		// Warm creates a key's counter and brings it to the state with the expected answer.
		Warm: func(ctx context.Context, request string) (bool, error) {
			conn := connect()
			for range t.warm {
				if err := ask(ctx, conn, request, new([]byte)); err != nil {
					return false, err
				}
			}
			return true, nil
		},
	}
}
