package doctor

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/penstock-io/penstock/internal/admin"
	"github.com/penstock-io/penstock/internal/certtest"
	"github.com/penstock-io/penstock/internal/config"
)

// judged returns what the doctor says of a running server with that status.
func judged(now admin.Status) string {
	d := &doctor{Options: Options{Config: &config.Config{}}}
	now.Ready, now.Store.Connected = true, true
	d.judgeRunning(&now, nil)
	var out bytes.Buffer
	d.Print(&out, false)
	return out.String()
}

// The doctor tells what a running server knows of its store: all checks of Redis may be good after it lost everything.
func TestRunningServerHasLostData(t *testing.T) {
	if text := judged(admin.Status{}); strings.Contains(text, "data lost") {
		t.Errorf("without a loss: %s", text)
	}
	last := time.Date(2026, 1, 31, 3, 0, 0, 0, time.UTC)
	text := judged(admin.Status{Store: admin.StoreStatus{Losses: &admin.LossStatus{Times: 1, Last: last}}})
	if !strings.Contains(text, "! data lost") || !strings.Contains(text, "2026-01-31T03:00:00Z") {
		t.Errorf("after a loss: %s", text)
	}
}

// The server may serve an old certificate although the file is new: it refuses those that clients would refuse.
func TestRunningServerHasAnOldCertificate(t *testing.T) {
	now := time.Now()
	one := admin.CertificateStatus{Listener: "grpc", NotBefore: now.Add(-90 * 24 * time.Hour), NotAfter: now.Add(30 * 24 * time.Hour)}
	if text := judged(admin.Status{Certificates: []admin.CertificateStatus{one}}); strings.Contains(text, "certificate") {
		t.Errorf("with 30 days left: %s", text)
	}
	one.NotAfter = now.Add(3*24*time.Hour + time.Hour)
	if text := judged(admin.Status{Certificates: []admin.CertificateStatus{one}}); !strings.Contains(text, "certificate of grpc expires in 3 days") {
		t.Errorf("with 3 days left: %s", text)
	}
}

// The doctor and serve --check read the files of all listeners.
func TestCertificates(t *testing.T) {
	pair := certtest.NewAuthority(t).Issue(t, "localhost")
	c := &config.Config{}
	c.Listen.GRPC, c.GRPC.TLS = "127.0.0.1:0", config.ServerTLS{Certificate: pair.Certificate, Key: pair.Key}
	c.Gateway.TLS = config.ServerTLS{Certificate: "unused.pem", Key: "unused.pem"} // nothing listens there
	examined := func() string {
		d := &doctor{Options: Options{Config: c}}
		d.examineCertificates()
		var out bytes.Buffer
		d.Print(&out, false)
		return out.String()
	}
	if text := examined(); !strings.Contains(text, "✓ certificates") || !strings.Contains(text, "of grpc: expires in 23h") {
		t.Error(text)
	}
	r := &Rehearsal{}
	r.rehearseCertificates(c, time.Now())
	if len(r.Certificates) != 1 || r.Certificates[0].Listener != "grpc" || len(r.Warnings) != 0 {
		t.Errorf("%+v", r)
	}
	r.rehearseCertificates(c, time.Now().Add(20*time.Hour))
	if len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "certificate of grpc expires in 3h") {
		t.Errorf("%q", r.Warnings)
	}
	c.GRPC.TLS.Key = "missing.pem"
	if text := examined(); !strings.Contains(text, "✗ certificates") || !strings.Contains(text, "missing.pem") {
		t.Error(text)
	}
}

// A server whose memory is full denies clients because of others.
func TestRunningServerIsFull(t *testing.T) {
	if text := judged(admin.Status{}); strings.Contains(text, "memory") {
		t.Errorf("with room: %s", text)
	}
	if text := judged(admin.Status{Store: admin.StoreStatus{SharedCounters: 7}}); !strings.Contains(text, "! memory") || !strings.Contains(text, "share 7 counters") {
		t.Errorf("full: %s", text)
	}
}
