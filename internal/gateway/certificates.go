package gateway

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// certificates are the TLS files as they are now. They are looked at when a client comes, not more
// often than every interval.
type certificates struct {
	files    TLS
	log      *slog.Logger
	interval time.Duration

	mu     sync.Mutex
	looked time.Time
	state  [3]fileState // of the files when they were last read
	config *tls.Config
}

// A fileState differs if a file was changed, or another was put in its place.
type fileState struct {
	modified time.Time
	size     int64
}

func newCertificates(files TLS, log *slog.Logger) (*certificates, error) {
	c := &certificates{files: files, log: log, interval: time.Second, looked: time.Now()}
	if files.Required && files.ClientCA == "" {
		return nil, errors.New("tls: certificates of clients are required, but there is no ClientCA to verify them with")
	}
	c.state = c.look()
	var err error
	c.config, err = c.read()
	return c, err
}

// forClient returns what to shake hands with.
func (c *certificates) forClient(*tls.ClientHelloInfo) (*tls.Config, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if now.Sub(c.looked) < c.interval {
		return c.config, nil
	}
	c.looked = now
	state := c.look()
	if state == c.state {
		return c.config, nil
	}
	c.state = state // before reading: what changes meanwhile is read again
	config, err := c.read()
	if err != nil {
		c.log.Error("changed TLS files cannot be used; those read before still are", "error", err)
		return c.config, nil
	}
	c.log.Info("TLS files read again")
	c.config = config
	return config, nil
}

func (c *certificates) look() (state [3]fileState) {
	for i, name := range []string{c.files.Certificate, c.files.Key, c.files.ClientCA} {
		if info, err := os.Stat(name); err == nil {
			state[i] = fileState{info.ModTime(), info.Size()}
		}
	}
	return state
}

func (c *certificates) read() (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(c.files.Certificate, c.files.Key)
	if err != nil {
		return nil, fmt.Errorf("tls: read certificate and key: %w", err)
	}
	config := &tls.Config{
		MinVersion:   tls.VersionTLS12,
		Certificates: []tls.Certificate{pair},
		NextProtos:   []string{"h2", "http/1.1"},
	}
	if c.files.ClientCA == "" {
		return config, nil
	}
	if config.ClientCAs, err = readRoots(c.files.ClientCA); err != nil {
		return nil, fmt.Errorf("tls: %w", err)
	}
	config.ClientAuth = tls.VerifyClientCertIfGiven
	if c.files.Required {
		config.ClientAuth = tls.RequireAndVerifyClientCert
	}
	return config, nil
}
