package accesslog

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// A Format is an access log format.
type Format struct {
	Name string
	Help string // which server writes it, and how

	newParser func(o *Options) parser
	fields    []string // that every line has; nil: depends on the file
}

// Formats returns the known formats, in the order in which they are tried.
func Formats() []Format { return formats }

var formats = []Format{
	{"alb", "AWS Application Load Balancer", func(*Options) parser { return albParser{} }, albFields},
	{"haproxy", "HAProxy, option httplog", func(o *Options) parser { return &haproxyParser{zone: o.Location} }, haproxyFields},
	{"combined", "nginx and Apache: combined, common or vhost_combined, with more fields after it", func(*Options) parser { return &combinedParser{} }, combinedFields},
	{"cloudfront", "AWS CloudFront standard logs", func(o *Options) parser { return newTable(o, cloudfront, '\t') }, nil},
	{"replay", "the replay log of Penstock itself (log.replay)", func(o *Options) parser { return newJSON(o, replay) }, nil},
	{"caddy", "Caddy's JSON", func(o *Options) parser { return newJSON(o, caddy) }, nil},
	{"envoy", "Envoy's and Istio's JSON", func(o *Options) parser { return newJSON(o, envoy) }, nil},
	{"jsonl", "JSON lines; name the fields with --field if they are not found", func(o *Options) parser { return newJSON(o, generic) }, nil},
	{"csv", "CSV with a line of column names; name the columns with --field if they are not found", func(o *Options) parser { return newTable(o, generic, ',') }, nil},
}

// FindFormat returns the format with a name.
func FindFormat(name string) (Format, error) {
	switch name {
	case "nginx", "apache":
		name = "combined"
	case "json", "ndjson":
		name = "jsonl"
	}
	i := slices.IndexFunc(formats, func(f Format) bool { return f.Name == name })
	if i < 0 {
		return Format{}, fmt.Errorf("unknown log format %q; known are %s", name, strings.Join(formatNames(), ", "))
	}
	return formats[i], nil
}

func formatNames() (names []string) {
	for _, f := range formats {
		names = append(names, f.Name)
	}
	return names
}

// A parser reads the lines of one file.
type parser interface {
	// parse reads a line. errSkip means that the line is valid but has no request.
	parse(line string, e *entry) error
}

// errSkip is returned for comments and header lines.
var errSkip = errors.New("no request in this line")

// An entry is the contents of a line.
type entry struct {
	at     time.Time
	whole  bool          // at has no fraction of a second
	took   time.Duration // negative: unknown
	fields fields

	cost     int64            // 0: unknown
	recorded *RecordedVerdict // of a replay log
}

// fields returns the values of a line by name.
type fields interface {
	get(name string) (string, bool)
}

// fixedFields are the fields of a format whose lines all have the same ones. Further fields are extra1, extra2,
// ….
type fixedFields struct {
	names  []string
	values []string
}

func (f fixedFields) get(name string) (string, bool) {
	if i := slices.Index(f.names, name); i >= 0 {
		return f.values[i], f.values[i] != "" && f.values[i] != "-"
	}
	if n, ok := strings.CutPrefix(name, "extra"); ok && len(n) == 1 && n[0] > '0' {
		if i := len(f.names) + int(n[0]-'1'); i < len(f.values) {
			return f.values[i], f.values[i] != "-"
		}
	}
	return "", false
}

// maxDetect is how many lines detect tries.
const maxDetect = 50

// detect returns the format that can read most of the lines.
func detect(lines []string, o *Options) (Format, error) {
	best, most := Format{}, 0
	for _, f := range formats {
		p, n := f.newParser(o), 0
		for _, line := range lines[:min(len(lines), maxDetect)] {
			var e entry
			if p.parse(line, &e) == nil && isRequest(e.fields, o) {
				n++
			}
		}
		if n > most {
			best, most = f, n
		}
	}
	if most == 0 {
		return best, fmt.Errorf("unknown log format: no line could be read; the first is %.120q; name the format with --format (%s), and the fields of jsonl and csv with --field", lines[0], strings.Join(formatNames(), ", "))
	}
	return best, nil
}

// isRequest reports whether a line is a request. In a line of another format, no field is found.
func isRequest(f fields, o *Options) bool {
	return slices.ContainsFunc([]string{fieldIP, fieldMethod, fieldPath}, func(name string) bool {
		_, ok := f.get(cmp.Or(o.Fields[name], name))
		return ok
	})
}
