package redisstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"

	"github.com/redis/rueidis"

	"github.com/penstock-io/penstock"
)

// A Kind is why Redis has not answered, in a word: for counting failures, and for judging how bad
// they are.
type Kind string

const (
	KindTimeout Kind = "timeout" // whether the call was charged is not known
	KindRefused Kind = "refused" // nobody listens there
	KindLost    Kind = "lost"    // the connection ended in between
	KindDenied  Kind = "denied"  // the user may not do that, or is none
	KindCorrupt Kind = "corrupt" // one subject's state is not ours
	KindOther   Kind = "other"

	// The server is there and says that it cannot decide.
	KindReadOnly    Kind = "readonly" // a replica
	KindLoading     Kind = "loading"
	KindClusterDown Kind = "clusterdown"
	KindMasterDown  Kind = "masterdown"
	KindOutOfMemory Kind = "oom"
	KindNotSaved    Kind = "misconf" // it takes no writes because it cannot save them
	KindBusy        Kind = "busy"    // with somebody's endless script
)

// codes are the first words of the server's errors.
var codes = map[string]Kind{
	"READONLY": KindReadOnly, "LOADING": KindLoading, "CLUSTERDOWN": KindClusterDown, "MASTERDOWN": KindMasterDown,
	"OOM": KindOutOfMemory, "MISCONF": KindNotSaved, "BUSY": KindBusy,
	"NOAUTH": KindDenied, "WRONGPASS": KindDenied, "NOPERM": KindDenied,
}

// Down tells failures after which asking again at once is in vain, whatever is asked. What one server
// of a cluster says is not said for the others.
func (k Kind) Down(m Mode) bool {
	switch k {
	case KindClusterDown, KindDenied:
		return true
	case KindRefused, KindReadOnly, KindLoading, KindMasterDown, KindOutOfMemory, KindNotSaved, KindBusy:
		return m != Cluster
	}
	return false
}

// KindOf returns the kind of an error of a Store; "" if it does not blame Redis: the call was invalid,
// or given up on by its caller.
func KindOf(err error) Kind {
	var said *rueidis.RedisError
	var timed net.Error
	switch {
	case err == nil || !errors.Is(err, penstock.ErrUnavailable) || errors.Is(err, context.Canceled):
		return ""
	case errors.Is(err, penstock.ErrCorrupt):
		return KindCorrupt
	case errors.As(err, &said):
		return kindOfText(said.Error())
	case errors.Is(err, syscall.ECONNREFUSED):
		return KindRefused
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timed) && timed.Timeout():
		return KindTimeout
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed),
		errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return KindLost
	}
	return KindOther
}

// kindOfText reads the server's own words, which begin with a code. Before Redis 7 what a command in a
// script said stands within the script's error, behind a hyphen.
func kindOfText(text string) Kind {
	code, rest, _ := strings.Cut(text, " ")
	if kind, ok := codes[code]; ok {
		return kind
	}
	for word := range strings.FieldsSeq(rest) {
		if code, ok := strings.CutPrefix(word, "-"); ok && codes[code] != "" {
			return codes[code]
		}
	}
	return KindOther
}

// proven marks an error of a ticket that proves that nothing was charged: it was never sent, or neverRan.
func proven(err error) error {
	if errors.Is(err, errNotSent) || neverRan(err) {
		return fmt.Errorf("%w: %w", penstock.ErrNotTaken, err)
	}
	return err
}

// neverRan reports whether an error proves that Redis has not changed anything: there was no
// connection, or the server refused the script, or its first write. After a first write a server
// refuses none for these reasons.
func neverRan(err error) bool {
	var said *rueidis.RedisError
	var dial *net.OpError
	if errors.As(err, &said) {
		switch kindOfText(said.Error()) {
		case KindLoading, KindBusy, KindClusterDown, KindMasterDown, KindReadOnly, KindOutOfMemory, KindNotSaved:
			return true
		}
		return false
	}
	return errors.As(err, &dial) && dial.Op == "dial"
}
