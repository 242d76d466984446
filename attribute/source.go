package attribute

import "github.com/penstock-io/penstock/internal/enum"

// A Source says which part of a request an attribute comes from. Exactly one field is set, beside Default and
// OnUnreadable. APIs and listeners read requests by it. A request without that part does not have the attribute; one
// that has it twice is rejected.
type Source struct {
	Attribute string

	Header string
	Cookie string
	Query  string // a query parameter
	Claim  string // of a verified token; a.b is b within a

	Certificate CertificatePart // of the verified TLS certificate of the client

	// JSON is a field of a JSON body; a.b is b within a. A request whose body does not have the field has Default.
	// OnUnreadable says what becomes of one whose body has it in a form that cannot be read: a client must not escape
	// a rule by sending a body that only the upstream server can read.
	JSON         string
	Default      string
	OnUnreadable OnUnreadable
}

// OnUnreadable says what happens to a request whose body cannot be read for an attribute that a rule needs.
type OnUnreadable uint8

const (
	DenyUnreadable    OnUnreadable = iota // it is denied, if the rule enforces its limits
	DefaultUnreadable                     // it has the default
)

var onUnreadableNames = [...]string{"deny", "default"}

func (o OnUnreadable) String() string { return enum.Name(onUnreadableNames[:], o, "OnUnreadable") }

// UnmarshalText reads what String writes.
func (o *OnUnreadable) UnmarshalText(text []byte) error {
	return enum.Parse(o, onUnreadableNames[:], text, "on_unreadable")
}

func (o OnUnreadable) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// A CertificatePart is a part that identifies the holder of a certificate.
type CertificatePart uint8

const (
	NoCertificate CertificatePart = iota
	CommonName                    // of the subject
	DNSName                       // the first alternative name of this kind
	Email
	URI         // as in SPIFFE
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

// A Checker is a penstock.Decider that knows which attributes it reads. Middleware checks them at
// construction: a rule that reads an attribute that is never present would silently match nothing.
type Checker interface {
	// CheckAttributes calls check for every attribute that decides requests of the domain, with the source
	// that the rules name for it, or nil. It returns the errors of check, each with its rule. If there are
	// none, rules loaded later must pass the same check to be served.
	CheckAttributes(domain string, check func(attribute string, from *Source) error) error
}
