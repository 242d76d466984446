package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/client"
	"github.com/penstock-io/penstock/client/grpcclient"
	"github.com/penstock-io/penstock/internal/loadgen"
	"github.com/penstock-io/penstock/internal/progress"
	"github.com/penstock-io/penstock/memstore"
	"github.com/penstock-io/penstock/redisstore"
)

type benchFlags struct {
	load       loadgen.Options
	requests   string
	key        string
	attributes []string
	header     string
	method     string
	domain     string
	timeout    time.Duration
	tls        bool
	limit      limitFlags
	algorithm  string
	parsed     penstock.Limit // of limit and algorithm
}

// benchKinds are the targets that load can be sent to.
var benchKinds = map[string]func(*benchFlags, string) (loadgen.Target, func(), error){
	"http": (*benchFlags).http, "grpc": (*benchFlags).grpc, "rls": (*benchFlags).rls,
	"gateway": (*benchFlags).gateway, "redis": (*benchFlags).redis, "memory": (*benchFlags).memory,
}

func newBenchCommand(a *app) *cobra.Command {
	var f benchFlags
	c := &cobra.Command{
		Use:   "bench http|grpc|rls|gateway|redis|memory [ADDRESS]",
		Short: "Load test a deployment: latency, errors, over-admission",
		Long: `Send load to a limiter and measure its latency and accuracy:

  http URL        the decision API, for example http://penstock:8090
  grpc ADDRESS    the decision API over gRPC, for example penstock:8081
  rls ADDRESS     Envoy's rate limit service, the same listener
  gateway URL     a gateway, with the key in a header (--header)
  redis ADDRESS   the store itself, with --limit
  memory          the store in this process

With --rate, requests are sent on schedule, however slow the responses are (open loop).
Latency is measured from the scheduled time, so a target that stalls cannot hide it.
Without --rate, each of --workers sends its next request after a response (closed loop).

Every allowed request is checked afterwards: no key may exceed its limit in any window.
The decision API returns the limit; for rls and gateway, set it with --limit, --window
and --algorithm.

Exit status: 0 success, 1 over-admission, 3 no request got a response.`,
		Example: `  penstock bench http http://127.0.0.1:8090 --key user --attribute path=/search --rate 1000 --duration 30s
  penstock bench grpc 127.0.0.1:8081 --key user --workers 256 --duration 10s
  penstock bench gateway http://127.0.0.1:8080/api/v1/chat --header X-Fingerprint --limit 10 --algorithm sliding_window_log
  penstock bench redis 127.0.0.1:6379 --limit 100 --keys 100000 --zipf 1.1 --duration 10s
  penstock bench memory --requests 1M --report bench.html`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(c *cobra.Command, args []string) error {
			open := benchKinds[args[0]]
			if open == nil {
				return misused("unknown target %q; known are http, grpc, rls, gateway, redis and memory", args[0])
			}
			address := strings.Join(args[1:], "")
			if (address == "") != (args[0] == "memory") {
				return misused("%s needs an address, and memory has none", args[0])
			}
			if err := f.prepare(c, args[0]); err != nil {
				return err
			}
			target, end, err := open(&f, address)
			if err != nil {
				return misused("%w", err)
			}
			defer end()
			return a.bench(c.Context(), &f, target, args)
		},
		ValidArgsFunction: cobra.FixedCompletions([]string{"http", "grpc", "rls", "gateway", "redis", "memory"}, cobra.ShellCompDirectiveNoFileComp),
	}
	c.Flags().Float64Var(&f.load.Rate, "rate", 0, "`requests` per second, open loop; 0: closed loop")
	c.Flags().IntVar(&f.load.Workers, "workers", 64, "maximum number of concurrent requests")
	c.Flags().StringVar(&f.requests, "requests", "0", "maximum number of `requests`; 0: as many as fit in --duration")
	c.Flags().DurationVar(&f.load.Duration, "duration", 0, "maximum duration; 10s if --requests is not given")
	c.Flags().IntVar(&f.load.Keys, "keys", 1000, "`number` of keys")
	c.Flags().Float64Var(&f.load.Zipf, "zipf", 0, "Zipf `exponent` of the distribution of requests over keys, above 1; 0: uniform")
	c.Flags().Uint64Var(&f.load.Seed, "seed", 1, "`seed` of the random generator")
	c.Flags().StringVar(&f.load.Prefix, "key-prefix", "", "`prefix` of the keys; default: bench- and the time, so that every run uses new keys")
	c.Flags().StringVar(&f.key, "key", "key", "`attribute` or descriptor entry that contains the key")
	c.Flags().StringArrayVar(&f.attributes, "attribute", nil, "`name=value` of another attribute of every request; may be repeated")
	c.Flags().StringVar(&f.header, "header", "X-Key", "gateway: request `header` that contains the key")
	c.Flags().StringVar(&f.method, "method", http.MethodGet, "gateway: request `method`")
	c.Flags().StringVar(&f.domain, "domain", penstock.DefaultDomain, "`domain` of the requests")
	c.Flags().DurationVar(&f.timeout, "timeout", 5*time.Second, "timeout of a request")
	c.Flags().BoolVar(&f.tls, "tls", false, "grpc and rls: connect with TLS")
	f.limit.add(c, 100)
	c.Flags().StringVar(&f.algorithm, "algorithm", penstock.SlidingWindowCounter.String(), "`algorithm` of the limit")
	a.addReportFlag(c)
	return c
}

// prepare copies the flags to the options. The limit is known if it is set here, or if the user named it.
func (f *benchFlags) prepare(c *cobra.Command, kind string) error {
	var err error
	if f.load.Requests, err = parseWhole("--requests", f.requests); err != nil {
		return err
	}
	if f.load.Requests == 0 && f.load.Duration == 0 {
		f.load.Duration = 10 * time.Second
	}
	if f.load.Prefix == "" {
		f.load.Prefix = fmt.Sprintf("bench-%x-", time.Now().UnixNano())
	}
	limits, err := f.limit.parseAll([]string{f.algorithm})
	if err != nil {
		return err
	}
	f.parsed = limits[0]
	named := slices.ContainsFunc([]string{"limit", "window", "algorithm"}, func(name string) bool { return c.Flags().Changed(name) })
	if named || kind == "redis" || kind == "memory" {
		l := &f.parsed
		f.load.Limit = &loadgen.Limit{Algorithm: l.Algorithm, Count: l.Count, Window: l.Window, Burst: l.Burst}
	}
	if err := f.load.Validate(); err != nil {
		return misused("%w", err)
	}
	_, err = f.call("")
	return err
}

func (a *app) bench(ctx context.Context, f *benchFlags, target loadgen.Target, args []string) error {
	if len(args) > 1 && isThisMachine(args[1]) {
		a.warn(args[1] + " is on this machine: load generator and target compete for its CPUs, which increases latencies")
	}
	bar := progress.New(a.stderr, a.terminal, "requests")
	began := time.Now()
	f.load.Target = target
	f.load.Progress = func(n int64) {
		part := 0.0
		if f.load.Requests > 0 {
			part = float64(n) / float64(f.load.Requests)
		}
		if f.load.Duration > 0 {
			part = max(part, time.Since(began).Seconds()/f.load.Duration.Seconds())
		}
		bar.Set(part, n)
	}
	result, err := loadgen.Run(ctx, f.load)
	bar.Done()
	if err != nil {
		return err
	}
	if err := a.printReport(result, result.Page(strings.Join(args, " "))); err != nil {
		return err
	}
	switch {
	case result.Over.Keys > 0:
		return exitWithNo(nil)
	case result.Failed > 0 && result.Failed == result.Requests:
		return failed(fmt.Errorf("no request got a response: %s", result.Errors[0].Error))
	}
	return nil
}

// isThisMachine reports whether an address belongs to this machine.
func isThisMachine(address string) bool {
	if u, err := url.Parse(address); err == nil && u.Host != "" {
		address = u.Host
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = address
	}
	ips, err := net.LookupIP(host)
	if err != nil {
		return false
	}
	own, err := net.InterfaceAddrs()
	if err != nil {
		return false
	}
	return slices.ContainsFunc(ips, func(ip net.IP) bool {
		return ip.IsLoopback() || slices.ContainsFunc(own, func(a net.Addr) bool {
			n, ok := a.(*net.IPNet)
			return ok && n.IP.Equal(ip)
		})
	})
}

// call returns a request of a key.
func (f *benchFlags) call(key string) (*penstock.Call, error) {
	c := callFlags{domain: f.domain, cost: 1}
	return c.call(append([]string{f.key + "=" + key}, f.attributes...))
}

// decide returns a target that asks a decider.
func (f *benchFlags) decide(d penstock.Decider) loadgen.Target {
	return func(ctx context.Context, key string) (loadgen.Answer, error) {
		call, err := f.call(key)
		if err != nil {
			return loadgen.Answer{}, err
		}
		var v penstock.Verdict
		if err := d.Decide(ctx, call, &v); err != nil {
			return loadgen.Answer{}, err
		}
		return loadgen.Answer{Allowed: v.Allowed, Limit: loadgen.LimitOf(&v)}, nil
	}
}

func (f *benchFlags) http(address string) (loadgen.Target, func(), error) {
	c, err := client.NewHTTP(address, client.Options{Timeout: f.timeout, OnError: client.Deny, Connections: f.load.Workers})
	if err != nil {
		return nil, nil, err
	}
	return f.decide(c), func() { c.Close() }, nil
}

func (f *benchFlags) credentials() grpc.DialOption {
	if f.tls {
		return grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{MinVersion: tls.VersionTLS12}))
	}
	return grpc.WithTransportCredentials(insecure.NewCredentials())
}

func (f *benchFlags) grpc(address string) (loadgen.Target, func(), error) {
	c, err := grpcclient.New(address, grpcclient.Options{Timeout: f.timeout, OnError: client.Deny, Dial: []grpc.DialOption{f.credentials()}})
	if err != nil {
		return nil, nil, err
	}
	return f.decide(c), func() { c.Close() }, nil
}

func (f *benchFlags) rls(address string) (loadgen.Target, func(), error) {
	connection, err := grpc.NewClient(address, f.credentials())
	if err != nil {
		return nil, nil, err
	}
	service := rlsv3.NewRateLimitServiceClient(connection)
	return func(ctx context.Context, key string) (loadgen.Answer, error) {
		call, err := f.call(key)
		if err != nil {
			return loadgen.Answer{}, err
		}
		descriptor := &ratelimitv3.RateLimitDescriptor{}
		for _, a := range call.Attributes {
			descriptor.Entries = append(descriptor.Entries, &ratelimitv3.RateLimitDescriptor_Entry{Key: a.Name, Value: a.Value})
		}
		ctx, cancel := context.WithTimeout(ctx, f.timeout)
		defer cancel()
		r, err := service.ShouldRateLimit(ctx, &rlsv3.RateLimitRequest{Domain: f.domain, HitsAddend: 1, Descriptors: []*ratelimitv3.RateLimitDescriptor{descriptor}})
		if err == nil && r.GetOverallCode() == rlsv3.RateLimitResponse_UNKNOWN {
			err = errors.New("the service answered with UNKNOWN")
		}
		return loadgen.Answer{Allowed: r.GetOverallCode() == rlsv3.RateLimitResponse_OK}, err
	}, func() { connection.Close() }, nil
}

func (f *benchFlags) gateway(address string) (loadgen.Target, func(), error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, nil, fmt.Errorf("%q is not a URL, for example http://gateway:8080/search", address)
	}
	transport := &http.Transport{MaxIdleConnsPerHost: f.load.Workers, MaxIdleConns: f.load.Workers}
	c := &http.Client{Transport: transport, Timeout: f.timeout, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return func(ctx context.Context, key string) (loadgen.Answer, error) {
		r, err := http.NewRequestWithContext(ctx, f.method, address, nil)
		if err != nil {
			return loadgen.Answer{}, err
		}
		r.Header.Set(f.header, key)
		answer, err := c.Do(r)
		if err != nil {
			return loadgen.Answer{}, err
		}
		defer answer.Body.Close()
		if _, err := io.Copy(io.Discard, io.LimitReader(answer.Body, 16<<20)); err != nil {
			return loadgen.Answer{}, err
		}
		if answer.StatusCode >= 500 {
			return loadgen.Answer{}, fmt.Errorf("the gateway answered with %s", answer.Status)
		}
		return loadgen.Answer{Allowed: answer.StatusCode != http.StatusTooManyRequests}, nil
	}, transport.CloseIdleConnections, nil
}

// store returns a target that asks a store, under the limit of the flags.
func (f *benchFlags) store(store penstock.Store, end func()) (loadgen.Target, func(), error) {
	limiter, err := penstock.New(store, f.parsed, penstock.WithName("bench"))
	if err != nil {
		end()
		return nil, nil, err
	}
	return func(ctx context.Context, key string) (loadgen.Answer, error) {
		d, err := limiter.Allow(ctx, key)
		return loadgen.Answer{Allowed: d.Allowed}, err
	}, end, nil
}

func (f *benchFlags) redis(address string) (loadgen.Target, func(), error) {
	store, err := redisstore.Open(redisstore.Options{Addresses: []string{address}, KeyPrefix: "penstock-bench:", Timeout: f.timeout})
	if err != nil {
		return nil, nil, fmt.Errorf("connect to Redis at %s: %w", address, err)
	}
	return f.store(store, func() { store.Close() })
}

func (f *benchFlags) memory(string) (loadgen.Target, func(), error) {
	store, err := memstore.New(memstore.Options{})
	if err != nil {
		return nil, nil, err
	}
	return f.store(store, func() { store.Close() })
}
