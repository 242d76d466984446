package redisstore_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/penstock-io/penstock/internal/redistest"
	"github.com/penstock-io/penstock/redisstore"
	"github.com/penstock-io/penstock/storage"
	"github.com/penstock-io/penstock/storetest"
)

// The permissions that docs/reference/redis.md asks an operator to grant, and no others.
const (
	aclCommands = "+evalsha +eval +ping +hello +time +get +mget +exists +set +setrange" +
		" +lindex +lrange +llen +lpop +rpush +lset +del +pexpire" +
		" +zcard +zcount +zrange +zrangebyscore +zscore +zadd +zremrangebyscore" +
		" +hlen +hget +hset +hdel +hrandfield +pttl +ltrim +zrem" + // reservations
		" +hscan +scan +dbsize" // operator commands
	aclCluster  = "+cluster|slots +cluster|shards +role"
	aclSentinel = "+role"
	aclUser     = "penstock"
	password    = "only-in-tests"
)

// grant creates the least privileged user on a server.
func grant(t testing.TB, addr, commands string) {
	t.Helper()
	args := append([]string{"ACL", "SETUSER", aclUser, "on", ">" + password, "~pen:*", "-@all"}, strings.Fields(commands)...)
	if reply, err := redistest.Command(addr, args...); err != nil || reply != "OK" {
		t.Fatalf("grant rights on %s: %q, %v", addr, reply, err)
	}
}

func open(t testing.TB, o redisstore.Options) *redisstore.Store {
	t.Helper()
	o.Username, o.Password = aclUser, password
	if o.Timeout == 0 {
		o.Timeout = 30 * time.Second // a late answer is still an answer here
	}
	s, err := redisstore.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func nodes(t testing.TB, n int, o redisstore.Options) []storage.Store {
	stores := make([]storage.Store, n)
	for i := range stores {
		stores[i] = open(t, o)
	}
	return stores
}

func TestContractSingle(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	grant(t, server.Addr, aclCommands)
	storetest.Run(t, func(t testing.TB, n int) []storage.Store {
		return nodes(t, n, redisstore.Options{Addresses: []string{server.Addr}})
	})
	everyKeyExpires(t, server.Addr)
}

func TestContractCluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3)
	for _, addr := range cluster.Addrs {
		grant(t, addr, aclCommands+" "+aclCluster)
	}
	suite := storetest.Suite{OneSubject: true, Open: func(t testing.TB, n int) []storage.Store {
		return nodes(t, n, redisstore.Options{Addresses: cluster.Addrs, Mode: redisstore.Cluster})
	}}
	if os.Getenv("PENSTOCK_TEST_LONG") != "1" {
		suite.TwinSteps = 10_000 // the script is the same as on a single server
	}
	suite.Run(t)
	for _, addr := range cluster.Addrs {
		everyKeyExpires(t, addr)
	}
}

// everyKeyExpires fails for every key that has no expiry or does not belong to the store.
func everyKeyExpires(t *testing.T, addr string) {
	t.Helper()
	const script = `local bad, cursor, seen = {}, '0', 0
		repeat
			local page = redis.call('SCAN', cursor, 'COUNT', 1000)
			cursor = page[1]
			for _, key in ipairs(page[2]) do
				seen = seen + 1
				if redis.call('PTTL', key) < 0 or string.sub(key, 1, 5) ~= 'pen:{' then bad[#bad + 1] = key end
			end
		until cursor == '0'
		return seen .. ' ' .. table.concat(bad, ' ', 1, math.min(#bad, 5))`
	reply, err := redistest.Command(addr, "EVAL", script, "0")
	if err != nil {
		t.Fatal(err)
	}
	var seen int
	fmt.Sscan(reply, &seen)
	if seen == 0 {
		t.Errorf("%s: no key was written, so nothing was checked", addr)
	}
	if bad := strings.Fields(reply)[1:]; len(bad) > 0 {
		t.Errorf("%s: keys without an end, or not ours: %q", addr, bad)
	}
}
