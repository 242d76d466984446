package admin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/penstock-io/penstock/internal/ruledb"
	"github.com/penstock-io/penstock/internal/wire"
	"github.com/penstock-io/penstock/rules"
)

// addOverride gives some clients of a rule a different limit, as a new version. The rest of the document stays as it
// was written, comments included.
func (a *Admin) addOverride(x *apiRequest, asked *override) (any, error) {
	if a.Rules.Service == nil {
		return nil, a.notHere()
	}
	if err := asked.check(a.Now()); err != nil {
		return nil, err
	}
	now, err := a.Rules.now(x.r.Context())
	if err != nil {
		return nil, err
	}
	name, base := x.r.PathValue("name"), now.number()
	text, err := asked.addTo(string(now.files[0].Data), name)
	if err != nil {
		return nil, err
	}
	if asked.Base != nil {
		base = *asked.Base
	}
	if asked.Message == "" {
		asked.Message = "override of " + name
	}
	return a.save(x, ruledb.Change{Base: base, Message: asked.Message, Document: []byte(text)})
}

// An override is a different limit for some clients of a rule.
type override struct {
	Match   map[string]string `json:"match"` // attributes; values may have wildcards
	Limit   string            `json:"limit"` // 100/1m, or unlimited
	Expires time.Time         `json:"expires"`
	Base    *int64            `json:"base"` // the version it is based on; omitted: the current one
	Message string            `json:"message"`
}

const unlimited = "unlimited"

func (o *override) check(now time.Time) error {
	var mistakes wire.FieldErrors
	if len(o.Match) == 0 {
		mistakes.Add("match", `is missing: identify the client, for example {"user": "u1"}`)
	}
	if o.Limit == "" {
		mistakes.Add("limit", "is missing: for example 100/1m, or unlimited")
	}
	if !o.Expires.IsZero() && !o.Expires.After(now) {
		mistakes.Add("expires", "%s is in the past", o.Expires.Format(time.RFC3339))
	}
	return mistakes.Err()
}

// addTo returns a document in which the override precedes all others of the rule, so that it takes effect. It does
// not validate the override; compiling the document does.
func (o *override) addTo(text, rule string) (string, error) {
	var doc rules.Document
	reading := rules.Read(document, []byte(text), &doc)
	i := slices.IndexFunc(doc.Rules, func(r rules.RuleTerms) bool { return r.Name == rule })
	if i < 0 {
		return "", refuse(http.StatusNotFound, NotFound, fmt.Sprintf("there is no rule %.64q", rule))
	}
	e := editor{text: text, json: strings.HasPrefix(strings.TrimSpace(text), "{")}
	var edited string
	if r := &doc.Rules[i]; len(r.Overrides) > 0 {
		place, _ := reading.Place("rules", i, "overrides", 0)
		edited = e.before(place, e.write(o))
	} else {
		place, _ := reading.Place("rules", i)
		name, _ := reading.Place("rules", i, "name")
		edited = e.within(place, name, e.write(o))
	}
	if !added(&doc, i, edited) {
		return "", refuse(http.StatusConflict, Conflict, "cannot add to a document in this format: edit the document and save it as a whole")
	}
	return edited, nil
}

// added reports whether a text is the document with one more override, the first of the rule, and no other
// difference.
func added(doc *rules.Document, rule int, text string) bool {
	var now rules.Document
	if rules.Read(document, []byte(text), &now); rule >= len(now.Rules) || len(now.Rules[rule].Overrides) == 0 {
		return false
	}
	now.Rules[rule].Overrides = now.Rules[rule].Overrides[1:]
	return bytes.Equal(now.JSON(), doc.JSON())
}

// An editor inserts text at a rule, in the style in which the rule is written.
type editor struct {
	text string
	json bool
}

// write returns the override on one line.
func (e *editor) write(o *override) string {
	match := make([]string, 0, len(o.Match))
	for _, name := range slices.Sorted(maps.Keys(o.Match)) {
		match = append(match, quote(name)+": "+quote(o.Match[name]))
	}
	limits := quote(unlimited)
	if o.Limit != unlimited {
		limits = "[" + quote(o.Limit) + "]"
	}
	text := fmt.Sprintf("{%s: {%s: {%s}}, %s: %s", e.name("match"), e.name("attributes"), strings.Join(match, ", "), e.name("limits"), limits)
	if !o.Expires.IsZero() {
		text += fmt.Sprintf(", %s: %s", e.name("expires_at"), quote(o.Expires.UTC().Format(time.RFC3339)))
	}
	return text + "}"
}

// name returns the name of a field, quoted in a JSON document.
func (e *editor) name(field string) string {
	if e.json {
		return quote(field)
	}
	return field
}

// quote quotes a text in a way that YAML and JSON read alike.
func quote(text string) string {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(text) // encoding a string cannot fail
	return strings.TrimSpace(b.String())
}

// before inserts an item into a list, before the one at a position.
func (e *editor) before(at rules.Position, item string) string {
	line, offset := e.line(at)
	before := string([]rune(line)[:at.Column-1])
	if strings.TrimSpace(before) == "-" {
		return e.text[:offset] + before + item + "\n" + e.text[offset:]
	}
	offset += len(before)
	return e.text[:offset] + item + ", " + e.text[offset:]
}

// within adds the field overrides to a rule that has none: after its name or, if the rule is written in braces, after
// the opening one.
func (e *editor) within(rule, name rules.Position, item string) string {
	line, offset := e.line(rule)
	before := string([]rune(line)[:rule.Column-1])
	if rest := line[len(before):]; strings.HasPrefix(rest, "{") {
		offset += len(before) + 1
		return e.text[:offset] + e.name("overrides") + ": [" + item + "], " + e.text[offset:]
	}
	indent := strings.Repeat(" ", len([]rune(before)))
	line, offset = e.line(name)
	end := offset + len(line)
	return e.text[:end] + "\n" + indent + "overrides:\n" + indent + "  - " + item + e.text[end:]
}

// line returns the line of a position, and its offset.
func (e *editor) line(at rules.Position) (string, int) {
	offset := 0
	for range at.Line - 1 {
		offset += strings.IndexByte(e.text[offset:], '\n') + 1
	}
	line, _, _ := strings.Cut(e.text[offset:], "\n")
	return strings.TrimSuffix(line, "\r"), offset
}
