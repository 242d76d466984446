package admin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/penstock-io/penstock/internal/ruledb"
	"github.com/penstock-io/penstock/internal/rulediff"
	"github.com/penstock-io/penstock/internal/ruleservice"
	"github.com/penstock-io/penstock/internal/wire"
	"github.com/penstock-io/penstock/rules"
)

// document is the file name that problems give to the document of the request.
const document = "document"

// A Validation is the errors and warnings of a document.
type Validation struct {
	Valid    bool           `json:"valid"`
	Rules    int            `json:"rules"`
	Problems rules.Problems `json:"problems"` // errors, then warnings
}

func (a *Admin) validateRules(x *apiRequest) (any, error) {
	files, err := x.readProposed()
	if err != nil {
		return nil, err
	}
	snapshot, warnings, err := rules.CompileContext(x.r.Context(), files, a.Rules.Compile)
	told := Validation{Valid: err == nil, Problems: append(rules.Problems{}, warnings...)}
	if mistakes, ok := errors.AsType[rules.Problems](err); ok {
		told.Problems = append(mistakes, told.Problems...)
	} else if err != nil {
		return nil, err
	} else {
		told.Rules = len(snapshot.Rules)
	}
	return told, nil
}

// readProposed reads the document to compile.
func (x *apiRequest) readProposed() ([]rules.File, error) {
	var asked struct {
		Document *string `json:"document"`
	}
	if err := x.readDocument(&asked); err != nil {
		return nil, err
	}
	text, err := x.required(asked.Document)
	return fileOf(text), err
}

// required returns a required document.
func (x *apiRequest) required(text *string) (string, error) {
	switch most := x.maxDocument(); {
	case text == nil:
		return "", mistake("document", "is missing: the rules, in YAML or JSON")
	case len(*text) > most:
		return "", mistake("document", "may have at most %d bytes, has %d", most, len(*text))
	}
	return *text, nil
}

func fileOf(text string) []rules.File {
	return []rules.File{{Name: document, Data: []byte(text)}}
}

// diffRules compares a version with a document, or with another version.
func (a *Admin) diffRules(x *apiRequest) (any, error) {
	var asked struct {
		From     int64   `json:"from"` // 0: the current rules
		To       int64   `json:"to"`
		Document *string `json:"document"`
	}
	if err := x.readDocument(&asked); err != nil {
		return nil, err
	}
	if (asked.To == 0) == (asked.Document == nil) {
		return nil, mistake("document", "give either the document or the version (to) that is compared")
	}
	before, err := a.filesAt(x.r.Context(), asked.From)
	if err != nil {
		return nil, err
	}
	var after []rules.File
	if asked.Document == nil {
		after, err = a.filesAt(x.r.Context(), asked.To)
	} else {
		var text string
		text, err = x.required(asked.Document)
		after = fileOf(text)
	}
	if err != nil {
		return nil, err
	}
	return rulediff.Of(x.r.Context(), before, after)
}

// filesAt returns the rules of a version, or the current rules for 0.
func (a *Admin) filesAt(ctx context.Context, version int64) ([]rules.File, error) {
	if version == 0 {
		now, err := a.Rules.now(ctx)
		if err != nil {
			return nil, err
		}
		if now.version == nil {
			return now.files, nil
		}
		return []rules.File{{Name: fmt.Sprintf("version %d", now.number()), Data: now.version.Document}}, nil
	}
	db, err := a.database(ctx)
	if err != nil {
		return nil, err
	}
	found, err := db.Version(ctx, version)
	if err != nil {
		return nil, err
	}
	return []rules.File{{Name: fmt.Sprintf("version %d", version), Data: found.Document}}, nil
}

// A SaveResult is the result of saving a version.
type SaveResult struct {
	Version   Version           `json:"version"`
	Changed   bool              `json:"changed"` // false: the rules are the same as before
	Changes   []rulediff.Change `json:"changes"`
	Problems  rules.Problems    `json:"problems"`            // warnings
	Published string            `json:"published,omitempty"` // why nodes that read from Redis do not have it yet
}

func (a *Admin) saveRules(x *apiRequest) (any, error) {
	var asked struct {
		Document *string `json:"document"`
		Base     *int64  `json:"base"`
		Message  string  `json:"message"`
	}
	if err := x.readDocument(&asked); err != nil {
		return nil, err
	}
	if a.Rules.Service == nil {
		return nil, a.notHere()
	}
	if asked.Base == nil {
		return nil, mistake("base", "is missing: the version on which the change is based, 0 if there is none")
	}
	text, err := x.required(asked.Document)
	if err != nil {
		return nil, err
	}
	return a.save(x, ruledb.Change{Base: *asked.Base, Message: asked.Message, Document: []byte(text)})
}

// save makes a version of a change, unless nothing changes.
func (a *Admin) save(x *apiRequest, change ruledb.Change) (*SaveResult, error) {
	end, before, err := a.beginChange(x)
	if err != nil {
		return nil, err
	}
	defer end()
	if v := before.version; v != nil && v.Number == change.Base && bytes.Equal(v.Document, change.Document) {
		return &SaveResult{Version: versionOf(v), Changes: []rulediff.Change{}, Problems: rules.Problems{}}, nil
	}
	change.Author = x.who.String()
	applied, err := a.Rules.Service.Apply(x.r.Context(), document, change)
	if err != nil {
		return nil, err
	}
	return a.saved(x, before, &applied), nil
}

// beginChange waits for a turn and reads the rules to change. The caller must call end.
func (a *Admin) beginChange(x *apiRequest) (end func(), before *state, err error) {
	if end, err = x.begin(); err != nil {
		return nil, nil, err
	}
	if before, err = a.Rules.now(x.r.Context()); err != nil {
		end()
		return nil, nil, err
	}
	return end, before, nil
}

func (a *Admin) saved(x *apiRequest, before *state, applied *ruleservice.ApplyResult) *SaveResult {
	told := &SaveResult{
		Version: versionOf(&applied.Version), Changed: true, Changes: []rulediff.Change{},
		Problems: append(rules.Problems{}, applied.Warnings...),
	}
	if changes, err := rulediff.Changes(before.files, applied.Version.Text().Files); err == nil { // else the old rules no longer parse
		told.Changes = changes
	}
	if applied.PublishErr != nil {
		told.Published = applied.PublishErr.Error()
	}
	a.Log.Info("rules were saved", "actor", x.who.String(), "version", told.Version.Number, "restores", told.Version.Restores)
	return told
}

func (a *Admin) rollbackRules(x *apiRequest, asked *struct {
	To      int64  `json:"to"`
	Base    *int64 `json:"base"`
	Message string `json:"message"`
}) (any, error) {
	if a.Rules.Service == nil {
		return nil, a.notHere()
	}
	var mistakes wire.FieldErrors
	if asked.To < 1 {
		mistakes.Add("to", "%d is not an earlier version", asked.To)
	}
	if asked.Base == nil {
		mistakes.Add("base", "is missing: the current version")
	}
	if err := mistakes.Err(); err != nil {
		return nil, err
	}
	end, before, err := a.beginChange(x)
	if err != nil {
		return nil, err
	}
	defer end()
	if asked.To == before.number() {
		return nil, refuse(http.StatusConflict, Conflict, fmt.Sprintf("version %d is the current one", asked.To))
	}
	applied, err := a.Rules.Service.Rollback(x.r.Context(), asked.To, ruledb.Change{Base: *asked.Base, Author: x.who.String(), Message: asked.Message})
	if err != nil {
		return nil, err
	}
	return a.saved(x, before, &applied), nil
}
