package accesslog

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/penstock-io/penstock/internal/spelling"
)

// A fieldNames lists the field names that logs use for what every request has. The first one that a line has applies.
type fieldNames struct {
	names map[string][]string
	unit  time.Duration // of a duration without a unit
	ends  bool          // the time is the end of the request

	header string // field name of a request header, with a %s
}

// generic is a guess that covers the JSON that many servers are configured to write.
var generic = &fieldNames{unit: time.Second, header: "headers.%s", names: map[string][]string{
	fieldTime:     {"time", "ts", "timestamp", "@timestamp", "start_time", "time_iso8601", "time_local", "StartUTC", "date"},
	fieldDuration: {"duration", "request_time", "latency", "elapsed"},
	fieldIP:       {"ip", "client_ip", "remote_addr", "remote_ip", "clientip", "ClientHost", "client"},
	fieldMethod:   {"method", "request_method", "verb", "RequestMethod"},
	fieldHost:     {"host", "http_host", "authority", "server_name", "RequestHost"},
	fieldPath:     {"path", "uri", "request_uri", "url", "RequestPath"},
	fieldUser:     {"user", "remote_user", "user_id"},
	fieldStatus:   {"status", "status_code", "response_code"},
	fieldBytes:    {"bytes", "bytes_sent", "body_bytes_sent", "size"},
	fieldAgent:    {"user_agent", "http_user_agent", "agent"},
	fieldReferer:  {"referer", "http_referer"},
}}

var caddy = &fieldNames{unit: time.Second, ends: true, header: "request.headers.%s", names: map[string][]string{
	fieldTime:     {"ts"},
	fieldDuration: {"duration"},
	fieldIP:       {"request.client_ip", "request.remote_ip"},
	fieldMethod:   {"request.method"},
	fieldHost:     {"request.host"},
	fieldPath:     {"request.uri"},
	fieldUser:     {"user_id"},
	fieldStatus:   {"status"},
	fieldBytes:    {"size"},
	fieldAgent:    {"request.headers.User-Agent"},
	fieldReferer:  {"request.headers.Referer"},
}}

var envoy = &fieldNames{unit: time.Millisecond, names: map[string][]string{
	fieldTime:     {"start_time"},
	fieldDuration: {"duration"},
	fieldIP:       {"downstream_remote_address", "downstream_remote_address_without_port"},
	fieldMethod:   {"method", ":method"},
	fieldHost:     {"authority", ":authority"},
	fieldPath:     {"x-envoy-origin-path", "path", ":path"},
	fieldStatus:   {"response_code"},
	fieldBytes:    {"bytes_sent"},
	fieldAgent:    {"user_agent", "user-agent"},
}}

// replay is the log that Penstock writes of its own decisions. It contains attributes in the form that rules
// read.
var replay = &fieldNames{unit: time.Second, names: map[string][]string{
	fieldTime:   {"time"},
	fieldIP:     {"attributes.ip"},
	fieldMethod: {"attributes.method"},
	fieldPath:   {"attributes.path"},
}}

var cloudfront = &fieldNames{unit: time.Second, ends: true, header: "cs(%s)", names: map[string][]string{
	fieldTime:     {"date time"},
	fieldDuration: {"time-taken"},
	fieldIP:       {"c-ip"},
	fieldMethod:   {"cs-method"},
	fieldHost:     {"x-host-header", "cs(Host)"},
	fieldPath:     {"cs-uri-stem"},
	fieldQuery:    {"cs-uri-query"},
	fieldStatus:   {"sc-status"},
	fieldBytes:    {"sc-bytes"},
	fieldAgent:    {"cs(User-Agent)"},
	fieldReferer:  {"cs(Referer)"},
}}

// A fieldReader is a naming with the user's settings.
type fieldReader struct {
	*fieldNames
	names map[string][]string
	zone  *time.Location
}

func newReading(o *Options, n *fieldNames) fieldReader {
	names := maps.Clone(n.names)
	for name, field := range o.Fields {
		names[name] = []string{field}
	}
	return fieldReader{n, names, o.Location}
}

// namedFields are the values of one line, by the log's own names and by those that all formats share.
type namedFields struct {
	*fieldReader
	lookup func(name string) (string, bool)
}

func (f namedFields) get(name string) (string, bool) {
	for _, candidate := range f.names[name] {
		if value, ok := f.lookup(candidate); ok && value != "-" {
			return f.part(name, value)
		}
	}
	if name == fieldQuery {
		if target, ok := f.first(fieldPath); ok {
			_, _, query := splitTarget(target)
			return query, query != ""
		}
	}
	return f.lookup(name)
}

func (f namedFields) first(name string) (string, bool) {
	for _, candidate := range f.names[name] {
		if value, ok := f.lookup(candidate); ok {
			return value, true
		}
	}
	return "", false
}

// part extracts the wanted part of a value that contains more.
func (f namedFields) part(name, value string) (string, bool) {
	switch name {
	case fieldIP:
		return hostOnly(value), true
	case fieldPath:
		_, path, _ := splitTarget(value)
		return path, true
	case fieldAgent, fieldReferer:
		if f.fieldNames == cloudfront {
			if plain, err := url.PathUnescape(value); err == nil {
				return plain, true
			}
		}
	}
	return value, value != ""
}

// finish fills an entry from the fields of its line.
func (r *fieldReader) finish(e *entry, lookup func(name string) (string, bool)) error {
	f := namedFields{r, lookup}
	text, ok := f.first(fieldTime)
	if !ok {
		return fmt.Errorf("no time: there is no field %s; name it with --field time=NAME", strings.Join(r.names[fieldTime], ", "))
	}
	at, whole, err := parseTime(text, r.zone)
	if err != nil {
		return err
	}
	took := time.Duration(-1)
	if text, ok := f.first(fieldDuration); ok {
		took = parseDuration(text, r.unit)
	}
	if r.ends && took > 0 {
		at = at.Add(-took)
	}
	*e = entry{at: at, whole: whole, took: took, fields: f}
	if r.fieldNames == replay {
		return e.record(lookup)
	}
	return nil
}

// record reads the decision in a replay log. Its times are never whole seconds.
func (e *entry) record(lookup func(name string) (string, bool)) error {
	e.whole = false
	if cost, ok := lookup("cost"); ok {
		e.cost, _ = strconv.ParseInt(cost, 10, 64) // ignored if it is not a number
	}
	allowed, said := lookup("allowed")
	quality, too := lookup("quality")
	if !said || !too {
		return errors.New("no verdict: allowed and quality are missing")
	}
	e.recorded = &RecordedVerdict{Allowed: allowed == "true", Exact: quality == "exact"}
	return nil
}

// parseDuration reads 12, 0.012, 12ms. It returns a negative value for anything else.
func parseDuration(text string, unit time.Duration) time.Duration {
	if n, err := strconv.ParseFloat(text, 64); err == nil && n >= 0 && n < 1e9 {
		return time.Duration(n * float64(unit))
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return d
	}
	return -1
}

// A jsonParser reads one object per line.
type jsonParser struct{ fieldReader }

func newJSON(o *Options, n *fieldNames) *jsonParser { return &jsonParser{newReading(o, n)} }

func (p *jsonParser) parse(line string, e *entry) error {
	if !strings.HasPrefix(strings.TrimLeft(line, " \t"), "{") {
		return errors.New("not a JSON object")
	}
	decoder := json.NewDecoder(strings.NewReader(line))
	decoder.UseNumber()
	var object map[string]any
	if err := decoder.Decode(&object); err != nil {
		return fmt.Errorf("not a JSON object: %w", err)
	}
	return p.finish(e, func(name string) (string, bool) { return findJSON(object, name) })
}

// findJSON returns the value at a path: a.b is b within a, unless there is a field with that whole name. Of a
// list it returns the first item.
func findJSON(object map[string]any, path string) (string, bool) {
	if value, ok := object[path]; ok {
		return jsonText(value)
	}
	for i := range len(path) {
		if path[i] != '.' {
			continue
		}
		if inner, ok := object[path[:i]].(map[string]any); ok {
			return findJSON(inner, path[i+1:])
		}
	}
	for name, value := range object { // header names vary in case
		if strings.EqualFold(name, path) && len(name) > 0 {
			return jsonText(value)
		}
	}
	return "", false
}

func jsonText(value any) (string, bool) {
	if list, ok := value.([]any); ok && len(list) > 0 {
		return jsonText(list[0])
	}
	return spelling.Scalar(value)
}

// A tableParser reads columns whose names are in the first line.
type tableParser struct {
	fieldReader
	comma   rune
	columns map[string]int
}

func newTable(o *Options, n *fieldNames, comma rune) *tableParser {
	return &tableParser{fieldReader: newReading(o, n), comma: comma}
}

func (p *tableParser) parse(line string, e *entry) error {
	if names, ok := strings.CutPrefix(line, "#Fields:"); ok && p.fieldNames == cloudfront {
		p.name(strings.Fields(names))
		return errSkip
	}
	if strings.HasPrefix(line, "#") {
		return errSkip
	}
	values, err := p.split(line)
	if err != nil {
		return err
	}
	if p.columns == nil {
		if p.fieldNames == cloudfront {
			return errors.New("no line #Fields: before it")
		}
		if len(values) < 2 {
			return errors.New("one column; a CSV file begins with a line of at least two column names")
		}
		p.name(values)
		return errSkip
	}
	if len(values) != len(p.columns) {
		return fmt.Errorf("%d columns; the line of names has %d", len(values), len(p.columns))
	}
	return p.finish(e, func(name string) (string, bool) {
		if name == "date time" {
			date, ok := p.columns["date"]
			clock, too := p.columns["time"]
			if !ok || !too {
				return "", false
			}
			return values[date] + " " + values[clock], true
		}
		i, ok := p.columns[name]
		if !ok {
			return "", false
		}
		return values[i], values[i] != ""
	})
}

func (p *tableParser) name(columns []string) {
	p.columns = make(map[string]int, len(columns))
	for i, name := range columns {
		if _, twice := p.columns[name]; twice {
			name += "#" + strconv.Itoa(i+1)
		}
		p.columns[name] = i
	}
}

func (p *tableParser) split(line string) ([]string, error) {
	if p.comma == '\t' || !strings.Contains(line, `"`) {
		return strings.Split(line, string(p.comma)), nil
	}
	r := csv.NewReader(strings.NewReader(line))
	r.Comma = p.comma
	values, err := r.Read()
	if err != nil {
		return nil, fmt.Errorf("not a line of CSV: %w", errors.Unwrap(err))
	}
	return values, nil
}

// timeForms are the layouts of times, the common ones first.
var timeForms = []string{
	time.RFC3339Nano, "2006-01-02 15:04:05.999999999Z07:00", "2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999",
	"02/Jan/2006:15:04:05 -0700", "2006-01-02T15:04:05.999999999-0700", "2006-01-02 15:04:05.999999999 -0700",
}

// parseTime reads a time that is a text, or a number of seconds, milliseconds, microseconds or nanoseconds since
// 1970, depending on its magnitude.
func parseTime(text string, zone *time.Location) (at time.Time, whole bool, err error) {
	if n, err := strconv.ParseFloat(text, 64); err == nil {
		return numericTime(text, n)
	}
	for _, form := range timeForms {
		if at, err = time.ParseInLocation(form, text, zone); err == nil {
			return at, at.Nanosecond() == 0 && !strings.ContainsAny(text, ".,"), nil
		}
	}
	return at, false, fmt.Errorf("%.60q is not a time such as 2026-11-16T09:12:01.25Z or 1794906721.25", text)
}

func numericTime(text string, n float64) (at time.Time, whole bool, err error) {
	digits, fraction, _ := strings.Cut(text, ".")
	i := slices.IndexFunc([]float64{1e11, 1e14, 1e17, 1e20}, func(most float64) bool { return n < most })
	if i < 0 || n < 0 {
		return at, false, fmt.Errorf("%.40q is not a time since 1970", text)
	}
	units, err := strconv.ParseInt(digits, 10, 64)
	if err != nil { // 1.7e9
		return time.Unix(0, int64(n*1e9)), false, nil
	}
	perSecond := []int64{1, 1e3, 1e6, 1e9}[i]
	at = time.Unix(units/perSecond, units%perSecond*(1e9/perSecond))
	if i == 0 && fraction != "" {
		ns, err := strconv.ParseInt((fraction + "000000000")[:9], 10, 64)
		if err != nil {
			return at, false, fmt.Errorf("%.40q is not a number of seconds since 1970", text)
		}
		at = at.Add(time.Duration(ns))
	}
	return at, i == 0 && fraction == "", nil
}
