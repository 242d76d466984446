package httplimit

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/textproto"
	"slices"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/attribute"
	"github.com/penstock-io/penstock/internal/onevalue"
)

// readPlan is what the rules read from a request, prepared for reading.
type readPlan struct {
	of     []attribute.Source // as given, to detect a change
	parts  []attribute.Source // each name once, headers in the canonical form of net/http
	claims bool
	body   *bodyPart // nil: the rules read nothing from bodies

	headers []string // of the parts, of request IDs and of the key
}

// alwaysThere are the attributes of every request.
var alwaysThere = []string{"ip", "method", "host", "path"}

func newReadPlan(of []attribute.Source, idHeader string, keyHeaders []string) *readPlan {
	w := &readPlan{of: of, headers: []string{idHeader}}
	names := slices.Clone(alwaysThere)
	for _, s := range of {
		if slices.Contains(names, s.Attribute) {
			continue
		}
		names = append(names, s.Attribute)
		s.Header = textproto.CanonicalMIMEHeaderKey(s.Header)
		w.parts = append(w.parts, s)
		w.claims = w.claims || s.Claim != ""
		if s.Header != "" && s.Header != "Host" {
			w.headers = append(w.headers, s.Header)
		}
	}
	for _, name := range keyHeaders {
		w.headers = append(w.headers, textproto.CanonicalMIMEHeaderKey(name))
	}
	w.body = newBodyPart(w.parts)
	return w
}

// read adds the attributes that the request has. It rejects a request that has one of them twice: the upstream
// server might use a different one than the one that is counted.
func (w *readPlan) read(r *Reader, req *http.Request, c *penstock.Call) error {
	if c.ID != "" || len(w.headers) > 1 {
		if err := onevalue.CheckAliases(req.Header, w.headers...); err != nil {
			return badRequest(err)
		}
	}
	var claims Claims
	if w.claims && r.options.Claims != nil {
		var err error
		if claims, err = r.options.Claims(req); err != nil {
			if bad := (*RequestError)(nil); errors.As(err, &bad) {
				return bad
			}
			return &RequestError{Status: http.StatusUnauthorized, Detail: "the token is not valid", Err: err}
		}
	}
	for i := range w.parts {
		s := &w.parts[i]
		value, ok, err := readSource(s, req, claims)
		if err != nil {
			return err
		}
		if len(value) > MaxValue {
			return tooLong(http.StatusRequestHeaderFieldsTooLarge, nameOf(s), len(value))
		}
		if ok {
			c.Attributes = append(c.Attributes, penstock.Attribute{Name: s.Attribute, Value: value})
		}
	}
	return nil
}

func readSource(s *attribute.Source, req *http.Request, claims Claims) (value string, ok bool, err error) {
	switch {
	case s.Header == "Host": // net/http keeps it elsewhere; normalised, or its spellings would be different keys
		host, err := hostOf(req)
		return host, host != "", err
	case s.Header != "":
		value, ok, err = onevalue.Header(req.Header, s.Header)
	case s.Cookie != "":
		value, ok, err = onevalue.Cookie(req, s.Cookie)
	case s.Query != "":
		value, ok, err = onevalue.Parameter(req.URL.RawQuery, s.Query)
	case s.Claim != "" && claims != nil:
		value, ok = claims.Claim(s.Claim)
	case s.Certificate != attribute.NoCertificate && req.TLS != nil && len(req.TLS.VerifiedChains) > 0:
		value = partOf(req.TLS.VerifiedChains[0][0], s.Certificate)
		ok = value != ""
	}
	if err != nil {
		return "", false, badRequest(err)
	}
	return value, ok, nil
}

// nameOf returns where a value came from.
func nameOf(s *attribute.Source) string {
	switch {
	case s.Header != "":
		return fmt.Sprintf("the header %s (attribute %s)", s.Header, s.Attribute)
	case s.Cookie != "":
		return fmt.Sprintf("the cookie %s (attribute %s)", s.Cookie, s.Attribute)
	case s.Query != "":
		return fmt.Sprintf("the parameter %s (attribute %s)", s.Query, s.Attribute)
	}
	return "the attribute " + s.Attribute
}

// partOf returns a part of the certificate, or "" if it does not have it.
func partOf(c *x509.Certificate, part attribute.CertificatePart) string {
	switch part {
	case attribute.CommonName:
		return c.Subject.CommonName
	case attribute.DNSName:
		return first(c.DNSNames)
	case attribute.Email:
		return first(c.EmailAddresses)
	case attribute.URI:
		if len(c.URIs) > 0 {
			return c.URIs[0].String()
		}
	case attribute.Fingerprint:
		sum := sha256.Sum256(c.Raw)
		return hex.EncodeToString(sum[:])
	}
	return ""
}

func first(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return names[0]
}
