package rules

import (
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/attribute"
	"github.com/penstock-io/penstock/internal/ipform"
	"github.com/penstock-io/penstock/internal/spelling"
	"github.com/penstock-io/penstock/internal/urlform"
	"github.com/penstock-io/penstock/rules/internal/expr"
	"github.com/penstock-io/penstock/rules/internal/pattern"
)

// normalForm reports a value that no request can have, because requests have the attribute in a normal form. The rule
// would silently match nothing. domain is that of the rule, or "" for lists.
//
// In another domain than the default, the host may come from Envoy or a client of the decision API as it is, so a value
// in another form is only a warning.
func (c *compiler) normalForm(name string, p pattern.Value, at path, domain string) {
	overHTTP := domain == "" || domain == penstock.DefaultDomain
	switch name {
	case "host":
		if problem := checkHost(p); problem != nil && overHTTP {
			c.fail(at, problem)
		} else if problem != nil {
			c.warn(at, problem)
		}
	case "method":
		if overHTTP {
			c.method(p.Text, p.Wild, at)
		}
	case "ip":
		if problem := checkAddress(p); problem != nil {
			c.fail(at, problem)
		}
		if overHTTP && p.Network.IsValid() && !ipform.HasClients(p.Network) {
			c.warn(at, complain("over HTTP it never matches unless client_ip.ipv6_prefix is larger: ip is the first address of the client's /%d", ipform.ClientBits).
				suggest("write %v", ipform.Network(p.Network.Addr(), ipform.ClientBits)))
		}
	}
	c.sourceForm(name, p, at)
}

// sourceForm is normalForm for an attribute by where it comes from.
func (c *compiler) sourceForm(name string, p pattern.Value, at path) {
	from := c.doc.Attributes[name]
	if problem := checkSpaces(p.Text, from.Cookie != ""); problem != nil {
		c.warn(at, problem)
	}
	if from.Certificate == attribute.Fingerprint {
		if normal := strings.ToLower(strings.ReplaceAll(p.Text, ":", "")); normal != p.Text {
			c.fail(at, complain("fingerprints are written in lower case, without colons").suggest("did you mean %.80s?", normal))
		}
	}
}

// checkSpaces returns why no value is equal to a text with spaces. Package onevalue defines the form of values.
func checkSpaces(text string, ofCookie bool) *valueProblem {
	if trimmed := strings.Trim(text, " \t"); trimmed != text {
		return complain("%.64q never matches: values have no spaces around them", text).suggest("did you mean %.64q?", trimmed)
	}
	if ofCookie && strings.Contains(text, " ") {
		return complain("%.64q never matches: a space in a cookie is read as +", text).suggest("did you mean %.64q?", strings.ReplaceAll(text, " ", "+"))
	}
	return nil
}

// checkHost returns what is wrong with a pattern for hosts. urlform.Host defines the form in which requests have them.
func checkHost(p pattern.Value) *valueProblem {
	if p.Network.IsValid() {
		return nil // compared as an address, in any form
	}
	normal, ok := normalHost(p.Text)
	switch {
	case ok && normal == p.Text:
		return nil
	case ok:
		return complain("hosts are written in lower case, without scheme, port, path, brackets or trailing dot").suggest("did you mean %.253s?", normal)
	case strings.ContainsFunc(p.Text, func(r rune) bool { return r >= utf8.RuneSelf }):
		return complain("%.64q is not ASCII, as hosts of requests always are", p.Text).suggest("write internationalised names in Punycode, as in xn--bcher-kva.example")
	}
	return complain("%.64q cannot be a host", p.Text).suggest("as in api.example.com, *.example.com or 192.0.2.1")
}

var (
	hostPattern  = regexp.MustCompile(`^[a-z0-9_*-]+(\.[a-z0-9_*-]+)*$`)
	groupPattern = regexp.MustCompile(`^[0-9a-f:.*]*:[0-9a-f:.*]*$`) // of IPv6 addresses
)

// normalHost returns the pattern for hosts that a text probably means, in normal form. ok is false if there is none.
func normalHost(text string) (normal string, ok bool) {
	if _, after, ok := strings.Cut(text, "://"); ok {
		text = after
	}
	if end := strings.IndexAny(text, "/?#"); end >= 0 {
		text = text[:end]
	}
	text = text[strings.LastIndexByte(text, '@')+1:]
	if strings.HasPrefix(text, ".") {
		text = "*" + text // nginx and cookies mean the subdomains
	}
	if !strings.Contains(text, "*") {
		host, err := urlform.Host(text)
		return host, err == nil
	}
	text = strings.ToLower(text)
	if inner, ok := strings.CutPrefix(text, "["); ok {
		text, _, _ = strings.Cut(inner, "]")
		return text, groupPattern.MatchString(text)
	}
	if name, port, ok := strings.Cut(text, ":"); ok && (isDigits(port) || !groupPattern.MatchString(text)) {
		text = name
	}
	text = strings.TrimSuffix(text, ".")
	return text, hostPattern.MatchString(text) || groupPattern.MatchString(text)
}

func isDigits(text string) bool { return text != "" && strings.Trim(text, "0123456789") == "" }

var (
	addressPattern = regexp.MustCompile(`^[0-9a-f:.*]+$`)
	leadingZeros   = regexp.MustCompile(`(^|:)0+([0-9a-f])`)
)

// checkAddress returns what is wrong with a pattern with wildcards for addresses. Those without are compared as
// networks.
func checkAddress(p pattern.Value) *valueProblem {
	if !p.Wild {
		return nil
	}
	normal := strings.ToLower(p.Text)
	if strings.Contains(normal, ":") {
		normal = leadingZeros.ReplaceAllString(normal, "$1$2")
	}
	switch {
	case !addressPattern.MatchString(normal):
		return complain("invalid address %.64q", p.Text).suggest("as in 192.0.2.1 or 192.0.2.0/24")
	case normal != p.Text:
		return complain("addresses are written in lower case, without leading zeros").suggest("did you mean %s?", normal)
	}
	return nil
}

// checkPathPattern returns what is wrong with a value of the attribute path: paths of requests are normalised.
// Values without a wildcard are normalised, too.
func checkPathPattern(text string) *valueProblem {
	if strings.ContainsAny(text, "?#") {
		return complain("%.64q never matches: a path ends before ? and #", text).suggest("leave out the query")
	}
	if !strings.Contains(text, "*") {
		return nil
	}
	normal := urlform.Path("/" + strings.TrimPrefix(text, "/"))
	switch {
	case strings.HasPrefix(text, "*"):
		normal = normal[1:] // the wildcard matches the slash
	case !strings.HasPrefix(text, "/"):
		return complain("%.64q never matches: paths begin with a slash", text).suggest("did you mean %.64s?", normal)
	}
	if normal == text {
		return nil
	}
	return complain("%.64q never matches: paths are normalised", text).suggest("did you mean %.64s?", normal)
}

// knownMethods are the registered HTTP methods, and some that are not registered and in use: those of caches (PURGE,
// BAN) and UPnP.
var knownMethods = []string{
	"ACL", "BASELINE-CONTROL", "BIND", "CHECKIN", "CHECKOUT", "CONNECT", "COPY", "DELETE", "GET", "HEAD", "LABEL", "LINK",
	"LOCK", "MERGE", "MKACTIVITY", "MKCALENDAR", "MKCOL", "MKREDIRECTREF", "MKWORKSPACE", "MOVE", "OPTIONS", "ORDERPATCH",
	"PATCH", "POST", "PRI", "PROPFIND", "PROPPATCH", "PUT", "QUERY", "REBIND", "REPORT", "SEARCH", "TRACE", "UNBIND",
	"UNCHECKOUT", "UNLINK", "UNLOCK", "UPDATE", "UPDATEREDIRECTREF", "VERSION-CONTROL",
	"BAN", "M-SEARCH", "NOTIFY", "PURGE", "SUBSCRIBE", "UNSUBSCRIBE",
}

// method reports a text that is not the name of a method, and warns about one that is probably misspelt.
func (c *compiler) method(text string, wild bool, at path) {
	upper := strings.ToUpper(text)
	switch {
	case !wild && !methodName.MatchString(upper):
		c.fail(at, complain("%.40q is not an HTTP method", text))
	case upper != text:
		c.fail(at, complain("methods are written in upper case").suggest("did you mean %s?", upper))
	case wild || slices.Contains(knownMethods, text):
	default:
		unknown := complain("%s is not a registered HTTP method", text)
		if c.unknownMethods++; c.unknownMethods <= maxSuggestions {
			if meant := spelling.Closest(text, knownMethods); meant != "" {
				unknown.suggest("did you mean %s?", meant)
			}
		}
		c.warn(at, unknown)
	}
}

var (
	// comparedHost matches a comparison of the host in an expression: with a text, a list of texts, or a part.
	comparedHost = regexp.MustCompile(`\bhost\s*(?:(?:==|!=|in)\s*|\.(startsWith|endsWith|contains)\(\s*)(\[[^\]]*\]|"[^"\\]*"|'[^'\\]*')`)
	literalText  = regexp.MustCompile(`"[^"\\]*"|'[^'\\]*'`)
)

// comparedHosts warns about an expression that compares the host with a text that no host of a request has.
func (c *compiler) comparedHosts(when *expr.Expression, at path) {
	if when == nil || !slices.Contains(when.Reads, "host") {
		return
	}
	for _, found := range comparedHost.FindAllStringSubmatch(when.Text, -1) {
		for _, literal := range literalText.FindAllString(found[2], -1) {
			text := literal[1 : len(literal)-1]
			normal, ok := comparableHost(text, found[1])
			if text == "" || ok && normal == text { // a request may lack the host
				continue
			}
			problem := complain("the host is compared with %.64s, which no request has", literal)
			if ok && !strings.Contains(normal, "*") {
				problem.suggest("did you mean %.253s?", normal)
			} else {
				problem.suggest("hosts are in lower case, without scheme, port, path, brackets or trailing dot")
			}
			c.warn(at, problem)
		}
	}
}

// comparableHost is normalHost for a text in an expression, which is compared as a whole or by the function.
func comparableHost(text, function string) (normal string, ok bool) {
	before, after := "", ""
	switch function {
	case "":
		if address, err := netip.ParseAddr(text); err == nil {
			return address.String(), true
		}
	case "startsWith":
		after = "*"
	case "endsWith":
		before = "*"
	default:
		before, after = "*", "*"
	}
	normal, ok = normalHost(before + text + after)
	return strings.TrimSuffix(strings.TrimPrefix(normal, before), after), ok
}
