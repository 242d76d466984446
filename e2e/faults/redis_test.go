package faults

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/penstock-io/penstock/internal/redistest"
)

// onServer is a fault of a single Redis.
func onServer(inject func(*faultStage, *redistest.Server), args ...string) func(*testing.T) faultSetup {
	return func(t *testing.T) faultSetup {
		redis := redistest.Start(t, args...)
		return faultSetup{store: onRedis("single", redis.Addr), inject: func(s *faultStage) { inject(s, redis) }}
	}
}

// onLink is a fault of the link to it.
func onLink(inject func(*faultStage, *proxy)) func(*testing.T) faultSetup {
	return func(t *testing.T) faultSetup {
		p := startProxy(t, redistest.Start(t).Addr)
		return faultSetup{store: onRedis("single", p.Addr), inject: func(s *faultStage) { inject(s, p) }}
	}
}

var redisFaults = []fault{
	{name: "none", lives: 1, arrange: onServer(func(s *faultStage, _ *redistest.Server) { s.hold() })},
	{name: "Redis killed, back empty", short: true, lives: 2, arrange: onServer(killed)},
	{name: "Redis killed, back with its AOF", lives: 1, arrange: onServer(killed, "--appendonly", "yes")},
	{name: "Redis stopped (SIGSTOP)", silent: true, short: true, lives: 1, arrange: onServer(func(s *faultStage, redis *redistest.Server) {
		must(s.T, redis.Pause())
		s.hold()
		must(s.T, redis.Resume())
	})},
	{name: "SCRIPT FLUSH storm", short: true, lives: 1, arrange: onServer(func(s *faultStage, redis *redistest.Server) {
		s.repeat(func() { s.ask(redis.Addr, "SCRIPT", "FLUSH") })
	})},
	{name: "maxmemory reached, noeviction", lives: 1, arrange: onServer(func(s *faultStage, redis *redistest.Server) {
		s.ask(redis.Addr, "CONFIG", "SET", "maxmemory", "1")
		s.hold()
		s.ask(redis.Addr, "CONFIG", "SET", "maxmemory", "0")
	})},
	{name: "Redis demoted to a replica (READONLY)", lives: 1, arrange: onServer(func(s *faultStage, redis *redistest.Server) {
		s.ask(redis.Addr, "REPLICAOF", "127.0.0.1", "1") // nobody, so that it keeps what it has
		s.hold()
		s.ask(redis.Addr, "REPLICAOF", "NO", "ONE")
	})},
	{name: "Redis restarted with much to load (LOADING)", silent: true, lives: 1, arrange: onServer(loading,
		"--appendonly", "yes", "--loading-process-events-interval-bytes", "1024", "--key-load-delay", "500")},
	{name: "somebody's endless script (BUSY)", silent: true, lives: 1, arrange: onServer(busy)},
}

var linkFaults = []fault{
	{name: "replies lost after execution, 2 %", short: true, lives: 1, unheard: true, arrange: onLink(func(s *faultStage, p *proxy) {
		p.set(link{lose: 0.02})
		s.hold()
		p.set(link{})
	})},
	{name: "connections reset, 2 % of requests", lives: 1, arrange: onLink(func(s *faultStage, p *proxy) {
		p.set(link{reset: 0.02})
		s.hold()
		p.set(link{})
	})},
	{name: "all connections reset again and again", lives: 1, arrange: onLink(func(s *faultStage, p *proxy) { s.repeat(p.cut) })},
	{name: "link 2 × 3 ms slower", lives: 1, arrange: onLink(slower(3 * time.Millisecond))},
	{name: "link 2 × 20 ms slower", silent: true, lives: 1, arrange: onLink(slower(20 * time.Millisecond))},
	{name: "link 2 × 1 s slower", silent: true, lives: 1, arrange: onLink(slower(time.Second))},
	{name: "link silent, half-open", silent: true, lives: 1, arrange: onLink(func(s *faultStage, p *proxy) {
		p.set(link{silent: true})
		s.hold()
		p.set(link{})
	})},
	{name: "all connections swallowed, new ones work", silent: true, lives: 1, arrange: onLink(func(_ *faultStage, p *proxy) { p.swallow() })},
}

func killed(s *faultStage, redis *redistest.Server) {
	must(s.T, redis.Kill())
	s.hold()
	must(s.T, redis.Restart())
}

func slower(by time.Duration) func(*faultStage, *proxy) {
	return func(s *faultStage, p *proxy) {
		p.set(link{delay: by})
		s.hold()
		p.set(link{})
	}
}

// loading restarts a server that has thousands of keys to read, slowly.
func loading(s *faultStage, redis *redistest.Server) {
	s.ask(redis.Addr, "EVAL", "for i = 1, 4000 do redis.call('SET', 'other:' .. i, i) end", "0")
	must(s.T, redis.Restart())
	eventually(s.T, "Redis has loaded", func() bool {
		return strings.Contains(s.ask(redis.Addr, "INFO", "persistence"), "\nloading:0")
	})
}

// busy runs a script that does not end. For the first moments Redis is silent, then says BUSY.
func busy(s *faultStage, redis *redistest.Server) {
	s.ask(redis.Addr, "CONFIG", "SET", "busy-reply-threshold", "500")
	conn, err := net.Dial("tcp", redis.Addr)
	must(s.T, err)
	defer conn.Close()
	_, err = fmt.Fprint(conn, "EVAL \"while true do end\" 0\r\n")
	must(s.T, err)
	s.hold()
	s.eventuallyAsk(redis.Addr, "SCRIPT", "KILL")
}

// repeat does something repeatedly for as long as a fault lasts.
func (s *faultStage) repeat(do func()) {
	for end := time.Now().Add(run.lasting); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		do()
	}
}

func (s *faultStage) ask(addr string, args ...string) string {
	s.Helper()
	reply, err := redistest.Command(addr, args...)
	must(s.T, err)
	return reply
}

// eventuallyAsk asks until there is an answer.
func (s *faultStage) eventuallyAsk(addr string, args ...string) {
	s.Helper()
	eventually(s.T, fmt.Sprint("an answer to ", args), func() bool {
		_, err := redistest.Command(addr, args...)
		return err == nil
	})
}
