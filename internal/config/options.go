package config

import (
	"time"

	"github.com/penstock-io/penstock/internal/envoyratelimit"
	"github.com/penstock-io/penstock/internal/ruleredis"
	"github.com/penstock-io/penstock/internal/webguard"
	"github.com/penstock-io/penstock/redisstore"
)

// Hosts returns the host names by which a listener is reached.
func (c *Config) Hosts(address string) webguard.Hosts {
	return webguard.Hosts{Loopback: IsLoopback(address), Names: c.Listen.Hosts}
}

// Options returns the options of the store in this Redis.
func (r *Redis) Options() (redisstore.Options, error) {
	secure, err := r.TLS.Load()
	return redisstore.Options{
		Addresses: r.Addresses, Mode: redisstore.Mode(r.Mode), Master: r.Master,
		Username: r.Username, Password: r.Password,
		SentinelUsername: r.SentinelUsername, SentinelPassword: r.SentinelPassword,
		TLS: secure, KeyPrefix: r.KeyPrefix, Timeout: r.Timeout,
	}, err
}

// rulesTimeout is the timeout for reading or writing rules. The store's timeout is for decisions, which are
// small. If the store's timeout is longer, it applies to rules too.
const rulesTimeout = 5 * time.Second

// RuleOptions returns the options for publishing rules through the store's Redis.
func (r *Redis) RuleOptions() (ruleredis.Options, error) {
	secure, err := r.TLS.Load()
	return ruleredis.Options{
		Addresses: r.Addresses, Master: r.Master, Cluster: r.Mode == "cluster",
		Username: r.Username, Password: r.Password,
		SentinelUsername: r.SentinelUsername, SentinelPassword: r.SentinelPassword,
		TLS: secure, KeyPrefix: r.KeyPrefix, Timeout: max(rulesTimeout, r.Timeout),
	}, err
}

// EnvoyOptions returns the options for reading files of envoyproxy/ratelimit.
func (r *Rules) EnvoyOptions() envoyratelimit.Options {
	return envoyratelimit.Options{MergeDomains: r.MergeDomains, Together: r.IsEnvoy() && r.Charge == "together", Bans: r.Bans}
}
