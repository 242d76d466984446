package race

import (
	"fmt"
	"strings"
)

// helpText takes the command's name, the ways, and the name twice more.
const helpText = `usage: %s [flags]

What does a limit of 10 per minute admit when 50 callers arrive at the same
instant, from several processes? It depends on how the count is kept. This runs
the usual ways on a real Redis and counts what each caller was told.

Several clients ("nodes") connect to one server, each through a proxy that adds
a round trip. Callers wait at a barrier, are released together, and each charges
one call to the same key. Every trial uses a fresh key.

The ways:
%s
Reading the table:
  admitted        callers allowed: min–max (median) over the trials
  over            allowed above the limit, in the worst trial
  falsely denied  room left unused although callers asked, in the worst trial
  logged          members in the log afterwards; more than were admitted means
                  that denied callers were charged too
  trips           waits for the server, one after another, per call
  retries         further attempts, per call
  commands        what the server executed per call, inside scripts too
  p50, p99        from a caller's release to its answer

Examples:
  %s --redis 127.0.0.1:6379 --trials 5 --callers 50 --rtt 1ms --contention ""
  %s --redis 127.0.0.1:6379 --ways "check then add,EVALSHA" --svg charts

Flags:
`

func waysHelp(ways []Way) string {
	var b strings.Builder
	for _, w := range ways {
		fmt.Fprintf(&b, "  %s\n      %s\n", w.Name, w.What)
	}
	return b.String()
}
