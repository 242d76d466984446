package redisstore_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/rueidis"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/internal/redistest"
	"github.com/penstock-io/penstock/memstore"
	"github.com/penstock-io/penstock/redisstore"
	"github.com/penstock-io/penstock/storage"
)

// recorded is the state that a history left in Redis when this format was new. Servers contain such state:
// the file may be extended, but never changed. To record a later format, use a new file.
var recorded = filepath.Join("testdata", fmt.Sprintf("format%d.txt", redisstore.StateFormat))

// history makes requests of every kind: those before, whose state was recorded, and those after, whose
// answers show whether it was understood.
func history(ctx context.Context, s keeper, after bool) (answers []any, err error) {
	names := storage.NewHasher("recorded state")
	nonce, now := uint64(1), monday
	if after {
		nonce, now = 1001, monday+algorithm.Instant(90*time.Second/time.Microsecond)
	}
	take := func(g storage.Group) {
		nonce++
		var out storage.Outcome
		ticket := storage.Ticket{Now: now, MaxDelay: algorithm.AnyDelay, Nonce: nonce, Groups: []storage.Group{g}}
		err = errors.Join(err, s.Take(ctx, &ticket, &out))
		answers = append(answers, out)
	}
	for i, m := range eachKind(time.Hour) {
		for range 2 {
			take(storage.Group{Subject: names.Subject("plain", fmt.Sprint(i)), Charges: []algorithm.Charge{{Meter: m, Cost: 1}}})
		}
	}
	for i, m := range returnable(eachKind(time.Hour)) {
		g := storage.Group{
			Subject: names.Subject("guarded", fmt.Sprint(i)), Charges: []algorithm.Charge{{Meter: m, Cost: 1}},
			Penalty: penaltyOf(2, time.Hour, 2*time.Hour), Dedup: dedupOf(time.Hour), Call: storage.CallID(names.Subject("call", fmt.Sprint(i))), Reserve: time.Hour,
		}
		take(g)
		take(g) // a duplicate of it
		g.Call = storage.CallID(names.Subject("another", fmt.Sprint(i, after)))
		for range 3 {
			take(g)
		}
		if after {
			var out storage.SettleOutcome
			what := storage.Settlement{Now: now, Subject: g.Subject, Nonce: 2 + uint64(2*len(eachKind(time.Hour))) + uint64(5*i), Verb: storage.Release, Charges: g.Charges}
			err = errors.Join(err, s.Settle(ctx, &what, &out))
			answers = append(answers, out)
		}
	}
	for i, m := range eachKind(time.Hour)[:3] { // one is left alone, one has a strike, one is banned
		for range 3 + i {
			take(storage.Group{Subject: names.Subject("struck", fmt.Sprint(i)), Charges: []algorithm.Charge{{Meter: m, Cost: 1}}, Penalty: penaltyOf(2, time.Hour, 2*time.Hour)})
		}
	}
	return answers, err
}

// This version writes exactly the recorded state, and continues from it.
func TestRecordedState(t *testing.T) {
	server, s := serve(t)
	if _, err := history(t.Context(), s, false); err != nil {
		t.Fatal(err)
	}
	client := plainClient(t, server.Addr)
	written := record(t, client)
	if os.Getenv("PENSTOCK_TEST_UPDATE") != "" {
		if err := os.WriteFile(recorded, []byte(written), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	known, err := os.ReadFile(recorded)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(known), written); diff != "" {
		t.Fatalf("the format of state has changed: nodes of two versions on one Redis would not understand each other; see docs/how-to/upgrade.md (-recorded +written)\n%s", diff)
	}
	ask(t, server.Addr, "FLUSHALL")
	restore(t, client, string(known))

	memory, err := memstore.New(memstore.Options{MaxBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer memory.Close()
	if _, err := history(t.Context(), memory, false); err != nil {
		t.Fatal(err)
	}
	want, err := history(t.Context(), memory, true)
	if err != nil {
		t.Fatal(err)
	}
	got, err := history(t.Context(), s, true)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("from recorded state (-want +got)\n%s", diff)
	}
}

// later returns the script of a release with another format, as docs/how-to/upgrade.md requires it: it reads both,
// and writes the old one until it is told that all nodes read the new one.
func later(t *testing.T, writesNew bool) string {
	t.Helper()
	text := redisstore.ScriptText()
	replace := func(old, new string) {
		t.Helper()
		if strings.Count(text, old) != 1 {
			t.Fatalf("the script has %q %d times", old, strings.Count(text, old))
		}
		text = strings.Replace(text, old, new, 1)
	}
	replace("local v = redis.pcall('GET', KEYS[1])\n",
		"local v = redis.pcall('GET', KEYS[1])\nif type(v) == 'string' and string.byte(v) == 2 then v = '\\1' .. sub(v, 2) end\n")
	replace("value = call('MGET', spread(KEYS, 1, subjects))\n",
		"value = call('MGET', spread(KEYS, 1, subjects))\nfor i = 1, subjects do local v = value[i] if v and string.byte(v) == 2 then value[i] = '\\1' .. sub(v, 2) end end\n")
	if writesNew {
		replace("call('SET', KEYS[key], value[key], 'PX', text)", "call('SET', KEYS[key], '\\2' .. sub(value[key], 2), 'PX', text)")
		replace("call('SETRANGE', KEYS[key], '0', value[key])", "call('SETRANGE', KEYS[key], '0', '\\2' .. sub(value[key], 2))")
	}
	return text
}

// An upgrade to a release with another format, and the downgrade, on one Redis under load: each step lets
// exactly the rest of the limit pass.
func TestNodesOfTwoFormats(t *testing.T) {
	server := redistest.Start(t)
	node := func(text string) *redisstore.Store {
		s := dial(t, redisstore.Options{Addresses: []string{server.Addr}})
		if text != "" {
			s.UseScript(text)
		}
		return s
	}
	old, upgraded, switched := node(""), node(later(t, false)), node(later(t, true))
	who, bystander := stranger(), stranger()
	const step = 200
	limit := algorithm.Limit{Algorithm: algorithm.FixedWindow, Count: 4 * step, Window: 300 * 24 * time.Hour}.MustCompile()
	// load sends this many requests to all nodes at once and returns how many pass.
	load := func(calls int, nodes ...*redisstore.Store) int {
		t.Helper()
		var passed, failed atomic.Int64
		var all sync.WaitGroup
		for i := range calls {
			all.Go(func() {
				var out storage.Outcome
				switch err := nodes[i%len(nodes)].Take(t.Context(), one(0, who, charge(limit, 1)), &out); {
				case err != nil:
					failed.Add(1)
					t.Error(err)
				case out.Allowed:
					passed.Add(1)
				}
			})
		}
		all.Wait()
		return int(passed.Load())
	}
	format := func() byte { return ask(t, server.Addr, "GET", redisstore.SubjectKey(prefix, who))[0] }
	for i, phase := range []struct {
		name   string
		nodes  []*redisstore.Store
		format byte
	}{
		{"half of the nodes are upgraded", []*redisstore.Store{old, upgraded}, 1},
		{"all are, some are told to write the new format", []*redisstore.Store{upgraded, switched}, 0},
		{"all write it", []*redisstore.Store{switched}, 2},
	} {
		if passed := load(step, phase.nodes...); passed != step {
			t.Fatalf("%s: %d of %d passed", phase.name, passed, step)
		}
		if got := used(t, upgraded, 0, who, limit); got != int64((i+1)*step) {
			t.Fatalf("%s: %d are used, want %d", phase.name, got, (i+1)*step)
		}
		if phase.format != 0 && format() != phase.format {
			t.Fatalf("%s: the state is of format %d, want %d", phase.name, format(), phase.format)
		}
	}

	// A node of the previous release must neither guess nor destroy.
	var out storage.Outcome
	err := old.Take(t.Context(), one(0, who, charge(limit, 1)), &out)
	if !errors.Is(err, storage.ErrCorrupt) || !errors.Is(err, storage.ErrUnavailable) || format() != 2 {
		t.Fatalf("an old node on the new format: %v; now it is of format %d", err, format())
	}
	if !hit(t, old, 0, bystander, limit) {
		t.Error("an old node denies others")
	}

	// The downgrade: first the format, then the release.
	if passed := load(step/2, switched, upgraded); passed != step/2 {
		t.Fatalf("on the way back %d of %d passed", passed, step/2)
	}
	take(t, upgraded, one(0, who, charge(limit, 1)))
	if passed := load(4*step, upgraded, old); passed != step/2-1 {
		t.Errorf("in the end %d passed, want %d", passed, step/2-1)
	}
}

func plainClient(t *testing.T, addr string) rueidis.Client {
	t.Helper()
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, ForceSingleClient: true, DisableCache: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// How to read and write each type of key as a whole.
var dumping = map[string]struct {
	read  []string // before and after the key
	write []string
}{
	"string": {[]string{"GET"}, []string{"SET"}},
	"list":   {[]string{"LRANGE", "0", "-1"}, []string{"RPUSH"}},
	"zset":   {[]string{"ZRANGE", "0", "-1", "WITHSCORES"}, []string{"ZADD"}},
	"hash":   {[]string{"HGETALL"}, []string{"HSET"}},
}

// record writes all keys, one per line: type, key and contents in hex.
func record(t *testing.T, client rueidis.Client) string {
	t.Helper()
	do := func(words ...string) rueidis.RedisResult {
		return client.Do(t.Context(), client.B().Arbitrary(words...).Build())
	}
	keys, err := do("KEYS", "*").AsStrSlice()
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(keys)
	var b bytes.Buffer
	for _, key := range keys {
		kind, err := do("TYPE", key).ToString()
		if err != nil || dumping[kind].read == nil {
			t.Fatalf("%s is of type %q: %v", key, kind, err)
		}
		read := dumping[kind].read
		reply := do(append([]string{read[0], key}, read[1:]...)...)
		var parts []string
		switch kind {
		case "string":
			text, readErr := reply.ToString()
			parts, err = []string{text}, readErr
		case "zset":
			scores, readErr := reply.AsZScores()
			for _, z := range scores {
				parts = append(parts, fmt.Sprintf("%.0f", z.Score), z.Member)
			}
			err = readErr
		case "hash":
			fields, readErr := reply.AsStrMap()
			for _, name := range slices.Sorted(maps.Keys(fields)) {
				parts = append(parts, name, fields[name])
			}
			err = readErr
		default:
			parts, err = reply.AsStrSlice()
		}
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%s %s", kind, key)
		for _, part := range parts {
			fmt.Fprintf(&b, " %x", part)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// restore restores what record wrote.
func restore(t *testing.T, client rueidis.Client, text string) {
	t.Helper()
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		command := append(slices.Clone(dumping[words[0]].write), words[1])
		for _, word := range words[2:] {
			part, err := hex.DecodeString(word)
			if err != nil {
				t.Fatal(err)
			}
			command = append(command, string(part))
		}
		if err := client.Do(t.Context(), client.B().Arbitrary(command...).Build()).Error(); err != nil {
			t.Fatalf("%v: %v", command, err)
		}
	}
}
