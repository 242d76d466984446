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

// The status does not call decisions exact that are made by counters of several clients.
func TestStatusOfFullMemory(t *testing.T) {
	s := &nodeStatus{Nodes: []admin.Node{{Self: true, About: &admin.NodeInfo{Quality: "exact"}}}}
	told := func() string {
		var out bytes.Buffer
		if err := (&app{stdout: &out}).tellStatus(s); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	if text := told(); strings.Contains(text, "share") {
		t.Errorf("with room\n%s", text)
	}
	s.Store.SharedCounters = 7
	if text := told(); !strings.Contains(text, "exact, but memory is full: clients share 7 counters") {
		t.Errorf("full\n%s", text)
	}
}
