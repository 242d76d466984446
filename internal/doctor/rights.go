package doctor

import (
	"context"
	"crypto/rand"
	"net"
	"slices"
	"strings"

	"github.com/redis/rueidis"

	"github.com/penstock-io/penstock/internal/config"
)

// A permission is a command that the server's user needs, and a harmless use of it. key is replaced by a key of the
// doctor. Its value is a string, so commands for lists, sets and hashes fail on it.
type permission struct{ name, use string }

// neededRights are those that docs/reference/redis.md lists.
var neededRights = []permission{
	{"ping", "PING"}, {"hello", "HELLO"}, {"time", "TIME"},
	{"evalsha", "EVALSHA 0000000000000000000000000000000000000000 0"}, {"eval", "EVAL return(1) 0"},
	{"set", "SET key - PX 5000"}, {"setrange", "SETRANGE key 0 -"}, {"get", "GET key"}, {"mget", "MGET key"}, {"exists", "EXISTS key"},
	{"pexpire", "PEXPIRE key 5000"}, {"pttl", "PTTL key"},
	{"lindex", "LINDEX key 0"}, {"lrange", "LRANGE key 0 0"}, {"llen", "LLEN key"}, {"lset", "LSET key 0 -"},
	{"rpush", "RPUSH key -"}, {"ltrim", "LTRIM key 0 0"}, {"lpop", "LPOP key 1"},
	{"zcard", "ZCARD key"}, {"zcount", "ZCOUNT key 0 0"}, {"zrange", "ZRANGE key 0 0"}, {"zrangebyscore", "ZRANGEBYSCORE key 0 0"},
	{"zscore", "ZSCORE key -"}, {"zadd", "ZADD key none -"}, {"zremrangebyscore", "ZREMRANGEBYSCORE key 0 0"}, {"zrem", "ZREM key -"},
	{"hlen", "HLEN key"}, {"hget", "HGET key -"}, {"hset", "HSET key - - -"}, {"hdel", "HDEL key -"}, {"hrandfield", "HRANDFIELD key"},
	{"del", "DEL key"},
}

// operatorRights are needed only for listing.
var operatorRights = []permission{{"hscan", "HSCAN key 0"}, {"scan", "SCAN 0 COUNT 1"}, {"dbsize", "DBSIZE"}}

// clusterRights and sentinelRights are needed to find the servers.
var (
	clusterRights  = []permission{{"cluster|slots", "CLUSTER SLOTS"}, {"cluster|shards", "CLUSTER SHARDS"}, {"role", "ROLE"}}
	sentinelRights = []permission{{"role", "ROLE"}}
)

// publishRights are the rights needed, in addition to those for decisions, to publish rules for nodes without a
// database. The message makes nodes read the rules again, which have not changed.
func publishRights(prefix string) []permission {
	return []permission{{"hmget", "HMGET key version"}, {"publish", "PUBLISH " + prefix + "rules doctor"}}
}

// examineRights tries what the server's user needs, and some commands that no limiter's user should be allowed to
// run.
func (d *doctor) examineRights(ctx context.Context, s *redisServer) {
	needed := slices.Clone(neededRights)
	switch d.Config.Store.Redis.Mode {
	case "cluster":
		needed = append(needed, clusterRights...)
	case "sentinel":
		needed = append(needed, sentinelRights...)
	}
	prefix := d.Config.Store.Redis.KeyPrefix
	missing, strange, err := s.try(ctx, prefix, needed)
	if err != nil {
		d.block("rights", "", "cannot check them: %v", err)
		return
	}
	if strange {
		d.fail("rights", "ACL SETUSER "+d.user()+" ~"+prefix+"*", "the Redis user may not access keys that begin with %s, which Penstock uses", prefix)
	}
	if len(missing) > 0 {
		d.fail("rights", "ACL SETUSER "+d.user()+" +"+strings.Join(missing, " +"),
			"the Redis user may not %s, which decisions need", strings.Join(missing, ", "))
	}
	if lacking, _, err := s.try(ctx, prefix, operatorRights); err == nil && len(lacking) > 0 {
		d.warn("rights", "ACL SETUSER "+d.user()+" +"+strings.Join(lacking, " +")+", if operators are to list keys", "cannot list keys: the Redis user may not %s", strings.Join(lacking, ", "))
	}
	if d.Config.Rules.Database != "" {
		if lacking, _, err := s.try(ctx, prefix, publishRights(prefix)); err == nil && len(lacking) > 0 {
			d.warn("rights", "ACL SETUSER "+d.user()+" +hmget +publish &"+prefix+"rules, if there are nodes with rules.redis", "cannot publish rules to nodes without a database: the Redis user may not %s", strings.Join(lacking, ", "))
		}
	}
	if len(missing) == 0 && !strange {
		d.ok("rights", "the Redis user may do all that decisions need")
	}
	d.examineExcess(ctx, s)
}

// user returns the user who needs the rights.
func (d *doctor) user() string {
	if name := d.Config.Store.Redis.Username; name != "" {
		return name
	}
	return "default"
}

// try uses each right on a key of the doctor, and returns those that are missing. A cluster server that does not
// own the key says so only after it has checked the rights. strange is true if the user has no access to the key
// itself.
func (s *redisServer) try(ctx context.Context, prefix string, rights []permission) (missing []string, strange bool, err error) {
	key := prefix + "{doctor " + rand.Text() + "}"
	for _, right := range rights {
		words := strings.Fields(right.use)
		for i := range words {
			if words[i] == "key" {
				words[i] = key
			}
		}
		err := s.do(ctx, words...).Error()
		if _, said := rueidis.IsRedisErr(err); err != nil && !said {
			return nil, false, err
		}
		switch {
		case !mayNot(err):
		case ofKeys(err):
			strange = true
		default:
			missing = append(missing, right.name)
		}
	}
	return missing, strange, nil
}

// ofKeys reports whether the user lacks access to the key and not to the command.
func ofKeys(err error) bool {
	return strings.Contains(err.Error(), "key") && !strings.Contains(err.Error(), " command")
}

// examineExcess tries commands that a limiter never uses. None of them has an effect.
func (d *doctor) examineExcess(ctx context.Context, s *redisServer) {
	var may []string
	for _, excess := range []struct {
		use  []string
		what string
	}{
		{[]string{"EXISTS", "penstock doctor: a key of others"}, "touch every key"},
		{[]string{"CONFIG", "SET", "penstock-doctor-no-such-parameter", "0"}, "change the server's configuration"},
		{[]string{"ACL", "GETUSER", "penstock-doctor-no-such-user"}, "see and perhaps change its users"},
	} {
		if err := s.do(ctx, excess.use...).Error(); !mayNot(err) {
			may = append(may, excess.what)
		}
	}
	if len(may) > 0 {
		d.warn("excess", "give Penstock its own Redis user with only the rights in docs/reference/redis.md",
			"the Redis user may also %s, and so may anyone who learns its password", strings.Join(may, ", "))
	} else {
		d.ok("excess", "the Redis user may do little else")
	}
	host, _, _ := net.SplitHostPort(s.address)
	if c := &d.Config.Store.Redis; c.Password == "" && !c.TLS.Enabled && !config.IsLoopback(net.JoinHostPort(host, "0")) {
		d.warn("password", "set a password in Redis, and store.redis.password_file", "this server accepts connections without a password")
	}
}
