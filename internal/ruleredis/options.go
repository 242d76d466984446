package ruleredis

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/redisdial"
	"github.com/penstock-io/penstock/internal/urlform"
)

// Options say where Redis is.
type Options struct {
	Addresses []string // host:port of the server, the sentinels, or some nodes of the cluster
	Master    string   // the name Sentinel knows it by; "" without Sentinel
	Cluster   bool

	Username, Password                 string
	SentinelUsername, SentinelPassword string
	TLS                                *tls.Config

	KeyPrefix string        // default "pen:"
	Timeout   time.Duration // of one exchange, connection included; default 5 s
}

func (o *Options) validate() error {
	errs := o.validateServers()
	if o.KeyPrefix == "" {
		o.KeyPrefix = "pen:"
	}
	if len(o.KeyPrefix) > 64 || strings.ContainsFunc(o.KeyPrefix, func(r rune) bool { return r == '{' || r == '}' || r <= ' ' || r == 0x7f }) {
		errs = append(errs, fmt.Errorf("key prefix %.80q: must have at most 64 bytes, and no braces, spaces or control characters", o.KeyPrefix))
	}
	if o.Timeout == 0 {
		o.Timeout = 5 * time.Second
	}
	if o.Timeout < 0 {
		errs = append(errs, fmt.Errorf("timeout %v: must be positive", o.Timeout))
	}
	if len(errs) > 0 {
		return fmt.Errorf("%w redis options: %w", penstock.ErrInvalid, errors.Join(errs...))
	}
	return nil
}

func (o *Options) validateServers() (errs []error) {
	if len(o.Addresses) == 0 {
		errs = append(errs, errors.New("addresses: none given, for example 127.0.0.1:6379"))
	}
	for _, a := range o.Addresses {
		if _, unix := redisdial.UnixPath(a); unix && o.Master == "" && !o.Cluster {
			continue
		}
		if _, _, err := net.SplitHostPort(a); err != nil || strings.Contains(a, "@") {
			errs = append(errs, fmt.Errorf("address %q: must be host:port, without user or password", urlform.Redact(a)))
		}
	}
	if len(o.Addresses) > 1 && o.Master == "" && !o.Cluster {
		errs = append(errs, fmt.Errorf("%d addresses: one server has one; for several choose a sentinel's master or a cluster", len(o.Addresses)))
	}
	if o.Master != "" && o.Cluster {
		errs = append(errs, fmt.Errorf("master %q: a cluster has none", o.Master))
	}
	return errs
}

func (o *Options) client() rueidis.ClientOption {
	option := rueidis.ClientOption{
		InitAddress:       o.Addresses,
		Username:          o.Username,
		Password:          o.Password,
		TLSConfig:         o.TLS,
		ConnWriteTimeout:  o.Timeout,
		ForceSingleClient: o.Master == "" && !o.Cluster,
		DisableRetry:      true, // who looks again anyway should hear of it
		DisableCache:      true, // it would need further rights
		ClientSetInfo:     rueidis.DisableClientSetInfo,
		PipelineMultiplex: -1, // one connection will do
	}
	redisdial.Unix(&option)
	option.Dialer.Timeout = o.Timeout
	if o.Master != "" {
		option.Sentinel = rueidis.SentinelOption{MasterSet: o.Master, Username: o.SentinelUsername, Password: o.SentinelPassword, TLSConfig: o.TLS}
	}
	return option
}
