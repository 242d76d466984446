package config

import (
	"time"

	"github.com/penstock-io/penstock/internal/envoyratelimit"
	"github.com/penstock-io/penstock/internal/ruleredis"
	"github.com/penstock-io/penstock/internal/webguard"
	"github.com/penstock-io/penstock/redisstore"
)

// Hosts are the names under which a listener is reached.
func (c *Config) Hosts(address string) webguard.Hosts {
	return webguard.Hosts{Loopback: IsLoopback(address), Names: c.Listen.Hosts}
}

// Options returns how counters are kept in this Redis.
func (r *Redis) Options() (redisstore.Options, error) {
	secure, err := r.TLS.Load()
	return redisstore.Options{
		Addresses: r.Addresses, Mode: redisstore.Mode(r.Mode), Master: r.Master,
		Username: r.Username, Password: string(r.Password),
		SentinelUsername: r.SentinelUsername, SentinelPassword: string(r.SentinelPassword),
		TLS: secure, KeyPrefix: r.KeyPrefix, Timeout: r.Timeout,
	}, err
}

// rulesTimeout is what an exchange of rules may take. The store's timeout is for decisions, which are
// small; but where a decision has longer, rules have as long.
const rulesTimeout = 5 * time.Second

// RuleOptions returns how rules are carried through the store's Redis.
func (r *Redis) RuleOptions() (ruleredis.Options, error) {
	secure, err := r.TLS.Load()
	return ruleredis.Options{
		Addresses: r.Addresses, Master: r.Master, Cluster: r.Mode == "cluster",
		Username: r.Username, Password: string(r.Password),
		SentinelUsername: r.SentinelUsername, SentinelPassword: string(r.SentinelPassword),
		TLS: secure, KeyPrefix: r.KeyPrefix, Timeout: max(rulesTimeout, r.Timeout),
	}, err
}

// EnvoyOptions say how files of envoyproxy/ratelimit are read.
func (r *Rules) EnvoyOptions() envoyratelimit.Options {
	return envoyratelimit.Options{MergeDomains: r.MergeDomains, Together: r.IsEnvoy() && r.Charge == "together", Bans: r.Bans}
}
