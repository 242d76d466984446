package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/penstock-io/penstock/internal/admin"
)

// The status says how long certificates are valid.
func TestStatusOfCertificates(t *testing.T) {
	now := time.Now()
	s := &nodeStatus{Status: admin.Status{Certificates: []admin.CertificateStatus{{Listener: "grpc", NotBefore: now, NotAfter: now.Add(30*24*time.Hour + time.Hour)}}}}
	var out bytes.Buffer
	if err := (&app{stdout: &out}).tellStatus(s); err != nil || !strings.Contains(out.String(), "grpc expires in 30 days, at ") {
		t.Errorf("%v\n%s", err, out.String())
	}
}
