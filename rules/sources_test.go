package rules

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/penstock-io/penstock"
)

func TestSources(t *testing.T) {
	s := snapshotOf(t, `
attributes:
  user: {header: X-User-ID}
  device: {cookie: device_id}
  page: {query: "filter[page]"}
  plan: {claim: account.plan}
  c1: {certificate: common_name}
  c2: {certificate: dns_name}
  c3: {certificate: email}
  c4: {certificate: uri}
  c5: {certificate: fingerprint}
rules: []`)
	want := []penstock.Source{ // by name
		{Attribute: "c1", Certificate: penstock.CommonName},
		{Attribute: "c2", Certificate: penstock.DNSName},
		{Attribute: "c3", Certificate: penstock.Email},
		{Attribute: "c4", Certificate: penstock.URI},
		{Attribute: "c5", Certificate: penstock.Fingerprint},
		{Attribute: "device", Cookie: "device_id"},
		{Attribute: "page", Query: "filter[page]"},
		{Attribute: "plan", Claim: "account.plan"},
		{Attribute: "user", Header: "X-User-ID"},
	}
	if diff := cmp.Diff(want, s.Sources); diff != "" {
		t.Error(diff)
	}
}
