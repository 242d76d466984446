package doctor

import (
	"fmt"
	"net"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/penstock-io/penstock/internal/nodetest"
	"github.com/penstock-io/penstock/internal/redistest"
)

func TestDoctorOnRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	b := visit(t, nodetest.OnRedis("single", server.Addr))
	b.golden("redis", Healthy)
	if left := nodetest.RedisCommand(t, server.Addr, "DBSIZE"); left != "0" {
		keys := nodetest.RedisCommand(t, server.Addr, "KEYS", "*")
		for key := range strings.Lines(keys) {
			if ttl := nodetest.RedisCommand(t, server.Addr, "PTTL", strings.TrimSpace(key)); ttl == "-1" {
				t.Errorf("the doctor has left %q forever", key)
			}
		}
	}
	b.strict = true
	if _, code := b.examine(); code != Unhealthy {
		t.Errorf("--strict: outcome %d, want %d: the user may do everything", code, Unhealthy)
	}
}

// The server's user has only the rights that docs/reference/redis.md lists: much cannot be checked then, and the
// report says so.
func TestDoctorUnderTheLeastRights(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	nodetest.RedisCommand(t, server.Addr, append([]string{"ACL", "SETUSER", "penstock", "on", ">only-in-tests", "~pen:*", "-@all"}, nodetest.DocumentedRights(t)...)...)
	as := strings.Replace(nodetest.OnRedis("single", server.Addr), "timeout:", "username: penstock, password: only-in-tests, timeout:", 1)
	b := visit(t, as)
	b.golden("least", Healthy)

	// The rights in docs/how-to/doctor.md let it check.
	nodetest.RedisCommand(t, server.Addr, "ACL", "SETUSER", "penstock", "+config|get", "+info")
	if text, code := b.examine(); code != Healthy || strings.Count(text, "  ? ") != 1 || !strings.Contains(text, "✓ excess") {
		t.Errorf("with more rights: outcome %d\n%s", code, text)
	}
	for _, row := range []struct{ change, want string }{
		{"", "the Redis user lacks +publish, +subscribe"},
		{"+publish +subscribe +unsubscribe", "the Redis user lacks &pen:bus*"},
		{"&pen:bus* -publish", "the Redis user lacks +publish\n"},
		{"+publish -subscribe", "the Redis user lacks +subscribe\n"},
		{"+subscribe", "✓ node bus       nodes can ask each other"},
	} {
		if row.change != "" {
			nodetest.RedisCommand(t, server.Addr, append([]string{"ACL", "SETUSER", "penstock"}, strings.Fields(row.change)...)...)
		}
		if text, code := b.examine(); code != Healthy || !strings.Contains(text, row.want) {
			t.Errorf("after %q: outcome %d\n%s", row.change, code, text)
		}
	}
	nodetest.RedisCommand(t, server.Addr, "ACL", "SETUSER", "penstock", "resetchannels", "-publish", "-subscribe", "-unsubscribe")
	nodetest.RedisCommand(t, server.Addr, "ACL", "SETUSER", "penstock", "-config|get", "-info", "-hget", "-zadd", "-scan")
	b.golden("lacking", Unhealthy)
	nodetest.RedisCommand(t, server.Addr, "ACL", "SETUSER", "penstock", "+hget", "+zadd", "+scan", "resetkeys", "~other:*")
	b.golden("other_keys", Unhealthy)
	nodetest.RedisCommand(t, server.Addr, "ACL", "SETUSER", "penstock", "resetpass", ">another")
	text, code := b.examine()
	if code != Incomplete || !strings.Contains(text, "correct store.redis.username") {
		t.Errorf("a wrong password: outcome %d\n%s", code, text)
	}
}

// The doctor tries exactly the documented rights.
func TestDoctorTriesWhatIsDocumented(t *testing.T) {
	tried := map[string]bool{}
	for _, r := range append(append([]permission{}, neededRights...), operatorRights...) {
		tried["+"+r.name] = true
	}
	documented := nodetest.DocumentedRights(t)
	for _, name := range documented {
		if !tried[name] {
			t.Errorf("docs/reference/redis.md asks for %s, and the doctor does not try it", name)
		}
		delete(tried, name)
	}
	for name := range tried {
		t.Errorf("the doctor tries %s, and docs/reference/redis.md does not ask for it", name)
	}
}

func TestDoctorOnEviction(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")
	b := visit(t, nodetest.OnRedis("single", server.Addr))
	b.golden("allkeys_lru", Unhealthy)
	nodetest.RedisCommand(t, server.Addr, "CONFIG", "SET", "maxmemory", "0")
	text, code := b.examine()
	if code != Healthy || !strings.Contains(text, "! eviction") {
		t.Errorf("without maxmemory: outcome %d\n%s", code, text)
	}
}

// A server with eviction has evicted keys, and is nearly full.
func TestDoctorOnEvictedKeys(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--maxmemory-policy", "allkeys-lru")
	b := visit(t, nodetest.OnRedis("single", server.Addr))
	nodetest.RedisCommand(t, server.Addr, "CONFIG", "SET", "maxmemory", "3mb")
	nodetest.RedisCommand(t, server.Addr, "EVAL", "for i = 1, 40000 do redis.call('SET', 'key' .. i, string.rep('x', 100)) end", "0")
	text, _ := b.examine()
	if !regexp.MustCompile(`! eviction +\d+ keys were evicted`).MatchString(text) || !regexp.MustCompile(`! memory +\d+ % of maxmemory`).MatchString(text) {
		t.Errorf("got\n%s", text)
	}
}

func TestDoctorOnPersistence(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	b := visit(t, nodetest.OnRedis("single", server.Addr))
	b.write("rules.yaml", "rules: [{name: daily, key: [ip], limits: [{rate: 10/1d}]}]\n")
	for _, step := range []struct{ parameter, value, want string }{
		{"save", "", `! persistence +none: a restart loses all counters and bans, and some rules count for an hour`},
		{"save", "3600 1", `! persistence +snapshots \(save 3600 1\)`},
		{"appendonly", "yes", `✓ persistence +appendonly`},
	} {
		nodetest.RedisCommand(t, server.Addr, "CONFIG", "SET", step.parameter, step.value)
		if text, _ := b.examine(); !regexp.MustCompile(step.want).MatchString(text) {
			t.Errorf("with %s %q it does not say %s:\n%s", step.parameter, step.value, step.want, text)
		}
	}
}

func TestDoctorOnReplicas(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t, "--repl-diskless-sync-delay", "0")
	host, port, _ := net.SplitHostPort(master.Addr)
	follower := redistest.Start(t, "--replicaof", host, port)
	nodetest.Eventually(t, "the replica follows", func() bool {
		return strings.Contains(nodetest.RedisCommand(t, master.Addr, "INFO", "replication"), "state=online")
	})
	visit(t, nodetest.OnRedis("single", follower.Addr)).golden("replica", Unhealthy)
	b := visit(t, nodetest.OnRedis("single", master.Addr))
	nodetest.Eventually(t, "the replica is up to date", func() bool { // unless it was not heard of for a while
		text, code := b.examine()
		return code == Healthy && regexp.MustCompile(`✓ replicas +1 replica, up to date`).MatchString(text)
	})
	if err := follower.Pause(); err != nil {
		t.Fatal(err)
	}
	defer follower.Resume()
	nodetest.RedisCommand(t, master.Addr, "SET", "much", strings.Repeat("x", 2<<20))
	if text, _ := b.examine(); !regexp.MustCompile(`! replicas +server-\d is \d{7} bytes behind`).MatchString(b.masked(text)) {
		t.Errorf("got\n%s", text)
	}
	// Without INFO there is ROLE.
	nodetest.RedisCommand(t, master.Addr, "ACL", "SETUSER", "default", "-info")
	if text, _ := b.examine(); !regexp.MustCompile(`! replicas +server-\d is \d{7} bytes behind`).MatchString(b.masked(text)) {
		t.Errorf("by ROLE:\n%s", text)
	}
}

func TestDoctorOnCluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3)
	b := visit(t, nodetest.OnRedis("cluster", cluster.Addrs[0]))
	text, code := b.examine()
	if code != Healthy || strings.Count(text, "✓ rights") != 3 || !strings.Contains(text, "all 16384 are served, by 3 masters") || strings.Count(text, "! replicas") != 3 {
		t.Errorf("outcome %d\n%s", code, text)
	}
	text, code = visit(t, nodetest.OnRedis("cluster", "127.0.0.1:1", cluster.Addrs[2])).examine()
	if code != Healthy || !strings.Contains(text, "! reach") || strings.Count(text, "✓ rights") != 3 {
		t.Errorf("with one address that is gone: outcome %d\n%s", code, text)
	}
	text, code = visit(t, nodetest.OnRedis("single", cluster.Addrs[0])).examine()
	if code != Incomplete || !strings.Contains(text, "store.redis.mode: cluster") {
		t.Errorf("as a single server: outcome %d\n%s", code, text)
	}
	nodetest.RedisCommand(t, cluster.Addrs[0], "CLUSTER", "DELSLOTS", "17", "18", "4000")
	text, code = b.examine()
	if code != Unhealthy || !regexp.MustCompile(`✗ slots +slots 17-18, 4000 are not assigned`).MatchString(text) {
		t.Errorf("with slots missing: outcome %d\n%s", code, text)
	}
}

func TestDoctorOnSentinel(t *testing.T) {
	t.Parallel()
	watched := redistest.StartSentinel(t)
	yaml := strings.Replace(nodetest.OnRedis("sentinel", watched.Addrs...), "timeout:", "master: "+redistest.MasterName+", timeout:", 1)
	b := visit(t, yaml)
	nodetest.Eventually(t, "all is well", func() bool {
		text, code := b.examine()
		return code == Healthy && strings.Contains(text, "3 sentinels say that "+redistest.MasterName+" is "+watched.Master) && strings.Contains(text, "1 replica, up to date")
	})
	if err := watched.Sentinels[1].Kill(); err != nil {
		t.Fatal(err)
	}
	text, code := b.examine()
	if code != Healthy || !strings.Contains(text, "the sentinel "+watched.Addrs[1]+" does not answer") {
		t.Errorf("outcome %d\n%s", code, text)
	}
	text, code = visit(t, strings.Replace(yaml, "master: ", "master: not-", 1)).examine()
	if code != Incomplete || !strings.Contains(text, "no sentinel knows the master") {
		t.Errorf("a wrong name: outcome %d\n%s", code, text)
	}
}

func TestDoctorWithoutRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	b := visit(t, nodetest.OnRedis("single", server.Addr))
	b.golden("gone", Incomplete)
}

// The doctor names what keeps it from reaching Redis.
func TestDoctorIsNotLetIn(t *testing.T) {
	t.Parallel()
	plain := nodetest.OnRedis("single", redistest.Start(t).Addr)
	locked := nodetest.OnRedis("single", redistest.Start(t, "--requirepass", "only-in-tests").Addr)
	for _, test := range []struct{ name, yaml, want string }{
		{"no password", locked, "→ set store.redis.password"},
		{"no sentinel", strings.Replace(plain, "mode: single", "mode: sentinel, master: m", 1), "no sentinel knows the master"},
		{"no cluster", strings.Replace(plain, "mode: single", "mode: cluster", 1), "→ store.redis.mode: single"},
	} {
		if text, code := visit(t, test.yaml).examine(); code != Incomplete || !strings.Contains(text, test.want) {
			t.Errorf("%s: outcome %d\n%s", test.name, code, text)
		}
	}
	// Redis waits silently for the rest of what is not a command.
	b := visit(t, strings.Replace(plain, "timeout:", "tls: {enabled: true}, timeout:", 1))
	b.timeout = 500 * time.Millisecond
	if text, code := b.examine(); code != Incomplete || !strings.Contains(text, "needs store.redis.tls.enabled: false") {
		t.Errorf("TLS where there is none: outcome %d\n%s", code, text)
	}
}

// State of a later Penstock is not taken for ours.
func TestDoctorOnOtherFormats(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	b := visit(t, nodetest.OnRedis("single", server.Addr))
	for i, value := range []string{"\x01" + strings.Repeat("x", 27), "\x02 of the future", "\x03"} {
		nodetest.RedisCommand(t, server.Addr, "SET", fmt.Sprintf("pen:{%022d}", i), value)
	}
	text, code := b.examine()
	if code != Unhealthy || !regexp.MustCompile(`✗ format +some of 3 states have format (2, 3|3, 2), but this Penstock supports format 1`).MatchString(text) {
		t.Errorf("outcome %d\n%s", code, text)
	}
}

func TestJudgeClock(t *testing.T) {
	for _, test := range []struct {
		skew, within time.Duration
		want         level
	}{
		{0, time.Millisecond, levelOK},
		{999 * time.Millisecond, 0, levelOK},
		{-time.Second, 0, levelWarn},
		{time.Second, time.Millisecond, levelOK}, // too small to measure
		{59 * time.Second, 0, levelWarn},
		{-time.Hour, time.Second, levelFail},
	} {
		var r Report
		r.judgeClock(test.skew, test.within)
		if got := r.findings[0]; got.Level != test.want {
			t.Errorf("%v within %v: %+v, want %s", test.skew, test.within, got, test.want)
		}
	}
}

func TestGaps(t *testing.T) {
	owned := make([]bool, 40)
	if got := gaps(owned); got != "0-39" {
		t.Errorf("got %s", got)
	}
	for i := range owned {
		owned[i] = i%2 == 1
	}
	if got := gaps(owned); got != "0, 2, 4, 6, 8, 10, 12, 14, …" {
		t.Errorf("got %s", got)
	}
	if got := gaps([]bool{true, false, false, true, false}); got != "1-2, 4" {
		t.Errorf("got %s", got)
	}
	if got := gaps([]bool{true}); got != "" {
		t.Errorf("got %s", got)
	}
}
