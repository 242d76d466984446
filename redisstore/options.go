package redisstore

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/internal/secret"
)

// Mode is how the servers are arranged.
type Mode string

const (
	Single   Mode = "single"
	Sentinel Mode = "sentinel"
	Cluster  Mode = "cluster"
)

// Secret is a text that nothing prints, encodes or logs: it is shown as [redacted]. Convert it to a string to read it.
type Secret = secret.Text

// Options say where Redis is and how to use it.
type Options struct {
	Addresses []string // host:port of the server, the sentinels, or some nodes of the cluster; or unix:///path of a single server
	Mode      Mode     // default Single
	Master    string   // Sentinel: the name of the master

	Username         string
	Password         Secret
	SentinelUsername string
	SentinelPassword Secret
	TLS              *tls.Config

	KeyPrefix string // default "pen:"; must not contain { or }

	// Timeout is the longest time that Redis may owe a reply; default 1s. If Redis has been fast, it is
	// less, down to 10ms or a fifth of it. Delays of this process do not count: while Redis owes nothing, a
	// request waits longer, up to ConnectTimeout. ConnectTimeout also bounds connecting, Open, Ping and
	// operators' listings; default 1s, or the Timeout if that is longer.
	Timeout        time.Duration
	ConnectTimeout time.Duration

	// Dial replaces the dialer, for tests that intercept the connection.
	Dial func(ctx context.Context, addr string, d *net.Dialer, t *tls.Config) (net.Conn, error)
}

// client returns the options of the client library, without the dialer.
func (o *Options) client() rueidis.ClientOption {
	option := rueidis.ClientOption{
		InitAddress:       o.Addresses,
		Username:          o.Username,
		Password:          string(o.Password),
		TLSConfig:         o.TLS,
		ForceSingleClient: o.Mode == Single,
		DisableRetry:      true, // a charge whose reply was lost may have been taken
		DisableCache:      true, // counters change with every request; tracking them needs extra permissions
		ClientSetInfo:     rueidis.DisableClientSetInfo,
	}
	option.Dialer.Timeout = o.ConnectTimeout
	option.Dialer.KeepAlive = keepAliveIdle
	if o.Mode == Sentinel {
		option.Sentinel = rueidis.SentinelOption{
			MasterSet: o.Master, Username: o.SentinelUsername, Password: string(o.SentinelPassword), TLSConfig: o.TLS,
		}
	}
	return option
}

// Validate reports why [Open] would reject the options, without connecting.
func (o Options) Validate() error { return o.validate() }

// validate also sets the defaults.
func (o *Options) validate() error {
	errs := o.validateServers()
	if o.KeyPrefix == "" {
		o.KeyPrefix = "pen:"
	}
	if len(o.KeyPrefix) > 64 {
		errs = append(errs, fmt.Errorf("key prefix of %d bytes: at most 64", len(o.KeyPrefix)))
	}
	for _, r := range o.KeyPrefix {
		if r == '{' || r == '}' || r <= ' ' || r == 0x7f {
			errs = append(errs, fmt.Errorf("key prefix %q: must not contain %q: braces choose the slot", o.KeyPrefix, r))
			break
		}
	}
	if o.Timeout == 0 {
		o.Timeout = time.Second
	}
	if o.Timeout < 0 {
		errs = append(errs, fmt.Errorf("timeout %v: must be positive", o.Timeout))
	}
	if o.ConnectTimeout == 0 {
		o.ConnectTimeout = max(time.Second, o.Timeout)
	}
	if o.ConnectTimeout < 0 {
		errs = append(errs, fmt.Errorf("connect timeout %v: must be positive", o.ConnectTimeout))
	}
	if len(errs) > 0 {
		return fmt.Errorf("%w redis options: %w", algorithm.ErrInvalid, errors.Join(errs...))
	}
	return nil
}

// validateServers checks which servers to use. It sets the default mode.
func (o *Options) validateServers() (errs []error) {
	if len(o.Addresses) == 0 {
		errs = append(errs, errors.New("addresses: none given, for example 127.0.0.1:6379"))
	}
	for i, a := range o.Addresses {
		if err := o.validateAddress(a); err != nil {
			errs = append(errs, fmt.Errorf("addresses[%d]: %w", i, err))
		}
	}
	switch o.Mode {
	case "":
		o.Mode = Single
	case Single, Cluster:
	case Sentinel:
		if o.Master == "" {
			errs = append(errs, errors.New("master: sentinel mode needs the master's name"))
		}
	default:
		errs = append(errs, fmt.Errorf("mode %q: must be single, sentinel or cluster", o.Mode))
	}
	if o.Mode == Single && len(o.Addresses) > 1 {
		errs = append(errs, fmt.Errorf("%d addresses: single mode takes one; for several choose sentinel or cluster", len(o.Addresses)))
	}
	if o.Mode != Sentinel && o.Master != "" {
		errs = append(errs, fmt.Errorf("master %q: is only for sentinel mode", o.Master))
	}
	return errs
}

// validateAddress does not repeat the address, because it may contain a password.
func (o *Options) validateAddress(address string) error {
	if network, path := networkOf(address); network == "unix" {
		if !strings.HasPrefix(path, "/") || o.TLS != nil || o.Mode == Sentinel || o.Mode == Cluster {
			return errors.New("a Unix socket must have an absolute path, and goes with single mode without TLS")
		}
		return nil
	}
	if _, _, err := net.SplitHostPort(address); err != nil || strings.Contains(address, "@") {
		return errors.New("must be host:port, without user or password")
	}
	return nil
}
