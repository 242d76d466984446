package config

import (
	"slices"

	"github.com/penstock-io/penstock/internal/envoyenv"
)

// envoyEnvVariable enables the variables of envoyproxy/ratelimit, for every command.
const envoyEnvVariable = "PENSTOCK_ENVOY_RATELIMIT_ENV"

// readEnvoyEnv reads the variables of envoyproxy/ratelimit.
func (l *loader) readEnvoyEnv(s Sources) {
	const redis = "store.redis.addresses"
	hasRedis := l.config.HasRedis() || Getenv(s.Env, variable(redis)) != "" ||
		slices.ContainsFunc(s.Flags, func(f Flag) bool { return f.Key == redis })
	t := envoyenv.Translate(s.Env, hasRedis)
	for _, setting := range t.Settings {
		l.set(setting.Key, setting.Value, setting.Variable)
	}
	l.errs = append(l.errs, t.Errors...)
	l.config.Ignored = t.Ignored
}
