// Package replaylog writes requests and their verdicts to a file that penstock backtest can replay. It contains
// the attributes that rules read and the store's instant, so the same rules give the same verdicts.
//
// It contains client identities, so it is opt-in, and its file is private.
package replaylog

import (
	"bufio"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/engine"
)

// flushEvery is how long a line may stay in memory.
const flushEvery = time.Second

// A Log is an open replay log. Its Observe is for [engine.Options].
type Log struct {
	log  *slog.Logger
	max  int64
	mu   sync.Mutex
	file *os.File
	w    *bufio.Writer
	size int64
	full bool

	closed chan struct{}
	ended  chan struct{}
}

// A Line is one request.
type Line struct {
	Time       int64             `json:"time"` // µs
	Domain     string            `json:"domain,omitempty"`
	Cost       int64             `json:"cost"`
	Attributes map[string]string `json:"attributes"`
	Allowed    bool              `json:"allowed"`
	Rule       string            `json:"rule,omitempty"`
	Reason     string            `json:"reason"`
	Quality    string            `json:"quality"`
}

// Open opens the file, or creates it, readable by its owner only. It appends until the file has maxBytes.
func Open(path string, maxBytes int64, log *slog.Logger) (*Log, error) {
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the replay log: %w", err)
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", path)
	}
	if err == nil && info.Mode().Perm()&0o077 != 0 {
		err = fmt.Errorf("%s can be read by others (mode %v), and it names clients; chmod 600 %[1]s", path, info.Mode().Perm())
	}
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("open the replay log: %w", err)
	}
	l := &Log{log: log, max: maxBytes, file: file, w: bufio.NewWriterSize(file, 64<<10), size: info.Size(), closed: make(chan struct{}), ended: make(chan struct{})}
	go l.flush()
	return l, nil
}

// flush writes buffered lines at an interval.
func (l *Log) flush() {
	defer close(l.ended)
	tick := time.NewTicker(flushEvery)
	defer tick.Stop()
	for {
		select {
		case <-l.closed:
			return
		case <-tick.C:
			l.mu.Lock()
			if err := l.w.Flush(); err != nil {
				l.stop("cannot write the replay log", "error", err)
			}
			l.mu.Unlock()
		}
	}
}

// Close writes buffered lines and closes the file.
func (l *Log) Close() {
	close(l.closed)
	<-l.ended
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.w.Flush(); err != nil {
		l.stop("cannot write the replay log", "error", err)
	}
	if err := l.file.Close(); err != nil {
		l.stop("cannot close the replay log", "error", err)
	}
}

// stop ends writing permanently, and logs that once.
func (l *Log) stop(message string, args ...any) {
	if !l.full {
		l.full = true
		l.log.Error(message, append(args, "file", l.file.Name())...)
	}
}

// Observe writes a request. It omits peeks, which charge nothing.
func (l *Log) Observe(o *engine.Observation) {
	if o.Call.Cost == 0 {
		return
	}
	v := o.Verdict
	at := v.Now
	if at == 0 {
		at = penstock.InstantOf(time.Now())
	}
	one := Line{
		Time: int64(at), Domain: o.Call.Domain, Cost: o.Call.Cost, Attributes: make(map[string]string, len(o.Call.Attributes)),
		Allowed: v.Allowed, Rule: v.Rule, Reason: v.Reason.String(), Quality: v.Quality.String(),
	}
	for _, a := range o.Call.Attributes {
		one.Attributes[a.Name] = a.Value
	}
	text, err := json.Marshal(one)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.full:
	case err != nil:
		l.stop("cannot write the replay log", "error", err)
	case l.size+int64(len(text))+1 > l.max:
		l.stop("the replay log is full, and no longer written", "max_bytes", l.max)
	default:
		l.size += int64(len(text)) + 1
		if _, err := l.w.Write(append(text, '\n')); err != nil {
			l.stop("cannot write the replay log", "error", err)
		}
	}
}
