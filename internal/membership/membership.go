package membership

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstock-io/penstock"
)

// Most is how many nodes are believed. What counts more is broken.
const Most = 10_000

// Options of a membership.
type Options struct {
	// Beat says that this node is alive, and returns how many are.
	Beat func(context.Context) (nodes int, err error)

	// File keeps the last number for the next start; "": it is not kept. Failed is told when it
	// cannot be.
	File   string
	Failed func(error)

	Interval time.Duration // between two beats; default 3 s
	Timeout  time.Duration // of one; default 1 s
}

// Members is how many nodes there are. It may be asked by any number of goroutines.
type Members struct {
	options Options
	nodes   atomic.Int64
	stop    context.CancelFunc
	ended   sync.WaitGroup
}

// Join begins to beat. Before the first beat the number is the last one on disk, or 1.
func Join(o Options) (*Members, error) {
	if o.Beat == nil || o.Interval < 0 || o.Timeout < 0 {
		return nil, fmt.Errorf("join the nodes: %w: it needs a beat, and interval %v and timeout %v must be positive", penstock.ErrInvalid, o.Interval, o.Timeout)
	}
	o.Interval, o.Timeout = cmp.Or(o.Interval, 3*time.Second), cmp.Or(o.Timeout, time.Second)
	if o.Failed == nil {
		o.Failed = func(error) {}
	}
	m := &Members{options: o}
	m.nodes.Store(1)
	if o.File != "" {
		if n, err := read(o.File); err == nil {
			m.nodes.Store(n)
		} else if !errors.Is(err, os.ErrNotExist) {
			o.Failed(err)
		}
	}
	var ctx context.Context
	ctx, m.stop = context.WithCancel(context.Background())
	m.ended.Go(func() { m.keepBeating(ctx) })
	return m, nil
}

// Nodes returns how many there are, this one included, as far as is known.
func (m *Members) Nodes() int { return int(m.nodes.Load()) }

// Close ends the beating. The others notice a little later.
func (m *Members) Close() {
	m.stop()
	m.ended.Wait()
}

func (m *Members) keepBeating(ctx context.Context) {
	ticker := time.NewTicker(m.options.Interval)
	defer ticker.Stop()
	for {
		m.beat(ctx)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// beat leaves the number as it is if nobody can be asked: that is when it is needed.
func (m *Members) beat(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, m.options.Timeout)
	defer cancel()
	n, err := m.options.Beat(ctx)
	if err != nil || n < 1 || n > Most || m.nodes.Swap(int64(n)) == int64(n) || m.options.File == "" {
		return
	}
	if err := write(m.options.File, n); err != nil {
		m.options.Failed(err)
	}
}

func read(path string) (int64, error) {
	file, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	text := make([]byte, 16)
	length, _ := file.Read(text) // what is not there is no number
	n, err := strconv.ParseInt(strings.TrimSpace(string(text[:length])), 10, 64)
	if err != nil || n < 1 || n > Most {
		return 0, fmt.Errorf("read the number of nodes from %s: %.16q is none from 1 to %d; delete the file, it is written anew", path, text[:length], Most)
	}
	return n, nil
}

// write replaces the file at once: who reads it finds the old number or the new one.
func write(path string, n int) error {
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".new-*")
	if err == nil {
		_, err = fmt.Fprintln(file, n)
		if err = errors.Join(err, file.Close()); err == nil {
			err = os.Rename(file.Name(), path)
		}
		if err != nil {
			err = errors.Join(err, os.Remove(file.Name()))
		}
	}
	if err != nil {
		return fmt.Errorf("keep the number of nodes in %s: %w; a start without the store would not know it", path, err)
	}
	return nil
}
