package doctor

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/internal/config"
	"github.com/penstock-io/penstock/internal/spelling"
	"github.com/penstock-io/penstock/redisstore"
	"github.com/penstock-io/penstock/storage"
)

// examineScript makes the store decide as it would for requests, for clients that do not exist.
func (d *doctor) examineScript(ctx context.Context, options redisstore.Options) {
	budget := options.Timeout
	options.Timeout, options.ConnectTimeout = d.Timeout, d.Timeout
	store, err := redisstore.Open(options)
	if err == nil {
		defer store.Close()
		_, err = timeDecision(ctx, store) // may have to load the script first
	}
	const decisions = 25
	var took []time.Duration
	for i := 0; i < decisions && err == nil; i++ {
		var trip time.Duration
		trip, err = timeDecision(ctx, store)
		took = append(took, trip)
	}
	if err != nil {
		d.fail("decisions", "see the checks above; docs/reference/redis.md", "the decision script fails: %v", err)
		return
	}
	slices.Sort(took)
	median, slowest := took[len(took)/2], took[len(took)-1]
	const fix = "move Redis closer, reduce its load, or increase store.redis.timeout"
	text := fmt.Sprintf("%s took %s (median) and %s (slowest); the timeout is %s", spelling.Count(len(took), "decision"), span(median), span(slowest), budget)
	switch {
	case median >= budget:
		d.fail("decisions", fix, "%s: on_store_error would decide most requests", text)
	case median >= budget/2:
		d.warn("decisions", fix, "%s: on_store_error will decide some requests", text)
	default:
		d.ok("decisions", "%s", text)
	}
}

// doctorLimit is short, so that its counters expire soon.
var doctorLimit = penstock.Limit{Algorithm: penstock.FixedWindow, Count: 1, Window: time.Second}.MustCompile()

func timeDecision(ctx context.Context, store penstock.Store) (time.Duration, error) {
	ticket := storage.Ticket{Groups: []storage.Group{{
		Subject: storage.NewHasher(config.NewToken()).Subject("penstock doctor", "nobody"),
		Charges: []algorithm.Charge{{Meter: doctorLimit, Cost: 1}},
	}}}
	var out storage.Outcome
	start := time.Now()
	err := store.Take(ctx, &ticket, &out)
	return time.Since(start), err
}

// sampledKeys is how many keys the format check reads.
const sampledKeys = 200

// examineFormat checks whether a sample of states has the format that this program reads.
func (d *doctor) examineFormat(ctx context.Context, s *redisServer) {
	seen, others, err := s.formats(ctx, d.Config.Store.Redis.KeyPrefix)
	const fix = "see which versions of Penstock share this Redis; docs/how-to/upgrade.md"
	switch {
	case mayNot(err):
		d.unknown("format", "ACL SETUSER "+d.user()+" +scan", "the Redis user may not list keys, so no state was checked")
	case err != nil:
		d.unknown("format", "", "no state was checked: %v", err)
	case len(others) > 0:
		d.fail("format", fix, "some of %s have format %s, but this Penstock supports format %d: it leaves them alone, and on_store_error decides for their clients",
			spelling.Count(seen, "state"), strings.Join(others, ", "), redisstore.StateFormat)
	case seen == 0:
		d.ok("format", "no state yet")
	default:
		d.ok("format", "%s checked, all of format %d", spelling.Count(seen, "state"), redisstore.StateFormat)
	}
}

// formats samples the states and returns the formats that differ from this program's.
func (s *redisServer) formats(ctx context.Context, prefix string) (seen int, others []string, err error) {
	const rounds, atOnce = 20, "200"
	cursor := "0"
	for range rounds {
		entry, err := s.do(ctx, "SCAN", cursor, "MATCH", prefix+"{*}", "COUNT", atOnce).AsScanEntry()
		if err != nil {
			return seen, nil, err
		}
		for _, key := range entry.Elements {
			if len(key) != len(prefix)+len("{}")+len(storage.Subject{}.String()) || seen == sampledKeys {
				continue
			}
			value, err := s.do(ctx, "GET", key).ToString()
			if err != nil || value == "" {
				continue // expired meanwhile, or not ours
			}
			seen++
			if format := strconv.Itoa(int(value[0])); value[0] != redisstore.StateFormat && !slices.Contains(others, format) {
				others = append(others, format)
			}
		}
		if cursor = strconv.FormatUint(entry.Cursor, 10); cursor == "0" || seen == sampledKeys {
			break
		}
	}
	return seen, others, nil
}
