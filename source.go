package penstock

import "github.com/penstock-io/penstock/internal/enum"

// A Source says which part of a request an attribute is: exactly one of these is given. Doors read
// requests by it. A request without that part has no such attribute; one that has it twice is refused.
type Source struct {
	Attribute string

	Header string
	Cookie string
	Query  string // a parameter of the query
	Claim  string // of a verified token; a.b is b within a

	Certificate CertificatePart // of the verified TLS certificate of the client
}

// A CertificatePart is what identifies the holder of a certificate.
type CertificatePart uint8

const (
	NoCertificate CertificatePart = iota
	CommonName                    // of the subject
	DNSName                       // the first alternative name of the kind
	Email
	URI         // as SPIFFE has them
	Fingerprint // SHA-256 of the whole certificate, in hex
)

var certificatePartNames = [...]string{"none", "common_name", "dns_name", "email", "uri", "fingerprint"}

func (p CertificatePart) String() string {
	return enum.Name(certificatePartNames[:], p, "CertificatePart")
}

// UnmarshalText reads what String writes.
func (p *CertificatePart) UnmarshalText(text []byte) error {
	return enum.Parse(p, certificatePartNames[:], text, "certificate part")
}

func (p CertificatePart) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// An AttributeChecker is a [Decider] that knows which attributes it reads. Middleware asks it at
// construction: a rule that reads an attribute which is never there would silently match nothing.
type AttributeChecker interface {
	// CheckAttributes calls check for every attribute by which calls of the domain are decided, with the
	// source that the rules name for it, or nil. It returns the errors of check, each with the rule it is
	// about. If there are none, rules that are loaded later must pass the same check to be served.
	CheckAttributes(domain string, check func(attribute string, from *Source) error) error
}
