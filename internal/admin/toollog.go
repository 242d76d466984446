package admin

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"slices"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/accesslog"
	"github.com/penstock-io/penstock/internal/replaylog"
	"github.com/penstock-io/penstock/internal/ruledb"
	"github.com/penstock-io/penstock/internal/toolreport"
	"github.com/penstock-io/penstock/internal/traffic"
)

// maxLog bounds the bytes of a log that is sent, compressed or not.
const maxLog = 32 << 20

// logInput says how to read a log, as the flags of penstock backtest do.
type logInput struct {
	Format   string            `json:"format"`
	Fields   map[string]string `json:"fields"`
	Without  []string          `json:"without"`
	Timezone string            `json:"timezone"`
	Domain   string            `json:"domain"`
}

// A requestLog is requests to try rules on: a log that was sent, or the requests that the nodes have kept. It can be
// read several times.
type requestLog struct {
	input *logInput
	zone  *time.Location
	name  string
	text  []byte

	recent    bool
	kept      int
	standsFor int64
	known     map[string]bool // attributes that recent requests have
}

// readTool reads the input of a tool, and its log. The body is JSON, or a form with the parts options, which is the
// same JSON, and log.
func (t *toolRun) readTool(into any, input *logInput) (*requestLog, error) {
	l := &requestLog{input: input, zone: time.UTC}
	media, _, err := mime.ParseMediaType(t.r.Header.Get("Content-Type"))
	if err != nil || media != "multipart/form-data" {
		l.recent = true
		err = t.readDocument(into)
	} else {
		err = t.readForm(into, l)
	}
	if err != nil {
		return nil, err
	}
	if input.Timezone != "" {
		if l.zone, err = time.LoadLocation(input.Timezone); err != nil {
			return nil, invalid("timezone %.64q: %v; use a name such as Europe/Berlin", input.Timezone, err)
		}
	}
	if l.recent {
		return l, t.admin.fillRecent(t.r.Context(), l)
	}
	return l, nil
}

func (t *toolRun) readForm(into any, l *requestLog) error {
	t.r.Body = http.MaxBytesReader(t.w, t.r.Body, maxLog+2*ruledb.MaxDocument+maxBody)
	form, err := t.r.MultipartReader()
	if err != nil {
		return invalid("the body is not a form: %v", err)
	}
	options, _, err := readPart(form, "options", 2*ruledb.MaxDocument)
	if err == nil {
		err = parse(options, into)
	}
	if err != nil {
		return err
	}
	if l.text, l.name, err = readPart(form, "log", maxLog); err != nil {
		return err
	}
	l.name = cmp.Or(fmt.Sprintf("%.100s", l.name), "log")
	if _, err := form.NextPart(); !errors.Is(err, io.EOF) {
		return invalid("the form must have two parts: options and log")
	}
	return nil
}

// readPart reads the next part of a form.
func readPart(form *multipart.Reader, name string, most int64) (text []byte, file string, err error) {
	part, err := form.NextPart()
	if err != nil || part.FormName() != name {
		return nil, "", invalid("the form must have two parts, in this order: options and log; %s is missing", name)
	}
	text, err = io.ReadAll(io.LimitReader(part, most+1))
	switch {
	case err != nil:
		return nil, "", invalid("the body broke off")
	case int64(len(text)) > most:
		return nil, "", refuse(http.StatusRequestEntityTooLarge, Invalid, fmt.Sprintf("%s has more than %d MiB; send a part of it, compressed with gzip or zstd, or run the command in a terminal", name, most>>20))
	}
	return text, part.FileName(), nil
}

// fillRecent makes a log of the requests that the nodes have kept. It leaves out those that charged nothing.
func (a *Admin) fillRecent(ctx context.Context, l *requestLog) error {
	l.name, l.known = "recent requests", map[string]bool{"method": true, "path": true}
	calls := a.Fleet.Recent(ctx, traffic.Filter{}, maxReplayed, "")
	slices.Reverse(calls)
	var b bytes.Buffer
	out := json.NewEncoder(&b)
	for i := range calls {
		e := &calls[i]
		if !charges(&e.Event) || cmp.Or(e.Domain, penstock.DefaultDomain) != cmp.Or(l.input.Domain, penstock.DefaultDomain) {
			continue
		}
		line := replaylog.Line{Time: e.At.UnixMicro(), Cost: e.Cost, Attributes: attributesOf(e.Attributes), Allowed: e.Allowed, Reason: e.Reason.String(), Quality: e.Quality.String()}
		if err := out.Encode(line); err != nil {
			return err
		}
		for name := range line.Attributes {
			l.known[name] = true
		}
		l.kept++
		l.standsFor += e.Weight()
	}
	l.text = b.Bytes()
	return nil
}

// open opens the log from its beginning. Rules may read attributes that no recent request had.
func (l *requestLog) open(wanted []accesslog.Attribute) (*accesslog.Log, error) {
	o := accesslog.Options{
		Format: l.input.Format, Fields: l.input.Fields, Attributes: wanted, Without: l.input.Without,
		Location: l.zone, Stdin: bytes.NewReader(l.text), StdinName: l.name,
	}
	if l.recent {
		o.Format, o.Fields = "replay", nil
		o.Attributes = slices.DeleteFunc(slices.Clone(wanted), func(a accesslog.Attribute) bool { return !l.known[a.Name] })
	}
	return accesslog.Open([]string{"-"}, o)
}

// describe says what recent requests are, at the top of a page.
func (l *requestLog) describe(page *toolreport.Page) {
	if !l.recent {
		return
	}
	about := fmt.Sprintf("These are the last %d requests that the nodes have kept. Counters start empty.", l.kept)
	if l.standsFor > int64(l.kept) {
		about = fmt.Sprintf("These are %d requests, a sample of about %d that the nodes have decided. Rules deny less on a sample than they would on all requests, and a limit found on it is too small: use an access log or a replay log to choose a limit.", l.kept, l.standsFor)
	}
	page.Parts = slices.Insert(page.Parts, 0, toolreport.Part(toolreport.Text(about)))
}
