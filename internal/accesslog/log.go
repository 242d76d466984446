package accesslog

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/penstock-io/penstock"
)

// Bounds of what is read at a time.
const (
	MaxFiles      = 500
	MaxWindow     = time.Hour
	DefaultWindow = 10 * time.Second
	maxBad        = 10 // invalid lines that are shown
)

// Options configure how logs are read.
type Options struct {
	Format     string            // "": detected, for each file
	Fields     map[string]string // from the names that rules or this package use to the log's names
	Attributes []Attribute       // to read from the log; those named again are left out
	Without    []string          // attributes that are not read from it
	Window     time.Duration     // how far lines may be out of order; 0: DefaultWindow
	Location   *time.Location    // of times without a zone; nil: UTC
	IPv6Prefix int               // of addresses, as on the gateway; 0: 64
	Stdin      io.Reader         // for the file name -
	StdinName  string            // in errors and statistics; "": stdin
}

// A Request is one request of the log.
type Request struct {
	At         time.Time     // when it arrived
	Took       time.Duration // negative: unknown
	Status     int           // of the response; 0: unknown
	Attributes []penstock.Attribute
	Cost       int64            // 0: unknown
	Recorded   *RecordedVerdict // of a replay log
}

// RecordedVerdict is the decision made when the log was written.
type RecordedVerdict struct {
	Allowed bool
	Exact   bool // decided on the shared counters, as in a replay
}

// A BadLine is a line that could not be read.
type BadLine struct {
	File  string `json:"file"`
	Line  int64  `json:"line"`
	Error string `json:"error"`
	Text  string `json:"text"` // its beginning
}

func (b BadLine) String() string {
	return fmt.Sprintf("%s:%d: %s: %q", b.File, b.Line, b.Error, b.Text)
}

// Stats describe what was read so far.
type Stats struct {
	Lines    int64     `json:"lines"`
	Requests int64     `json:"requests"`
	Bad      int64     `json:"bad_lines"`
	Late     int64     `json:"late_lines"` // out of order by more than the window; the time of the line before is used
	BadLines []BadLine `json:"bad_line_examples,omitempty"`
	Formats  []string  `json:"formats"` // of the files, in order
	From     time.Time `json:"from"`    // time of the first request
	To       time.Time `json:"to"`

	Missing map[string]int64 `json:"-"` // requests without an attribute, by its name
	NoTook  int64            `json:"-"` // requests without a duration
}

// A Log is the requests of some files, ordered by time.
type Log struct {
	options  Options
	sources  []*source
	order    reorderBuffer
	stats    Stats
	missing  []int64
	read     atomic.Int64
	size     int64
	sequence int64
}

// Open opens logs. It reports all errors in files and options at once.
func Open(paths []string, o Options) (*Log, error) {
	o.Window, o.IPv6Prefix = cmp.Or(o.Window, DefaultWindow), cmp.Or(o.IPv6Prefix, 64)
	if o.Location == nil {
		o.Location = time.UTC
	}
	if len(paths) == 0 || len(paths) > MaxFiles {
		return nil, fmt.Errorf("%d logs; give from 1 to %d", len(paths), MaxFiles)
	}
	if o.Window < time.Second || o.Window > MaxWindow {
		return nil, fmt.Errorf("window %v; lines can be out of order by 1s to %v", o.Window, MaxWindow)
	}
	o.Attributes = distinct(o.Attributes, o.Without)
	l := &Log{options: o, missing: make([]int64, len(o.Attributes))}
	l.order.window = o.Window.Microseconds()
	var errs []error
	for _, path := range paths {
		s, size, err := openSource(path, &l.options, &l.read)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		l.size += size
		l.sources = append(l.sources, s)
		l.stats.Formats = append(l.stats.Formats, cmp.Or(s.format.Name, "empty"))
	}
	if err := errors.Join(errs...); err != nil {
		l.Close()
		return nil, err
	}
	for _, s := range l.sources {
		if err := l.advance(s); err != nil {
			l.Close()
			return nil, err
		}
	}
	return l, nil
}

// distinct returns the attributes without those that are named again, or are not to be read.
func distinct(all []Attribute, without []string) (some []Attribute) {
	seen := slices.Clone(without)
	for _, a := range all {
		if !slices.Contains(seen, a.Name) {
			some, seen = append(some, a), append(seen, a.Name)
		}
	}
	return some
}

// Close closes the files.
func (l *Log) Close() {
	for _, s := range l.sources {
		s.Close()
	}
}

// Next returns the next request, or io.EOF after the last.
func (l *Log) Next() (r Request, err error) {
	for {
		s := l.oldest()
		i, late, ok := l.order.next(s == nil)
		if ok {
			if late {
				l.stats.Late++
			}
			r = Request{time.UnixMicro(i.at).UTC(), i.took, int(i.status), i.attributes, i.cost, i.recorded}
			if l.stats.Requests == 0 {
				l.stats.From = r.At
			}
			l.stats.To = r.At
			l.stats.Requests++
			return r, nil
		}
		if s == nil {
			return r, io.EOF
		}
		l.order.add(s.next)
		if err := l.advance(s); err != nil {
			return r, err
		}
	}
}

// oldest returns the file whose next request is the earliest, or nil if there are no more.
func (l *Log) oldest() (s *source) {
	for _, candidate := range l.sources {
		if candidate.has && (s == nil || candidate.next.at < s.next.at) {
			s = candidate
		}
	}
	return s
}

// advance reads a file up to its next request.
func (l *Log) advance(s *source) error {
	s.has, s.next = false, item{}
	for s.parser != nil {
		line, err := s.readLine()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, errLong):
		case err != nil:
			if s.line == 0 {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			l.bad(s, "", fmt.Errorf("cannot read further: %w", err)) // for example, a truncated gzip file
			return nil
		}
		l.stats.Lines++
		var e entry
		if err == nil {
			err = s.parser.parse(line, &e)
		}
		if errors.Is(err, errSkip) {
			continue
		}
		if err == nil {
			err = l.fill(s, &e)
		}
		if err == nil {
			return nil
		}
		l.bad(s, line, err)
	}
	return nil
}

func (l *Log) bad(s *source, line string, err error) {
	l.stats.Bad++
	if len(l.stats.BadLines) < maxBad {
		l.stats.BadLines = append(l.stats.BadLines, BadLine{s.name, s.line, err.Error(), line[:min(len(line), 80)]})
	}
}

// Years that are plausible in a log. Others mean a wrong unit or a clock that was not set.
const firstYear, lastYear = 1990, 2100

// fill turns an entry into the next request of its file.
func (l *Log) fill(s *source, e *entry) error {
	if y := e.at.Year(); y < firstYear || y > lastYear {
		return fmt.Errorf("the time is in the year %d", y)
	}
	l.duration(e)
	attributes := make([]penstock.Attribute, 0, len(l.options.Attributes))
	for i := range l.options.Attributes {
		a := &l.options.Attributes[i]
		value, ok := l.options.value(e.fields, a)
		if !ok {
			l.missing[i]++
			continue
		}
		attributes = append(attributes, penstock.Attribute{Name: a.Name, Value: value})
	}
	if e.took < 0 {
		l.stats.NoTook++
	}
	if e.whole {
		e.at = e.at.Truncate(time.Second)
	}
	l.sequence++
	s.next, s.has = item{e.at.UnixMicro(), l.sequence, e.whole, e.took, l.status(e), attributes, e.cost, e.recorded}, true
	return nil
}

// status reads the status of the response; 0 if the log does not have it.
func (l *Log) status(e *entry) int16 {
	text, _ := l.options.find(e.fields, fieldStatus)
	status, err := strconv.Atoi(text)
	if err != nil || status < 100 || status > 599 {
		return 0
	}
	return int16(status)
}

// duration reads how long a request took from the field that the user named for it. In logs with fixed fields,
// the time is the end of a request.
func (l *Log) duration(e *entry) {
	if _, named := e.fields.(namedFields); named || e.took >= 0 || l.options.Fields[fieldDuration] == "" {
		return
	}
	if text, ok := l.options.find(e.fields, fieldDuration); ok {
		if e.took = parseDuration(text, time.Second); e.took > 0 {
			e.at = e.at.Add(-e.took)
		}
	}
}

// Stats returns statistics of what was read so far.
func (l *Log) Stats() Stats {
	s := l.stats
	s.Missing = map[string]int64{}
	for i, n := range l.missing {
		s.Missing[l.options.Attributes[i].Name] = n
	}
	return s
}

// Progress returns the bytes read and the total, which is 0 for stdin.
func (l *Log) Progress() (read, of int64) { return l.read.Load(), l.size }
