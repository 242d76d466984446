package hot

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"github.com/penstock-io/penstock/bench/report"
	"github.com/penstock-io/penstock/redisstore"
)

// NodeFigures are the figures of ByNodes.
var NodeFigures = []string{"exact: nodes and clients", "exact: Redis", "leased: nodes and clients", "leased: Redis"}

// ByNodes returns the processor time per decision, in µs, if that many nodes decide on one key with 128 clients
// altogether: of the nodes with their clients, and of Redis, for exact and for leased decisions. The nodes are engines
// of this process, each with its own connections, leases and deny cache.
func ByNodes(ctx context.Context, addr string, nodes int, cell time.Duration) (figures []float64, err error) {
	s, err := compile(roomy)
	if err != nil {
		return nil, err
	}
	b := &bench{addr: addr, progress: &report.Progress{}}
	defer b.close()
	l := load{callers: 128, user: fmt.Sprint(nodes, " nodes"), duration: cell, window: roomyWindow}
	for range nodes {
		n, err := openNode(redisstore.Options{Addresses: []string{addr}}, s)
		if err != nil {
			return nil, err
		}
		b.nodes = append(b.nodes, n)
		l.nodes = append(l.nodes, n)
	}
	for _, l.path = range []string{exactPath, leasedPath} {
		l.duration = cell / 4
		if _, err := l.run(ctx); err != nil { // connects, and takes the first leases
			return nil, err
		}
		l.duration = cell
		before := processorTime()
		result, c, err := b.run(ctx, l)
		if err != nil {
			return nil, err
		}
		used := processorTime() - before
		if n := result.admitted(); n != result.decisions {
			return nil, fmt.Errorf("%d of %d requests were denied; the limit has room for all", result.decisions-n, result.decisions)
		}
		figures = append(figures, float64(used.Microseconds())/float64(result.decisions), c.micros)
	}
	return figures, nil
}

// processorTime returns what this process has used so far.
func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0 // cannot fail for our own process
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
