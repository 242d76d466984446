package admin

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/penstock-io/penstock/internal/ruledb"
)

const (
	rosterFresh = 2 * time.Second // how soon a change on another node is seen
	rosterHolds = time.Hour       // how long people are known while the database is unavailable
	rosterWait  = 2 * time.Second // for the database, by one request at a time
	useEvery    = time.Minute     // between two records of one token's use
)

// A roster is all users and tokens, as they were at a revision. It is not changed.
type roster struct {
	revision int64
	users    map[string]*ruledb.User // by name
	byID     map[int64]*ruledb.User
	tokens   map[string]*ruledb.Token // by id
	byDigest map[digest]*ruledb.Token
}

func newRoster(p *ruledb.People) *roster {
	r := &roster{p.Revision, map[string]*ruledb.User{}, map[int64]*ruledb.User{}, map[string]*ruledb.Token{}, map[digest]*ruledb.Token{}}
	for i := range p.Users {
		u := &p.Users[i]
		r.users[u.Name], r.byID[u.ID] = u, u
	}
	for i := range p.Tokens {
		t := &p.Tokens[i]
		r.tokens[t.ID], r.byDigest[t.Digest] = t, t
	}
	return r
}

// directory knows the users and tokens in the database. It holds them in memory, so that requests with
// tokens, valid or guessed, do not reach the database, and people can keep working for a while when it fails. When it
// is used, it checks for changes if the last check is older than rosterFresh.
type directory struct {
	open func(context.Context) (*ruledb.DB, error) // nil: there is no database
	log  func(msg string, args ...any)
	now  func() time.Time

	reading sync.Mutex // held while the database is asked

	mu     sync.Mutex
	known  *roster   // nil: not read yet
	read   time.Time // when known was last found to be current
	tried  time.Time // when the database was last asked
	failed error     // by the last attempt

	uses    uses
	writing sync.WaitGroup
}

func newDirectory(o *Options) *directory {
	d := &directory{open: o.People, now: o.Now, log: o.Log.Warn}
	if d.open == nil && o.Rules.Service != nil {
		d.open = o.Rules.Service.Database.DB
	}
	d.uses = uses{logins: map[int64]time.Time{}, tokens: map[string]time.Time{}, noted: map[string]time.Time{}}
	return d
}

// database returns the database of people, or why there is none.
func (d *directory) database(ctx context.Context) (*ruledb.DB, error) {
	if d.open == nil {
		return nil, errNoPeople()
	}
	return d.open(ctx)
}

func errNoPeople() *Problem {
	return refuse(http.StatusConflict, Conflict, "users and API tokens need a database, and this node has none: set rules.database or admin.database; until then, log in with admin.token")
}

// get returns the people. They are at most rosterFresh old unless the database is unavailable.
func (d *directory) get(ctx context.Context) (*roster, *Problem) { return d.people(ctx, rosterFresh) }

// latest returns the people as they are in the database now, if it is available.
func (d *directory) latest(ctx context.Context) (*roster, *Problem) { return d.people(ctx, 0) }

// people returns the people, and asks the database first if it was last asked longer ago than fresh. Only one request
// at a time waits for the database; others use what is known.
func (d *directory) people(ctx context.Context, fresh time.Duration) (*roster, *Problem) {
	if d.open == nil {
		return nil, errNoPeople()
	}
	if due, known := d.isDue(fresh); due {
		if fresh == 0 || !known {
			d.reading.Lock()
			d.readUnlock(ctx)
		} else if d.reading.TryLock() {
			d.readUnlock(ctx)
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.known == nil || d.now().Sub(d.read) > rosterHolds {
		return nil, refuse(http.StatusServiceUnavailable, Unavailable, "cannot check users and API tokens because their database is unavailable: see the server log; admin.token works")
	}
	return d.known, nil
}

// isDue reports whether the database was last asked longer ago than fresh, and whether anything is known.
func (d *directory) isDue(fresh time.Duration) (due, known bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	since := d.now().Sub(d.tried)
	if d.failed != nil { // do not wait for a database that is down with every request
		fresh = rosterFresh
	}
	return d.tried.IsZero() || since >= fresh || since < 0, d.known != nil
}

// isStale reports whether the database could not be read when it was last asked.
func (d *directory) isStale() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.failed != nil
}

// changed makes the next request look at the database.
func (d *directory) changed() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.tried = time.Time{}
}

// readUnlock asks the database for changes, and unlocks reading.
func (d *directory) readUnlock(ctx context.Context) {
	defer d.reading.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rosterWait) // others may need the result if this client disconnects
	defer cancel()
	d.mu.Lock()
	known, started := d.known, d.now()
	d.tried = started
	d.mu.Unlock()
	found, err := d.fetch(ctx, known)

	d.mu.Lock()
	defer d.mu.Unlock()
	if err != nil {
		if d.failed == nil {
			d.log("cannot read users and API tokens; using the last known", "error", err)
		}
		d.failed = err
		return
	}
	d.known, d.read, d.failed = found, started, nil
}

// fetch returns the people in the database, or what is known if that is current.
func (d *directory) fetch(ctx context.Context, known *roster) (*roster, error) {
	db, err := d.open(ctx)
	if err != nil {
		return nil, err
	}
	if known != nil {
		if revision, err := db.PeopleRevision(ctx); err != nil || revision == known.revision {
			return known, err
		}
	}
	all, err := db.People(ctx)
	if err != nil {
		return nil, err
	}
	return newRoster(&all), nil
}

// uses are the logins and uses of tokens that are not in the database yet.
type uses struct {
	mu      sync.Mutex
	logins  map[int64]time.Time
	tokens  map[string]time.Time
	noted   map[string]time.Time // when the use of a token was last recorded
	writing bool
}

// used records that a token was used, at most once in useEvery.
func (d *directory) used(id string) {
	u, now := &d.uses, d.now()
	u.mu.Lock()
	defer u.mu.Unlock()
	if last, ok := u.noted[id]; ok && now.Sub(last) < useEvery && !now.Before(last) {
		return
	}
	if len(u.noted) >= ruledb.MaxTokens {
		clear(u.noted) // tokens that were revoked
	}
	u.noted[id], u.tokens[id] = now, now
	d.write()
}

// loggedIn records that a user has logged in.
func (d *directory) loggedIn(id int64) {
	d.uses.mu.Lock()
	defer d.uses.mu.Unlock()
	d.uses.logins[id] = d.now()
	d.write()
}

// write saves uses in the background, unless that is already under way. The caller holds uses.mu.
func (d *directory) write() {
	if d.uses.writing {
		return
	}
	d.uses.writing = true
	d.writing.Go(func() {
		for d.writeSome() {
		}
	})
}

// writeSome saves what there is, and reports whether there may be more.
func (d *directory) writeSome() bool {
	u := &d.uses
	u.mu.Lock()
	logins, tokens := u.logins, u.tokens
	if len(logins)+len(tokens) == 0 {
		u.writing = false
		u.mu.Unlock()
		return false
	}
	u.logins, u.tokens = map[int64]time.Time{}, map[string]time.Time{}
	u.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	db, err := d.open(ctx)
	if err == nil {
		err = db.RecordUse(ctx, logins, tokens)
	}
	if err != nil {
		d.log("cannot record the last use of tokens", "error", err)
	}
	return true
}
