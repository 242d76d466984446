package doctor

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"syscall"
	"time"

	"github.com/penstock-io/penstock/internal/admin"
	"github.com/penstock-io/penstock/internal/config"
	"github.com/penstock-io/penstock/internal/spelling"
	"github.com/penstock-io/penstock/rules/live"
)

// maxStatus bounds the size of a server's status.
const maxStatus = 1 << 20

// examineRunning asks the server that runs here, if there is one, what it serves. text is what it should serve,
// or nil if unknown.
func (d *doctor) examineRunning(ctx context.Context, text *live.Text) {
	c := d.Config
	if c.Listen.Admin == "" || c.Admin.Token == "" {
		d.unknown("running", "set listen.admin and admin.token",
			"cannot ask the running server: its admin API is off, or its token was generated")
		return
	}
	now, err := d.askStatus(ctx)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		d.ok("running", "no server runs here: nothing listens at %s", c.Listen.Admin)
		return
	case err != nil:
		d.unknown("running", "check which program listens there", "the admin API at %s does not answer: %v", c.Listen.Admin, err)
		return
	}
	d.judgeRunning(now, text)
}

func (d *doctor) judgeRunning(now *admin.Status, text *live.Text) {
	serves := fmt.Sprintf("penstock %s serves version %d of %s, since %s", now.Build.Version, now.Rules.Version, spelling.Count(now.Rules.Rules, "rule"), age(now.Rules.Since))
	switch {
	case now.Rules.Refused != "":
		d.fail("running", "fix the rules: "+validateCommand(&d.Config.Rules)+" lists every error", "%s, and has refused newer ones: %s", serves, now.Rules.Refused)
	case now.Rules.FromCopy || now.Rules.Error != "":
		d.fail("running", "check that it can reach the rules' origin; it retries by itself", "%s, which may be outdated: it cannot read their origin: %s", serves, now.Rules.Error)
	case text != nil && now.Rules.Checksum != text.Checksum():
		d.warn("running", fmt.Sprintf("check again after rules.poll_interval (%v)", d.Config.Rules.PollInterval), "%s; the origin has %s", serves, versionOf(text))
	default:
		d.ok("running", "%s", serves)
	}
	if !now.Ready {
		d.warn("running", "", "the server is not ready: %s", now.NotReady)
	}
	if !now.Store.Connected {
		d.fail("running", "see the checks of the store below", "its store is unavailable, so on_store_error decides: %s", now.Store.Error)
	}
	if n := now.Store.SharedCounters; n > 0 {
		d.warn("memory", "raise store.memory.max_bytes", "the server's memory is full: clients share %s, and some are denied because of others", spelling.Count(int(n), "counter"))
	}
	if lost := now.Store.Losses; lost != nil {
		d.warn("data lost", "look for FLUSHALL, for a failover and for a restart without persistence; docs/reference/redis.md",
			"Redis has lost data, last at %s: counters, bans and reservations started from zero", lost.Last.UTC().Format(time.RFC3339))
	}
	for i := range now.Certificates {
		if c := &now.Certificates[i]; c.ExpiresSoon(time.Now()) {
			d.warn("running", "renew it, or look in the log why the server refused a newer one", "the server's certificate of %s %s", c.Listener, c.Text(time.Now()))
		}
	}
	if this := d.Version; now.Build.Version != this {
		d.warn("running", "docs/how-to/upgrade.md", "its version differs from this program's, %s", this)
	}
}

// askStatus reads the status of the server.
func (d *doctor) askStatus(ctx context.Context) (*admin.Status, error) {
	ctx, cancel := context.WithTimeout(ctx, d.Timeout)
	defer cancel()
	transport := &http.Transport{DisableKeepAlives: true}
	scheme := "http"
	if t := d.Config.Admin.TLS; t.Certificate != "" {
		own, err := tls.LoadX509KeyPair(t.Certificate, t.Key)
		if err != nil {
			return nil, err
		}
		scheme, transport.TLSClientConfig = "https", onlyFrom(own.Certificate[0])
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://"+config.Local(d.Config.Listen.Admin)+"/v1/status", nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+string(d.Config.Admin.Token))
	answer, err := transport.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("it answers %s", answer.Status)
	}
	var now admin.Status
	if err := json.NewDecoder(io.LimitReader(answer.Body, maxStatus)).Decode(&now); err != nil {
		return nil, fmt.Errorf("invalid status: %w", err)
	}
	return &now, nil
}

// onlyFrom trusts the server that has the certificate, whatever its name, because the server may be reached by
// another address.
func onlyFrom(certificate []byte) *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: true, // VerifyPeerCertificate below checks instead
		VerifyPeerCertificate: func(shown [][]byte, _ [][]*x509.Certificate) error {
			if len(shown) == 0 || !bytes.Equal(shown[0], certificate) {
				return errors.New("its certificate is not the one in admin.tls")
			}
			return nil
		},
	}
}
