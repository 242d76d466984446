package listener

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// TLS names the files that secure connections.
type TLS struct {
	Certificate string // PEM files
	Key         string

	// ClientCA verifies client certificates; "": clients are not asked for one. A certificate that a client presents
	// must be valid. Required refuses clients without one.
	ClientCA string
	Required bool

	// ClientNames are the names that client certificates may have, as DNS name, IP address or URI; none: any name.
	// They require Required.
	ClientNames []string

	Protocols []string // protocols of the server (ALPN); default HTTP/2 and HTTP/1.1
}

// Certificates are the current TLS files. The files are checked when a client connects, at most once per interval. If
// new files are invalid, or clients would refuse the new certificate, the previous one stays in use.
type Certificates struct {
	files    TLS
	log      *slog.Logger
	interval time.Duration

	mu       sync.Mutex
	checked  time.Time
	state    [3]fileState // of the files when they were last read
	config   *tls.Config
	retry    time.Time // when a certificate that was refused becomes valid; zero: never
	refusals int64
	reloads  int64
}

// A fileState changes when a file is changed or replaced.
type fileState struct {
	modified time.Time
	size     int64
}

// NewCertificates reads the files.
func NewCertificates(files TLS, log *slog.Logger) (*Certificates, error) {
	c := &Certificates{files: files, log: log, interval: time.Second, checked: time.Now()}
	if files.Required && files.ClientCA == "" {
		return nil, errors.New("client certificates are required, but there is no client CA to verify them with")
	}
	if len(files.ClientNames) > 0 && !files.Required {
		return nil, errors.New("client names are given, but clients without a certificate are not refused")
	}
	if files.Protocols == nil {
		c.files.Protocols = []string{"h2", "http/1.1"}
	}
	c.state = c.stat()
	var err error
	c.config, err = c.read()
	return c, err
}

// Config returns a configuration with which every handshake uses the current certificate.
func (c *Certificates) Config() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: c.files.Protocols,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return c.current(), nil },
	}
}

// Status is the state of the certificates, for operators.
type Status struct {
	NotBefore time.Time // when the certificate in use becomes valid
	NotAfter  time.Time // when it expires
	Reloads   int64     // changes of the files that were accepted
	Refusals  int64     // changes of the files that were refused
}

// Status also checks the files, so that a broken certificate shows before the next client connects.
func (c *Certificates) Status() Status {
	config := c.current()
	c.mu.Lock()
	defer c.mu.Unlock()
	leaf := config.Certificates[0].Leaf
	return Status{NotBefore: leaf.NotBefore, NotAfter: leaf.NotAfter, Reloads: c.reloads, Refusals: c.refusals}
}

// current returns the configuration for the current files.
func (c *Certificates) current() *tls.Config {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if now.Sub(c.checked) < c.interval {
		return c.config
	}
	c.checked = now
	state := c.stat()
	if state == c.state && (c.retry.IsZero() || now.Before(c.retry)) {
		return c.config
	}
	c.state, c.retry = state, time.Time{} // before reading: later changes are read again
	config, err := c.read()
	if err == nil {
		next := config.Certificates[0].Leaf
		if err = worse(next, c.config.Certificates[0].Leaf, now); err != nil && now.Before(next.NotBefore) {
			c.retry = next.NotBefore
		}
	}
	if err != nil {
		c.refusals++
		c.log.Error("changed TLS files refused, the old certificate stays in use", "error", err)
		return c.config
	}
	c.reloads++
	c.log.Info("TLS files reloaded", "not_after", config.Certificates[0].Leaf.NotAfter)
	c.config = config
	return config
}

// worse returns why a certificate must not replace the one in use: clients would refuse it. It returns nil if it may.
// What the one in use lacks too is not asked of the next one.
func worse(next, current *x509.Certificate, now time.Time) error {
	if now.Before(current.NotAfter) && !now.Before(current.NotBefore) {
		if !now.Before(next.NotAfter) {
			return fmt.Errorf("it expired at %s, and the one in use is valid until %s", next.NotAfter.Format(time.RFC3339), current.NotAfter.Format(time.RFC3339))
		}
		if now.Before(next.NotBefore) {
			return fmt.Errorf("it is not valid before %s; it is used from then on", next.NotBefore.Format(time.RFC3339))
		}
	}
	names := slices.Clone(current.DNSNames)
	for _, ip := range current.IPAddresses {
		names = append(names, ip.String())
	}
	var missing []string
	for _, name := range names {
		if !slices.Contains(next.DNSNames, name) && (strings.HasPrefix(name, "*.") || next.VerifyHostname(name) != nil) {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("it is not for %s, as the one in use is; restart to serve fewer names", strings.Join(missing, ", "))
	}
	return nil
}

func (c *Certificates) stat() (state [3]fileState) {
	for i, name := range []string{c.files.Certificate, c.files.Key, c.files.ClientCA} {
		if info, err := os.Stat(name); err == nil {
			state[i] = fileState{info.ModTime(), info.Size()}
		}
	}
	return state
}

func (c *Certificates) read() (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(c.files.Certificate, c.files.Key)
	if err != nil {
		return nil, fmt.Errorf("read certificate %s and key %s: %w", c.files.Certificate, c.files.Key, err)
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, NextProtos: c.files.Protocols}
	if c.files.ClientCA == "" {
		return config, nil
	}
	if config.ClientCAs, err = ReadRoots(c.files.ClientCA); err != nil {
		return nil, err
	}
	config.SessionTicketsDisabled = true // otherwise a client whose CA was removed could resume a session
	config.ClientAuth = tls.VerifyClientCertIfGiven
	if c.files.Required {
		config.ClientAuth = tls.RequireAndVerifyClientCert
	}
	if len(c.files.ClientNames) > 0 {
		config.VerifyConnection = c.verifyName
	}
	return config, nil
}

// verifyName refuses client certificates whose names are not allowed.
func (c *Certificates) verifyName(s tls.ConnectionState) error {
	shown := s.PeerCertificates[0] // required, so there is one
	for _, name := range c.files.ClientNames {
		if shown.VerifyHostname(name) == nil {
			return nil
		}
		for _, u := range shown.URIs {
			if u.String() == name {
				return nil
			}
		}
	}
	return fmt.Errorf("the client certificate of %.128q has none of the names %s", shown.Subject.CommonName, strings.Join(c.files.ClientNames, ", "))
}

// ReadRoots reads the CA certificates in a PEM file. Without a file it returns nil, which means those of the system.
func ReadRoots(file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil
	}
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read CA certificates: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("read CA certificates: %s has none in PEM", file)
	}
	return pool, nil
}
