package penstock

import (
	"slices"
	"testing"

	"github.com/penstock-io/penstock/internal/enum/enumtest"
)

func TestCertificatePartNames(t *testing.T) {
	var names []string
	for p := NoCertificate; p <= Fingerprint; p++ {
		var back CertificatePart = 99
		if enumtest.ReadBack(t, p, &back); back != p {
			t.Errorf("%v reads back as %v", p, back)
		}
		names = append(names, p.String())
	}
	if want := []string{"none", "common_name", "dns_name", "email", "uri", "fingerprint"}; !slices.Equal(names, want) {
		t.Errorf("the names are %q", names)
	}
	var p CertificatePart
	if err := p.UnmarshalText([]byte("serial")); err == nil {
		t.Error("serial is no part")
	}
}
