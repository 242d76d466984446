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

	"github.com/penstock-io/penstock/internal/redisdial"
	"github.com/penstock-io/penstock/storage"
)

// A Kind is the reason why Redis has not answered, for counting failures and judging their severity.
type Kind string

const (
	KindTimeout Kind = "timeout" // it is unknown whether the request was charged
	KindRefused Kind = "refused" // no server listens at the address
	KindLost    Kind = "lost"    // the connection was lost in between
	KindDenied  Kind = "denied"  // the user is unknown or lacks the permission
	KindCorrupt Kind = "corrupt" // the state of one subject is not valid Penstock state
	KindInvalid Kind = "invalid" // the server sent what is not a valid reply; the connection was closed
	KindOther   Kind = "other"

	// The server answers, but says that it cannot decide.
	KindReadOnly    Kind = "readonly" // a replica
	KindLoading     Kind = "loading"
	KindClusterDown Kind = "clusterdown"
	KindMasterDown  Kind = "masterdown"
	KindOutOfMemory Kind = "oom"
	KindNotSaved    Kind = "misconf" // it rejects writes because it cannot save them
	KindBusy        Kind = "busy"    // running an endless script
)

// codes are the first words of the server's errors.
var codes = map[string]Kind{
	"READONLY": KindReadOnly, "LOADING": KindLoading, "CLUSTERDOWN": KindClusterDown, "MASTERDOWN": KindMasterDown,
	"OOM": KindOutOfMemory, "MISCONF": KindNotSaved, "BUSY": KindBusy,
	"NOAUTH": KindDenied, "WRONGPASS": KindDenied, "NOPERM": KindDenied,
}

// Down reports whether any other request would fail too, so that retrying at once is pointless. The error
// of one server of a cluster says nothing about the others.
func (k Kind) Down(m Mode) bool {
	switch k {
	case KindClusterDown, KindDenied:
		return true
	case KindRefused, KindReadOnly, KindLoading, KindMasterDown, KindOutOfMemory, KindNotSaved, KindBusy:
		return m != Cluster
	}
	return false
}

// KindOf returns the kind of an error of a Store, or "" if Redis is not at fault: the request was invalid,
// or its caller gave up.
func KindOf(err error) Kind {
	var said *rueidis.RedisError
	var timed net.Error
	switch {
	case err == nil || !errors.Is(err, storage.ErrUnavailable) || errors.Is(err, context.Canceled):
		return ""
	case errors.Is(err, storage.ErrCorrupt):
		return KindCorrupt
	case errors.Is(err, redisdial.ErrReply):
		return KindInvalid
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

// kindOfText reads the server's error text, which begins with a code. Before Redis 7, the error of a
// command in a script appears within the script's error, after a hyphen.
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

// markNotTaken marks an error of a ticket that proves that nothing was charged: the ticket was never sent, or
// neverRan.
func markNotTaken(err error) error {
	if errors.Is(err, errNotSent) || neverRan(err) {
		return fmt.Errorf("%w: %w", storage.ErrNotTaken, err)
	}
	return err
}

// neverRan reports whether an error proves that Redis has not changed anything: there was no connection, or
// the server rejected the script or its first write. After a first write, a server does not reject further
// writes for these reasons.
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
