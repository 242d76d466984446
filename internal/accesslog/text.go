package accesslog

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Field names that all formats share.
const (
	fieldTime     = "time"
	fieldDuration = "duration"
	fieldIP       = "ip"
	fieldMethod   = "method"
	fieldHost     = "host"
	fieldPath     = "path"
	fieldQuery    = "query"
	fieldUser     = "user"
	fieldStatus   = "status"
	fieldBytes    = "bytes"
	fieldAgent    = "user_agent"
	fieldReferer  = "referer"
)

var errRequestLine = errors.New("the request line is not a method and a target")

// splitRequest reads a request line: GET /search?q=1 HTTP/1.1.
func splitRequest(line string) (method, host, path, query string, err error) {
	method, target, ok := strings.Cut(line, " ")
	if i := strings.LastIndex(target, " HTTP/"); i >= 0 {
		target = target[:i]
	}
	if !ok || target == "" || !isToken(method) {
		return "", "", "", "", errRequestLine
	}
	host, path, query = splitTarget(target)
	return method, host, path, query, nil
}

func isToken(s string) bool {
	for i := range len(s) {
		if c := s[i]; c|0x20 < 'a' || c|0x20 > 'z' {
			return false
		}
	}
	return s != "" && len(s) <= 32
}

// splitTarget splits a request's target into host, if it has one, path and query.
func splitTarget(target string) (host, path, query string) {
	if _, rest, ok := strings.Cut(target, "://"); ok && !strings.HasPrefix(target, "/") {
		i := strings.IndexByte(rest, '/')
		if i < 0 {
			i = len(rest)
		}
		host, target = rest[:i], rest[i:]
	}
	path, query, _ = strings.Cut(target, "?")
	return host, cmp.Or(path, "/"), query
}

// nextToken returns the text before the next space, or inside quotes or brackets, and the rest.
func nextToken(s string) (token, rest string, ok bool) {
	s = strings.TrimLeft(s, " ")
	if s == "" {
		return "", "", false
	}
	switch s[0] {
	case '"':
		for i := 1; i < len(s); i++ {
			switch s[i] {
			case '\\':
				i++
			case '"':
				return unescape(s[1:i]), s[i+1:], true
			}
		}
		return "", "", false
	case '[':
		return strings.Cut(s[1:], "]")
	}
	token, rest, _ = strings.Cut(s, " ")
	return token, rest, true
}

// unescape reverses the escaping by nginx (\x22) and Apache (\") of quotes, control characters and backslashes.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] != '\\' || i+1 == len(s):
			b.WriteByte(s[i])
		case s[i+1] == 'x' && i+3 < len(s):
			if c, err := strconv.ParseUint(s[i+2:i+4], 16, 8); err == nil {
				b.WriteByte(byte(c))
			}
			i += 3
		default:
			i++
			b.WriteByte(s[i])
		}
	}
	return b.String()
}

var combinedFields = []string{fieldIP, fieldUser, fieldMethod, fieldPath, fieldQuery, fieldHost, fieldStatus, fieldBytes, fieldReferer, fieldAgent}

// A combinedParser reads
//
//	198.51.100.7 - ann [16/Nov/2026:09:12:01 +0000] "GET /search?q=1 HTTP/1.1" 200 512 "-" "curl/8"
//
// with a virtual host before it, without referer and agent, or with more after them.
type combinedParser struct {
	text string // the last time and its parsed value: most lines repeat the time of the line before
	at   time.Time
}

func (p *combinedParser) parse(line string, e *entry) error {
	head, rest, ok := strings.Cut(line, " [")
	clock, rest, found := strings.Cut(rest, "] ")
	if !ok || !found {
		return errors.New("no time in brackets")
	}
	if clock != p.text {
		at, err := time.Parse("02/Jan/2006:15:04:05 -0700", clock)
		if err != nil {
			return fmt.Errorf("%.40q is not a time like 16/Nov/2026:09:12:01 +0000", clock)
		}
		p.text, p.at = clock, at
	}
	who := strings.Fields(head)
	if len(who) != 3 && len(who) != 4 {
		return errors.New("the line does not begin with an address, - and a user")
	}
	host := ""
	if len(who) == 4 {
		host, who = who[0], who[1:]
	}
	values, err := combinedRequest(rest)
	if err != nil {
		return err
	}
	values[0], values[1] = who[0], who[2]
	if host != "" {
		values[5] = host
	}
	*e = entry{at: p.at, whole: true, took: -1, fields: fixedFields{combinedFields, values}}
	return nil
}

// combinedRequest reads what follows the time: the request, and its response.
func combinedRequest(rest string) ([]string, error) {
	request, rest, ok := nextToken(rest)
	if !ok {
		return nil, errRequestLine
	}
	method, host, path, query, err := splitRequest(request)
	if err != nil {
		return nil, err
	}
	values := append(make([]string, 0, len(combinedFields)+2), "", "", method, path, query, host)
	for {
		var token string
		if token, rest, ok = nextToken(rest); !ok {
			break
		}
		values = append(values, token)
	}
	if len(values) < 8 || !isStatus(values[6]) {
		return nil, errors.New("no status and size after the request")
	}
	for len(values) < len(combinedFields) { // the common format ends with the size
		values = append(values, "")
	}
	return values, nil
}

func isStatus(s string) bool {
	n, err := strconv.Atoi(s)
	return err == nil && n >= 0 && n < 1000
}

var haproxyFields = []string{fieldIP, fieldMethod, fieldPath, fieldQuery, fieldHost, fieldStatus, fieldBytes, "frontend", "backend"}

// A haproxyParser reads what option httplog writes, with or without what syslog puts before it. Captured
// headers are extra1, extra2, ….
//
//	… 10.0.1.2:33317 [06/Feb/2009:12:14:14.655] http-in static/srv1 10/0/30/69/109 200 2750 - - ---- 1/1/1/1/0 0/0 {1wt.eu} {} "GET /index.html HTTP/1.1"
type haproxyParser struct{ zone *time.Location }

func (p *haproxyParser) parse(line string, e *entry) error {
	head, rest, ok := strings.Cut(line, " [")
	for ok && !strings.Contains(head[strings.LastIndexByte(head, ' ')+1:], ":") {
		var more string
		more, rest, ok = strings.Cut(rest, " [") // a name with brackets, as syslog writes them
		head += " [" + more
	}
	clock, rest, found := strings.Cut(rest, "] ")
	if !ok || !found {
		return errors.New("no address and time in brackets")
	}
	at, err := time.ParseInLocation("02/Jan/2006:15:04:05.000", clock, p.zone)
	if err != nil {
		return fmt.Errorf("%.40q is not a time like 06/Feb/2009:12:14:14.655", clock)
	}
	columns := strings.Fields(rest)
	quote := strings.IndexByte(rest, '"')
	if len(columns) < 10 || quote < 0 {
		return errors.New("too few fields; does the frontend have option httplog?")
	}
	timers := strings.Split(columns[2], "/")
	took, err := strconv.Atoi(strings.TrimPrefix(timers[len(timers)-1], "+"))
	if err != nil || len(timers) != 5 {
		return fmt.Errorf("%.40q are not the five times of a request", columns[2])
	}
	request, _, _ := nextToken(rest[quote:]) // a quote that is not closed leaves nothing
	method, host, path, query, err := splitRequest(request)
	if err != nil {
		return err
	}
	values := []string{hostOnly(head[strings.LastIndexByte(head, ' ')+1:]), method, path, query, host, columns[3], strings.TrimPrefix(columns[4], "+"), strings.TrimSuffix(columns[0], "~"), columns[1]}
	for _, captured := range strings.Split(rest[:quote], "{")[1:] {
		captured, _, _ = strings.Cut(captured, "}")
		values = append(values, strings.Split(captured, "|")...)
	}
	*e = entry{at: at, took: time.Duration(took) * time.Millisecond, fields: fixedFields{haproxyFields, values}}
	return nil
}

// hostOnly removes the port from an address.
func hostOnly(s string) string {
	if strings.HasPrefix(s, "[") {
		s, _, _ = strings.Cut(s[1:], "]")
		return s
	}
	if i := strings.LastIndexByte(s, ':'); i >= 0 && (strings.Count(s, ":") == 1 || strings.Count(s, ":") == 8) {
		return s[:i] // HAProxy writes IPv6 addresses without brackets
	}
	return s
}

var albFields = []string{fieldIP, fieldMethod, fieldPath, fieldQuery, fieldHost, fieldStatus, fieldBytes, fieldAgent, "type", "target", "domain"}

// An albParser reads logs of Application Load Balancers. It uses the time of the request if the log has it.
type albParser struct{}

func (albParser) parse(line string, e *entry) error {
	var t [22]string
	n, rest := 0, line
	for ; n < len(t); n++ {
		token, after, ok := nextToken(rest)
		if !ok {
			break
		}
		t[n], rest = token, after
	}
	if n < 14 {
		return fmt.Errorf("%d fields; a load balancer writes at least 14", n)
	}
	at, _, err := parseTime(t[1], time.UTC)
	if err != nil {
		return err
	}
	took, known := 0.0, true
	for _, part := range t[5:8] {
		s, err := strconv.ParseFloat(part, 64)
		if err != nil {
			return fmt.Errorf("%.20q is not a number of seconds", part)
		}
		took, known = took+s, known && s >= 0
	}
	duration := time.Duration(-1)
	if known {
		duration = time.Duration(took * float64(time.Second))
		at = at.Add(-duration)
	}
	if created, _, err := parseTime(t[21], time.UTC); err == nil {
		at = created
	}
	method, host, path, query, err := splitRequest(t[12])
	if err != nil {
		return err
	}
	*e = entry{at: at, took: duration, fields: fixedFields{albFields, []string{hostOnly(t[3]), method, path, query, host, t[8], t[11], t[13], t[0], t[4], t[18]}}}
	return nil
}
