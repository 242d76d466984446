package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/penstock-io/penstock/internal/ruledb"
	"github.com/penstock-io/penstock/rules"
	"github.com/penstock-io/penstock/rules/live"
)

// A RuleSet is the rules as their origin has them.
type RuleSet struct {
	Kind     Kind   `json:"kind"`
	Origin   string `json:"origin"`
	Editable bool   `json:"editable"`         // through this API
	Reason   string `json:"reason,omitempty"` // why not

	Version  *Version   `json:"version,omitempty"` // omitted if the origin keeps no versions, or has none yet
	Checksum string     `json:"checksum"`
	Document string     `json:"document"`        // empty if there are several files
	Files    []RuleFile `json:"files,omitempty"` // several files that form one set

	Served   RulesStatus    `json:"served"` // what this node decides by, which may be older
	Rules    []RuleView     `json:"rules"`
	Problems rules.Problems `json:"problems"` // warnings, and the errors that keep it from being served
}

// A RuleFile is one file of several.
type RuleFile struct {
	Name     string `json:"name"`
	Document string `json:"document"`
}

// A Version is one revision of the rules.
type Version struct {
	Number   int64     `json:"version"`
	At       time.Time `json:"at"`
	Author   string    `json:"author"`
	Message  string    `json:"message"`
	Restores int64     `json:"restores,omitempty"` // the version whose document this one restores
	Size     int       `json:"bytes"`
	Document string    `json:"document,omitempty"` // only where a single version is requested
}

func versionOf(v *ruledb.Version) Version {
	return Version{Number: v.Number, At: v.At, Author: v.Author, Message: v.Message, Restores: v.Restores, Size: v.Size}
}

// A state is the current rules of the origin.
type state struct {
	files    []rules.File
	checksum string
	version  *ruledb.Version // nil: the origin keeps no versions, or has none yet
}

// none is the document before the first version.
var none = rules.File{Name: "rules", Data: []byte("rules: []\n")}

// now reads the rules from their origin.
func (r *Rules) now(ctx context.Context) (*state, error) {
	if r.Service != nil {
		db, err := r.Service.Database.DB(ctx)
		if err != nil {
			return nil, err
		}
		current, err := db.Current(ctx)
		if err != nil {
			return nil, err
		}
		if current.Number == 0 {
			return &state{files: []rules.File{none}}, nil
		}
		text := current.Text()
		return &state{files: text.Files, checksum: text.Checksum(), version: &current}, nil
	}
	text, err := r.Origin.Read(ctx)
	if errors.Is(err, live.ErrNoRules) {
		return &state{files: []rules.File{none}}, nil
	}
	if err != nil {
		return nil, refuse(http.StatusServiceUnavailable, Unavailable, err.Error())
	}
	return &state{files: text.Files, checksum: text.Checksum()}, nil
}

// number returns the number of the version, or 0 if there is none.
func (s *state) number() int64 {
	if s.version == nil {
		return 0
	}
	return s.version.Number
}

// compile compiles rules. It returns this node's own snapshot if that has the same checksum.
func (a *Admin) compile(ctx context.Context, files []rules.File, checksum string) (*rules.Snapshot, rules.Problems, error) {
	if served := a.Rules.Live.Load(); checksum != "" && served.Checksum == checksum {
		return served, a.Rules.Live.Status().Warnings, nil
	}
	return rules.CompileContext(ctx, files, a.Rules.Compile)
}

func (a *Admin) readRules(x *apiRequest) (any, error) {
	if err := x.query().err(); err != nil {
		return nil, err
	}
	now, err := a.Rules.now(x.r.Context())
	if err != nil {
		return nil, err
	}
	set := &RuleSet{
		Kind: a.Rules.Kind, Origin: a.Rules.Origin.String(), Editable: a.Rules.Service != nil,
		Checksum: now.checksum, Served: a.Rules.Status(), Rules: []RuleView{}, Problems: rules.Problems{},
	}
	if !set.Editable {
		set.Reason = a.notHere().Detail
	}
	if now.version != nil {
		set.Version = new(versionOf(now.version))
	}
	if len(now.files) == 1 {
		set.Document = string(now.files[0].Data)
	} else {
		set.Files = each(now.files, func(f *rules.File) RuleFile { return RuleFile{f.Name, string(f.Data)} })
	}
	if a.Rules.Kind == Envoy {
		return set, nil // not in the format of rules: there is nothing to compile
	}
	return set, a.show(x, now, set)
}

// show adds the single rules, as compiled.
func (a *Admin) show(x *apiRequest, now *state, set *RuleSet) error {
	end, err := x.begin()
	if err != nil {
		return err
	}
	defer end()
	snapshot, warnings, err := a.compile(x.r.Context(), now.files, now.checksum)
	set.Problems = append(set.Problems, warnings...)
	if mistakes, ok := errors.AsType[rules.Problems](err); ok {
		set.Problems = append(mistakes, set.Problems...)
		return nil
	}
	if err != nil {
		return err
	}
	set.Rules, err = views(now.files, snapshot)
	return err
}

// notHere returns the problem that rules cannot be changed here, and says where they can.
func (a *Admin) notHere() *Problem {
	where := map[Kind]string{
		Files: "files: change them there", Envoy: "elsewhere, in the format of envoyproxy/ratelimit: change them there",
		Redis: "a node that has the database: change them at its admin API, or with penstock rules apply",
	}[a.Rules.Kind]
	return refuse(http.StatusConflict, Conflict, fmt.Sprintf("the rules come from %s (%v)", where, a.Rules.Origin))
}

// database returns the database with the versions and the audit log.
func (a *Admin) database(ctx context.Context) (*ruledb.DB, error) {
	return a.databaseFor(ctx, "versions and the audit log need a database, but the rules come from %v")
}

// databaseFor returns the database of the rules. missing is the format of the error if there is none.
func (a *Admin) databaseFor(ctx context.Context, missing string) (*ruledb.DB, error) {
	if a.Rules.Service == nil {
		return nil, refuse(http.StatusNotFound, NotFound, fmt.Sprintf(missing, a.Rules.Origin))
	}
	return a.Rules.Service.Database.DB(ctx)
}

// maxPage bounds the number of versions or audit entries in one response.
const maxPage = 200

// page reads which part of a list is requested, and returns the database to read it from.
func (a *Admin) page(x *apiRequest, open func(context.Context) (*ruledb.DB, error)) (db *ruledb.DB, before int64, limit int, err error) {
	q := x.query()
	before, limit = q.number("before", 0, 0, 1<<53), int(q.number("limit", 50, 1, maxPage))
	if err := q.err(); err != nil {
		return nil, 0, 0, err
	}
	db, err = open(x.r.Context())
	return db, before, limit, err
}

// Versions are a page of the history.
type Versions struct {
	Versions []Version `json:"versions"`       // newest first
	Next     int64     `json:"next,omitempty"` // the next page starts before this one
}

func (a *Admin) versions(x *apiRequest) (any, error) {
	db, before, limit, err := a.page(x, a.database)
	if err != nil {
		return nil, err
	}
	found, err := db.History(x.r.Context(), before, limit)
	if err != nil {
		return nil, err
	}
	page := Versions{Versions: each(found, versionOf)}
	if n := len(found); n == limit && found[n-1].Number > 1 {
		page.Next = found[n-1].Number
	}
	return page, nil
}

func (a *Admin) version(x *apiRequest) (any, error) {
	number, err := strconv.ParseInt(x.r.PathValue("number"), 10, 64)
	if err != nil || number < 1 {
		return nil, invalid("invalid version %.32q: must be a number from 1 on", x.r.PathValue("number"))
	}
	db, err := a.database(x.r.Context())
	if err != nil {
		return nil, err
	}
	found, err := db.Version(x.r.Context(), number)
	if err != nil {
		return nil, err
	}
	told := versionOf(&found)
	told.Document = string(found.Document)
	return told, nil
}

func schema(x *apiRequest) (any, error) {
	x.w.Header().Set("Content-Type", "application/schema+json")
	_, _ = x.w.Write(rules.Schema())
	return responseWritten{}, nil
}
