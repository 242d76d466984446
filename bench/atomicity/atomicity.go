// Package atomicity compares the usual ways of keeping a limit in Redis under contention and shows which of them
// enforce it.
package atomicity

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/bench/lab"
	"github.com/penstock-io/penstock/bench/limiter"
	"github.com/penstock-io/penstock/bench/report"
	"github.com/penstock-io/penstock/redisstore"
	"github.com/penstock-io/penstock/storage"
)

const (
	nodes = 4 // independent clients, each with its own connection and delay

	// patience bounds a request. It is shorter than the window, which must not slide during a burst.
	patience = 30 * time.Second
)

var limit = limiter.Limit{Count: 10, Window: time.Minute}

// A load is how many clients are released at once, over a network with this round trip added.
type load struct {
	callers   int
	roundTrip time.Duration
}

// loads are many callers over each network, and growing numbers over one.
var loads = []load{
	{50, 0}, {100, 0}, {50, 2 * time.Millisecond}, {100, 2 * time.Millisecond},
	{2, time.Millisecond}, {5, time.Millisecond}, {10, time.Millisecond}, {20, time.Millisecond}, {50, time.Millisecond}, {100, time.Millisecond},
}

// Measure runs every way under every load.
func Measure(b *lab.Bench) report.Section {
	server := b.Redis()
	s := report.Section{
		Name: "atomicity", Title: fmt.Sprintf("What a limit of %d per minute in Redis admits, by how it is counted", limit.Count),
		Notes: []string{
			fmt.Sprintf("%d clients (nodes) connect to one server, each through a proxy that adds a round trip. Callers wait at a barrier, are released together, and each charges one call to the same key. Every trial uses a fresh key. Redis %s.", nodes, server.Info("server", "redis_version")),
			"Admitted: callers that were allowed, the median of the trials, the least and the most. Logged: members in the log afterwards; more than were admitted means that denied callers were charged too. Trips: waits for the server, one after another. Retries: further attempts. Commands: what the server executed, inside scripts too. p50 and p99: from a caller's release to its answer.",
		},
	}
	for _, w := range ways {
		s.Notes = append(s.Notes, w.name+": "+w.what+".")
	}
	for _, l := range loads {
		l.callers = b.Size(l.callers)
		t := newTable(fmt.Sprintf("%d callers at once, %v of added round trip", l.callers, l.roundTrip))
		for _, w := range ways {
			b.Step("%s, %d callers, %v", w.name, l.callers, l.roundTrip)
			b.Scope(func() { race(b, server, t, w, l) })
		}
		s.Tables = append(s.Tables, t)
	}
	return s
}

func newTable(title string) *report.Table {
	return report.NewTable(title, report.Less.In("callers", "admitted"), report.More.In("callers", "least"), report.Less.In("callers", "most"),
		report.Less.In("members", "logged"), report.Less.In("/call", "trips", "retries", "commands"),
		report.Less.In("ms", "p50", "p99"), report.Less.In("callers", "gave up"))
}

// Columns.
const admitted, least, most, logged, trips, retries, commands, p50, gaveUp = 0, 1, 2, 3, 4, 5, 6, 7, 9

// A node is one process's view of Redis.
type node struct {
	client rueidis.Client // one pipelined connection
	store  *redisstore.Store
}

func openNode(b *lab.Bench, addr string, roundTrip time.Duration) *node {
	if roundTrip > 0 {
		addr = b.Delay(addr, roundTrip)
	}
	// No retries: a charge that is sent again counts twice.
	client := lab.Must(rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{addr}, DisableCache: true, DisableRetry: true, ForceSingleClient: true, PipelineMultiplex: -1,
	}))
	b.Cleanup(client.Close)
	return &node{client, b.Store(addr)}
}

// race measures a way under a load: one burst that is not counted, because it opens connections and loads scripts, then
// the trials, each on its own key.
func race(b *lab.Bench, server lab.Redis, t *report.Table, w way, l load) {
	var all []*node
	for range nodes {
		all = append(all, openNode(b, server.Addr, l.roundTrip))
	}
	burst(b, all, w, l.callers, "penstock-race:first")
	var took []float64 // ms
	fewest, highest := l.callers, 0
	for range b.Repeat {
		key := fmt.Sprintf("penstock-race:%016x", rand.Uint64())
		before := commandsExecuted(server)
		outcomes := burst(b, all, w, l.callers, key)
		executed := commandsExecuted(server) - before
		passed, failed, waited, again := 0, 0, 0, 0
		for _, o := range outcomes {
			switch {
			case errors.Is(o.err, context.DeadlineExceeded), errors.Is(o.err, os.ErrDeadlineExceeded):
				failed++
			case o.err != nil:
				lab.Check(o.err)
			case o.allowed:
				passed++
			}
			waited, again, took = waited+o.made, again+o.retries, append(took, o.took.Seconds()*1e3)
		}
		perCall := func(n int) float64 { return float64(n) / float64(l.callers) }
		t.Add(w.name, w.role(), admitted, float64(passed))
		t.Add(w.name, w.role(), logged, server.Number("ZCARD", key), perCall(waited), perCall(again), perCall(executed))
		t.Add(w.name, w.role(), gaveUp, float64(failed))
		server.Command("UNLINK", key, "penstock-race:first")
		fewest, highest = min(fewest, passed), max(highest, passed)
	}
	t.Add(w.name, w.role(), least, float64(fewest), float64(highest))
	slices.Sort(took)
	t.Add(w.name, w.role(), p50, took[(len(took)-1)/2], took[(len(took)*99+99)/100-1])
}

type outcome struct {
	request
	allowed bool
	took    time.Duration
	err     error
}

// burst releases clients at once against one key and waits for all of them. Clients are assigned to nodes in turn.
func burst(ctx context.Context, all []*node, w way, callers int, key string) []outcome {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	outcomes := make([]outcome, callers)
	var ready sync.WaitGroup
	ready.Add(callers)
	_ = lab.Parallel(callers, func(i int) error {
		o := &outcomes[i]
		o.node = all[i%len(all)]
		o.client = o.node.client
		ready.Done()
		ready.Wait() // for the others
		start := time.Now()
		o.allowed, o.err = w.take(ctx, &o.request, key)
		o.took = time.Since(start)
		return nil // every error is an outcome
	})
	return outcomes
}

// notTheirs are commands of connections and of this program, not of a way.
var notTheirs = []string{"info", "ping", "hello", "client"}

// commandsExecuted returns how many commands of ways the server has run.
func commandsExecuted(server lab.Redis) (sum int) {
	for command, calls := range server.Calls() {
		if name, _, _ := strings.Cut(command, "|"); !slices.Contains(notTheirs, name) {
			sum += int(calls)
		}
	}
	return sum
}

// A way is one way of deciding requests against a limit kept in Redis.
type way struct {
	name string // a row of the table
	what string // the commands it sends and when it allows

	take func(ctx context.Context, t *request, key string) (allowed bool, err error)
}

func (w way) role() report.Role {
	if w.name == "Penstock" {
		return report.Ours
	}
	return report.Peer
}

// ways are the techniques people use, in the order they tend to try them, and Penstock's own.
var ways = []way{
	{"check then add", "ZREMRANGEBYSCORE, ZCARD; below the limit: ZADD + PEXPIRE", checkThenAdd},
	{"four steps", "ZREMRANGEBYSCORE, ZADD, PEXPIRE, ZCARD, a trip each; allowed if the count is within the limit",
		func(ctx context.Context, t *request, key string) (bool, error) {
			return fourSteps(ctx, t, key, limiter.NewMember())
		}},
	// Members made of the request are the same for a burst of identical requests, and a sorted set keeps each once.
	{"four steps (shared member)", "the same, the member being a fingerprint of the request, equal for all callers",
		func(ctx context.Context, t *request, key string) (bool, error) {
			return fourSteps(ctx, t, key, "fingerprint")
		}},
	{"MULTI/EXEC", "ZREMRANGEBYSCORE, ZADD, ZCARD, PEXPIRE in one transaction; allowed if the count is within the limit", transaction},
	{"lock", "SET NX PX, spinning with back-off; check then add; release by a script that compares the token", locked},
	{"WATCH + retry", "WATCH + ZCOUNT, then MULTI/EXEC (or UNWATCH); retried when EXEC is refused", optimistic},
	{"EVAL", "check and add in one script, its text sent with every call", scriptText},
	{"EVALSHA", "the same script, named by its hash", scriptHash},
	{"Penstock", "EVALSHA of a general script; callers of one node that would wait travel together", ownStore},
}

// A request sends the commands of one request and counts how often it waits for Redis.
type request struct {
	node          *node
	client        rueidis.CoreClient
	made, retries int
}

// send waits for one command's integer reply.
func (t *request) send(ctx context.Context, cmd rueidis.Completed) (int64, error) {
	t.made++
	return t.client.Do(ctx, cmd).AsInt64()
}

// sendTogether waits once for several commands sent in one write.
func (t *request) sendTogether(ctx context.Context, cmds ...rueidis.Completed) ([]rueidis.RedisResult, error) {
	t.made++
	results := t.client.DoMulti(ctx, cmds...)
	for i, r := range results {
		if err := r.Error(); err != nil && !rueidis.IsRedisNil(err) {
			return nil, fmt.Errorf("command %d of %d sent together: %w", i+1, len(cmds), err)
		}
	}
	return results, nil
}

// logCommands are the commands of a sliding-window log in a sorted set: one member per request, scored by its instant
// in microseconds, by the client's clock.
type logCommands struct{ clean, count, countFresh, add, expire rueidis.Completed }

func commandsOf(c rueidis.CoreClient, key string) logCommands {
	now := time.Now()
	oldest := fmt.Sprint(now.Add(-limit.Window).UnixMicro())
	return logCommands{
		clean:      c.B().Zremrangebyscore().Key(key).Min("-inf").Max(oldest).Build(),
		count:      c.B().Zcard().Key(key).Build(),
		countFresh: c.B().Zcount().Key(key).Min("(" + oldest).Max("+inf").Build(), // without cleaning first
		add:        c.B().Arbitrary("ZADD").Keys(key).Args(fmt.Sprint(now.UnixMicro()), limiter.NewMember()).Build(),
		expire:     c.B().Pexpire().Key(key).Milliseconds(limit.Window.Milliseconds()).Build(),
	}
}

// checkThenAdd reads, then acts on what it read. That is correct only if no other client acts in between.
func checkThenAdd(ctx context.Context, t *request, key string) (bool, error) {
	c := commandsOf(t.client, key)
	if _, err := t.send(ctx, c.clean); err != nil {
		return false, err
	}
	if n, err := t.send(ctx, c.count); err != nil || n >= limit.Count {
		return false, err
	}
	_, err := t.sendTogether(ctx, c.add, c.expire)
	return err == nil, err
}

func fourSteps(ctx context.Context, t *request, key, member string) (bool, error) {
	return limiter.FourSteps(t.client, func(c rueidis.Completed) (int64, error) { return t.send(ctx, c) }, key, member, limit)
}

func transaction(ctx context.Context, t *request, key string) (bool, error) {
	c := commandsOf(t.client, key)
	results, err := t.sendTogether(ctx, t.client.B().Multi().Build(), c.clean, c.add, c.count, c.expire, t.client.B().Exec().Build())
	if err != nil {
		return false, err
	}
	replies, err := results[len(results)-1].AsIntSlice()
	if err != nil || len(replies) != 4 {
		return false, fmt.Errorf("EXEC: %d replies: %w", len(replies), err)
	}
	return replies[2] <= limit.Count, nil
}

//go:embed unlock.lua
var unlockScript string

const (
	lockLife = 10 * time.Second // frees the lock of a holder that died; far longer than a holder needs here
	// A waiter sleeps a random part of a pause that doubles: short enough for a fast network, long enough not to
	// overload the server.
	firstPause, longestPause = 500 * time.Microsecond, 16 * time.Millisecond
)

func locked(ctx context.Context, t *request, key string) (allowed bool, err error) {
	lock, token := "{"+key+"}:lock", limiter.NewMember()
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		results, err := t.sendTogether(ctx, t.client.B().Set().Key(lock).Value(token).Nx().Px(lockLife).Build())
		if err != nil {
			return false, err
		}
		if !rueidis.IsRedisNil(results[0].Error()) {
			break
		}
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-time.After(pause/2 + rand.N(pause/2+1)):
		}
		t.retries++
	}
	allowed, err = checkThenAdd(ctx, t, key)
	unlock := t.client.B().Eval().Script(unlockScript).Numkeys(1).Key(lock).Arg(token).Build()
	_, failed := t.send(context.WithoutCancel(ctx), unlock) // others wait for it
	return allowed, errors.Join(err, failed)
}

// optimistic is implemented in its best form: WATCH and the count are sent together, so an attempt is two trips. WATCH
// guards a connection, so clients cannot share one.
func optimistic(ctx context.Context, t *request, key string) (allowed bool, err error) {
	conn, giveBack := t.node.client.Dedicate()
	defer giveBack()
	t.client = conn
	for ; ctx.Err() == nil; t.retries++ {
		c := commandsOf(conn, key)
		seen, err := t.sendTogether(ctx, conn.B().Watch().Key(key).Build(), c.countFresh)
		if err != nil {
			return false, err
		}
		if n, err := seen[1].AsInt64(); err != nil || n >= limit.Count {
			_, failed := t.sendTogether(ctx, conn.B().Unwatch().Build())
			return false, errors.Join(err, failed)
		}
		results, err := t.sendTogether(ctx, conn.B().Multi().Build(), c.clean, c.add, c.expire, conn.B().Exec().Build())
		if err != nil || !rueidis.IsRedisNil(results[len(results)-1].Error()) {
			return err == nil, err
		}
	}
	return false, ctx.Err()
}

//go:embed take.lua
var takeScript string

var takeByHash = rueidis.NewLuaScript(takeScript)

func takeArgs() []string {
	return []string{fmt.Sprint(limit.Count), fmt.Sprint(limit.Window.Microseconds()), limiter.NewMember()}
}

func scriptText(ctx context.Context, t *request, key string) (bool, error) {
	n, err := t.send(ctx, t.client.B().Eval().Script(takeScript).Numkeys(1).Key(key).Arg(takeArgs()...).Build())
	return n == 1, err
}

// scriptHash sends the text only to a server that does not have the script.
func scriptHash(ctx context.Context, t *request, key string) (bool, error) {
	t.made++
	n, err := takeByHash.Exec(ctx, t.node.client, []string{key}, takeArgs()).AsInt64()
	return n == 1, err
}

var hasher = storage.NewHasher("")

// ownStore is Penstock's store, with the same kind of limit as the other ways, an exact log.
func ownStore(ctx context.Context, t *request, key string) (bool, error) {
	meter := penstock.Limit{Algorithm: penstock.SlidingWindowLog, Count: limit.Count, Window: limit.Window}.MustCompile()
	t.made++
	var out storage.Outcome
	err := t.node.store.Take(ctx, &storage.Ticket{Groups: []storage.Group{{
		Subject: hasher.Subject("race", "one", penstock.Attribute{Name: "key", Value: key}),
		Charges: []algorithm.Charge{{Meter: meter, Cost: 1}},
	}}}, &out)
	return out.Allowed, err
}
