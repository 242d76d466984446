package doctor

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/penstock-io/penstock/internal/admin"
	"github.com/penstock-io/penstock/internal/config"
	"github.com/penstock-io/penstock/internal/server"
	"github.com/penstock-io/penstock/internal/spelling"
	"github.com/penstock-io/penstock/redisstore"
	"github.com/penstock-io/penstock/rules"
)

// connectTimeout bounds each connection of serve --check --connect.
const connectTimeout = 5 * time.Second

// A Rehearsal is what a start with a configuration would do.
type Rehearsal struct {
	Summary   string
	Warnings  []string
	Unchecked []string // parts that need the network and were not checked

	Certificates []admin.CertificateStatus // of listeners
}

// Rehearse checks everything that a start checks, and returns all errors. It opens no listener and
// changes nothing. It uses the network only if connect is set.
func Rehearse(ctx context.Context, c *config.Config, connect bool) (*Rehearsal, error) {
	upstreams := c.Upstreams // rehearsing a demo adds one
	r := &Rehearsal{}
	snapshot, errs := r.rehearseRules(ctx, c, connect)
	errs = append(errs, rehearseDataDir(c), server.Rehearse(ctx, c, snapshot, connect))
	r.rehearseCertificates(c, time.Now())
	if connect {
		errs = append(errs, connectStore(ctx, c)...)
		errs = append(errs, connectUpstreams(ctx, upstreams)...)
	} else {
		r.Unchecked = remoteParts(c, upstreams)
	}
	return r, errors.Join(errs...)
}

// rehearseCertificates reads how long certificates are valid. server.Rehearse reports those that cannot be read.
func (r *Rehearsal) rehearseCertificates(c *config.Config, now time.Time) {
	r.Certificates, _ = server.Certificates(c)
	for i := range r.Certificates {
		if c := &r.Certificates[i]; c.ExpiresSoon(now) {
			r.Warnings = append(r.Warnings, "certificate of "+c.Listener+" "+c.Text(now))
		}
	}
}

// remoteParts lists what the server reaches over the network.
func remoteParts(c *config.Config, upstreams []config.Upstream) (all []string) {
	if c.HasRedis() {
		all = append(all, "Redis")
	}
	if hasRemoteRules(c) {
		all = append(all, "rules")
	}
	if c.JWT.JWKSURL != "" {
		all = append(all, "JWKS")
	}
	if len(upstreams) > 0 && c.Listen.Gateway != "" {
		all = append(all, "upstreams")
	}
	return all
}

func hasRemoteRules(c *config.Config) bool {
	return c.Rules.Redis || c.Rules.XDS.Server != "" || c.Rules.Database != "" && !strings.HasPrefix(string(c.Rules.Database), "sqlite:")
}

// rehearseRules reads and compiles the rules that a start would serve. They are nil if there are none, or if they are
// not read.
func (r *Rehearsal) rehearseRules(ctx context.Context, c *config.Config, connect bool) (found *rules.Snapshot, errs []error) {
	if hasRemoteRules(c) && !connect {
		r.Summary = "configuration"
		return nil, nil
	}
	d := &doctor{Options: Options{Config: c, Timeout: connectTimeout}}
	_, _, found = d.readRules(ctx)
	for _, f := range d.findings {
		switch f.Level {
		case levelFail:
			errs = append(errs, fmt.Errorf("rules: %s", f.Text))
		case levelWarn:
			if c.Demo && found == nil {
				continue // the start saves the sample rules
			}
			r.Warnings = append(r.Warnings, "rules: "+f.Text)
		}
	}
	n := 0
	if found != nil {
		n = len(found.Rules)
	}
	r.Summary = "configuration and " + spelling.Count(n, "rule")
	return found, errs
}

// rehearseDataDir checks that data_dir, or the directory it would be created in, can be written to,
// and that the secrets kept there can be used.
func rehearseDataDir(c *config.Config) error {
	dir := c.DataDir
	for {
		info, err := os.Stat(dir)
		if err == nil && !info.IsDir() {
			return fmt.Errorf("data_dir: %s is not a directory", dir)
		}
		if parent := filepath.Dir(dir); errors.Is(err, fs.ErrNotExist) && parent != dir {
			dir = parent
			continue
		}
		if err != nil {
			return fmt.Errorf("data_dir: %w", err)
		}
		break
	}
	probe, err := os.CreateTemp(dir, ".penstock-check-*")
	if err != nil {
		return fmt.Errorf("data_dir: %s is not writable: %w", c.DataDir, err)
	}
	defer os.Remove(probe.Name())
	if err := probe.Close(); err != nil {
		return fmt.Errorf("data_dir: %w", err)
	}
	for _, read := range []func() (string, error){c.ReadKeySecret, c.ReadAdminToken} {
		if _, err := read(); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// connectStore makes one decision through Redis.
func connectStore(ctx context.Context, c *config.Config) (errs []error) {
	if !c.HasRedis() {
		return nil
	}
	options, err := c.Store.Redis.Options()
	if err != nil {
		return nil // already reported
	}
	d := &doctor{Options: Options{Config: c, Timeout: connectTimeout}}
	for _, s := range d.findMasters(ctx, identity{options.Username, options.Password, options.TLS}) {
		d.examineVersion(s)
		s.close()
	}
	for _, f := range d.findings {
		if f.Level == levelFail {
			errs = append(errs, fmt.Errorf("store.redis: %s; %s", f.Text, f.Fix))
		}
	}
	if len(errs) > 0 {
		return errs
	}
	options.Timeout, options.ConnectTimeout = connectTimeout, connectTimeout
	store, err := redisstore.Open(options)
	if err == nil {
		defer store.Close()
		_, err = timeDecision(ctx, store)
	}
	if err != nil {
		return []error{fmt.Errorf("store.redis: the decision script fails: %w; see docs/reference/redis.md", err)}
	}
	return nil
}

// connectUpstreams connects to every upstream server.
func connectUpstreams(ctx context.Context, upstreams []config.Upstream) (errs []error) {
	for i, u := range upstreams {
		for _, text := range u.Servers() {
			if err := connectUpstream(ctx, text, u.CA); err != nil {
				errs = append(errs, fmt.Errorf("upstreams[%d]: cannot connect to %s: %w", i, text, err))
			}
		}
	}
	return errs
}

func connectUpstream(ctx context.Context, text, ca string) error {
	to, err := url.Parse(text)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	dial, port := (&net.Dialer{}).DialContext, "80"
	if to.Scheme == "https" {
		secure, err := (&config.ClientTLS{Enabled: true, CA: ca}).Load()
		if err != nil {
			return nil // the gateway has reported it
		}
		dial, port = (&tls.Dialer{Config: secure}).DialContext, "443"
	}
	if to.Port() != "" {
		port = to.Port()
	}
	connection, err := dial(ctx, "tcp", net.JoinHostPort(to.Hostname(), port))
	if err != nil {
		return err
	}
	return connection.Close()
}
