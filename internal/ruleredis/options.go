package ruleredis

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/redisdial"
	"github.com/penstock-io/penstock/internal/secret"
	"github.com/penstock-io/penstock/internal/urlform"
)

// Options say where Redis is.
type Options struct {
	Addresses []string // host:port of the server, the sentinels, or some nodes of the cluster
	Master    string   // the name Sentinel knows it by; "" without Sentinel
	Cluster   bool

	Username         string
	Password         secret.Text
	SentinelUsername string
	SentinelPassword secret.Text
	TLS              *tls.Config

	KeyPrefix string        // default "pen:"
	Timeout   time.Duration // of one exchange, including the connection; default 5 s
}

// Validate sets the defaults and reports every invalid option.
func (o *Options) Validate() error {
	o.KeyPrefix = cmp.Or(o.KeyPrefix, "pen:")
	o.Timeout = cmp.Or(o.Timeout, 5*time.Second)
	isSingle := o.Master == "" && !o.Cluster
	var errs []error
	require := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	require(len(o.Addresses) > 0, "addresses: none given, for example 127.0.0.1:6379")
	for _, a := range o.Addresses {
		require(isAddress(a, isSingle), "address %q: must be host:port, without user or password", urlform.Redact(a))
	}
	require(len(o.Addresses) <= 1 || !isSingle, "%d addresses: one server has one; for several choose a sentinel's master or a cluster", len(o.Addresses))
	require(o.Master == "" || !o.Cluster, "master %q: a cluster has none", o.Master)
	require(isKeyPrefix(o.KeyPrefix), "key prefix %.80q: must have at most 64 bytes, and no braces, spaces or control characters", o.KeyPrefix)
	require(o.Timeout > 0, "timeout %v: must be positive", o.Timeout)
	if len(errs) > 0 {
		return fmt.Errorf("%w redis options: %w", penstock.ErrInvalid, errors.Join(errs...))
	}
	return nil
}

// isAddress reports whether the text is a valid address of a server. Only a single server can have a Unix
// socket.
func isAddress(address string, isSingle bool) bool {
	if _, isUnix := redisdial.UnixPath(address); isUnix && isSingle {
		return true
	}
	_, _, err := net.SplitHostPort(address)
	return err == nil && !strings.Contains(address, "@")
}

// isKeyPrefix reports whether keys may begin with the text. Braces would determine their slot.
func isKeyPrefix(text string) bool {
	return len(text) <= 64 && !strings.ContainsFunc(text, func(r rune) bool { return r == '{' || r == '}' || r <= ' ' || r == 0x7f })
}

// client returns the options of a client that connects once and sees every error.
func (o *Options) client() rueidis.ClientOption {
	option := rueidis.ClientOption{
		InitAddress:       o.Addresses,
		Username:          o.Username,
		Password:          string(o.Password),
		TLSConfig:         o.TLS,
		ConnWriteTimeout:  o.Timeout,
		ForceSingleClient: o.Master == "" && !o.Cluster,
		DisableRetry:      true, // the reader retries by itself and should see the error
		DisableCache:      true, // it would need more permissions
		ClientSetInfo:     rueidis.DisableClientSetInfo,
		PipelineMultiplex: -1, // one connection is enough
	}
	option.Dialer.Timeout = o.Timeout
	if o.Master != "" {
		option.Sentinel = rueidis.SentinelOption{MasterSet: o.Master, Username: o.SentinelUsername, Password: string(o.SentinelPassword), TLSConfig: o.TLS}
	}
	return option
}
