package admin

import (
	"context"
	"runtime"
	"strings"

	"github.com/penstock-io/penstock/internal/password"
	"github.com/penstock-io/penstock/internal/ruledb"
)

// A hash takes a processor and much memory, on a node that decides requests at the same time. So few are made
// concurrently, and few requests wait for that.
const maxHashWaiting = 16

// hashTurns bounds the hashing of passwords.
type hashTurns struct{ running, waiting chan struct{} }

func newHashTurns() *hashTurns {
	return &hashTurns{make(chan struct{}, max(1, min(4, runtime.GOMAXPROCS(0)/2))), make(chan struct{}, maxHashWaiting)}
}

// begin waits for a turn. The caller must call end.
func (t *hashTurns) begin(ctx context.Context) (end func(), err error) {
	return queue(ctx, t.waiting, "%d passwords are waiting to be checked", t.running)
}

// byPassword identifies the client as a user, or refuses the attempt. The response to an unknown user takes as long
// as that to a wrong password.
func (a *Admin) byPassword(x *apiRequest, name, given string) error {
	ctx, l := x.r.Context(), a.logins
	if a.people.open == nil {
		return errNoPeople()
	}
	d, problem := l.take(ctx, l.passwords, "passwords", networkOf(x.who.address), 1)
	if problem == nil && !d.Allowed {
		l.refusals.add(tooMany, x.who.address)
		problem = limited(&d, "more than %d logins by password within %v", maxPasswords, attemptWindow)
	}
	if problem != nil {
		return problem
	}
	if name = strings.ToLower(strings.TrimSpace(name)); ruledb.CheckName(name) != nil {
		name = "" // nobody has it
	}
	u, err := a.checkPassword(x, name, given)
	if err != nil {
		return err
	}
	x.who.credential = credential{user: u.ID, epoch: u.Epoch}
	x.who.identity = identity{role: roleOf(u.Role), user: u}
	a.people.loggedIn(u.ID)
	return nil
}

// checkPassword returns the user with a name and a password. Limits are checked during the turn, so that concurrent
// attempts cannot exceed them.
func (a *Admin) checkPassword(x *apiRequest, name, given string) (*ruledb.User, error) {
	ctx, l := x.r.Context(), a.logins
	if problem := l.mayTry(ctx, x.who.address, name); problem != nil { // without waiting
		return nil, problem
	}
	end, err := l.turns.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	if problem := l.mayTry(ctx, x.who.address, name); problem != nil {
		return nil, problem
	}
	people, problem := a.people.latest(ctx)
	if problem != nil {
		return nil, problem
	}
	u, hash := people.users[name], password.Decoy
	if u != nil {
		hash = u.Password
	}
	ok, outdated, err := password.Verify(hash, given)
	if err != nil {
		return nil, err
	}
	if u == nil || !ok {
		if _, problem := l.take(ctx, l.userFailures, "user", name, 1); problem != nil {
			return nil, problem
		}
		// The text does not say whether there is such a user.
		return nil, l.failed(ctx, x.who.address, wrongPassword, "wrong user name or password")
	}
	if outdated {
		a.rehash(ctx, u, given)
	}
	return u, nil
}

// rehash hashes a password that is known at the moment with today's parameters. If it fails, the next login tries
// again.
func (a *Admin) rehash(ctx context.Context, u *ruledb.User, given string) {
	db, err := a.people.database(ctx)
	if err == nil {
		err = db.Rehash(ctx, u, password.Hash(given))
	}
	if err != nil {
		a.Log.Warn("cannot hash a password with new parameters", "user", u.Name, "error", err)
	}
}

// hashFor returns the hash of a new password for a user. It makes a password if none is given.
func (a *Admin) hashFor(ctx context.Context, name, given string) (hash, made string, err error) {
	if given == "" {
		given = password.Generate()
		made = given
	} else if err := password.Check(given, name); err != nil {
		return "", "", mistake("password", "%v", err)
	}
	end, err := a.logins.turns.begin(ctx)
	if err != nil {
		return "", "", err
	}
	defer end()
	return password.Hash(given), made, nil
}
