// Package nodebus carries messages between the nodes that share a Redis, through its channels.
//
// Messages are sealed with a key that is derived from key_secret. Anyone who can read the channels learns which node
// sends how much to whom, and nothing else: neither the names of clients nor their hashes. Nothing is stored in Redis.
// A message to a node that does not listen is lost, so senders need a timeout.
//
// It is separate from the store, because a flood of messages must not share a connection with decisions.
package nodebus

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/cipher"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/redis/rueidis"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/poll"
	"github.com/penstock-io/penstock/internal/ruleredis"
)

// Bounds of a message, before and after compression.
const (
	MaxMessage = 16 << 20
	maxSealed  = 4 << 20
)

// Options configure a bus.
type Options struct {
	Redis  ruleredis.Options
	Secret string // key_secret: the same on all nodes
	ID     string // of this node, see membership

	// Receive is called for every message to this node or to all, by one goroutine at a time. It must not block.
	Receive func(from string, message []byte)

	// Changed is called when the connection is lost, with the error, and when it is back, with nil.
	Changed func(error)
}

// A Bus sends and receives messages until it is closed.
type Bus struct {
	options Options
	link    ruleredis.Link
	seal    cipher.AEAD
	problem atomic.Pointer[error]
	ctx     context.Context
	stop    context.CancelFunc
	ended   sync.WaitGroup
}

// format is the first byte of a sealed message.
const format = 1

// New returns a bus that can send, and receives once it is started.
func New(o Options) (*Bus, error) {
	if o.Secret == "" || o.ID == "" || o.Receive == nil || o.Changed == nil {
		return nil, fmt.Errorf("new node bus: %w: it needs a secret, an ID, and functions that receive", penstock.ErrInvalid)
	}
	if err := o.Redis.Validate(); err != nil {
		return nil, fmt.Errorf("new node bus: %w", err)
	}
	seal, err := ruleredis.NewSeal(o.Secret, "penstock node bus")
	if err != nil {
		return nil, fmt.Errorf("new node bus: %w", err)
	}
	b := &Bus{options: o, seal: seal, link: ruleredis.Link{Options: o.Redis, Closed: errors.New("the bus is closed"), MaxReply: 2*maxSealed + 64<<10}}
	b.problem.Store(&errNotConnected)
	b.ctx, b.stop = context.WithCancel(context.Background())
	return b, nil
}

// Start starts listening, and returns at once.
func (b *Bus) Start() {
	b.ended.Go(func() {
		poll.Listen(b.ctx, b.listen, func() { b.change(nil) }, b.change)
	})
}

var errNotConnected = errors.New("there was no connection yet")

// change reports a change of the connection's state once.
func (b *Bus) change(err error) {
	before := b.problem.Swap(&err)
	if (err == nil) != (*before == nil) || err != nil && errors.Is(*before, errNotConnected) {
		b.options.Changed(err)
	}
}

// Problem returns why no messages can be received; nil if they can.
func (b *Bus) Problem() error { return *b.problem.Load() }

// Close ends the bus.
func (b *Bus) Close() {
	b.stop()
	b.link.Close()
	b.ended.Wait()
}

// broadcastChannel is the channel of messages to all nodes. A node's own channel has its ID appended.
func (b *Bus) broadcastChannel() string { return b.options.Redis.KeyPrefix + "bus" }

func (b *Bus) channel(node string) string { return b.broadcastChannel() + ":" + node }

// Send sends a message to a node, or to all if it names none. It does not fail if nobody receives it.
func (b *Bus) Send(ctx context.Context, to string, message []byte) error {
	channel := b.broadcastChannel()
	if to != "" {
		channel = b.channel(to)
	}
	sealed, err := b.sealed(channel, message)
	if err != nil {
		return fmt.Errorf("send to nodes: %w: %w", penstock.ErrInvalid, err)
	}
	client, err := b.link.Connect()
	if err == nil {
		err = client.Do(ctx, client.B().Publish().Channel(channel).Message(sealed).Build()).Error()
	}
	if err != nil {
		return fmt.Errorf("send to nodes through Redis: %w: %w", penstock.ErrUnavailable, err)
	}
	return nil
}

// sealed compresses and encrypts a message. The channel is authenticated, so that nobody can pass it on to others.
func (b *Bus) sealed(channel string, message []byte) (string, error) {
	if len(message) > MaxMessage {
		return "", fmt.Errorf("a message of %d bytes, must be at most %d", len(message), MaxMessage)
	}
	var packed bytes.Buffer
	packed.WriteByte(byte(len(b.options.ID)))
	packed.WriteString(b.options.ID)
	w := gzip.NewWriter(&packed)
	if _, err := w.Write(message); err != nil {
		return "", err
	}
	if err := w.Close(); err != nil {
		return "", err
	}
	if packed.Len() > maxSealed {
		return "", fmt.Errorf("a message of %d bytes when compressed, must be at most %d", packed.Len(), maxSealed)
	}
	return string(b.seal.Seal([]byte{format}, nil, packed.Bytes(), []byte(channel))), nil
}

var errNotSealed = errors.New("not a message from a node with the same key_secret")

func (b *Bus) unsealed(channel, sealed string) (from string, message []byte, err error) {
	if sealed == "" || sealed[0] != format || len(sealed) > 2*maxSealed {
		return "", nil, errNotSealed
	}
	packed, err := b.seal.Open(nil, nil, []byte(sealed[1:]), []byte(channel))
	if err != nil || len(packed) == 0 || len(packed) < 1+int(packed[0]) {
		return "", nil, errNotSealed
	}
	from, packed = string(packed[1:1+packed[0]]), packed[1+packed[0]:]
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return "", nil, err
	}
	message, err = io.ReadAll(io.LimitReader(r, MaxMessage+1))
	if err == nil && len(message) > MaxMessage {
		err = fmt.Errorf("a message of more than %d bytes", MaxMessage)
	}
	return from, message, err
}

// listen receives messages until the connection is lost. Messages that cannot be opened are ignored: anyone with access
// to Redis can write them.
func (b *Bus) listen(ctx context.Context, connected func()) error {
	return b.link.Listen(ctx, connected, func(m rueidis.PubSubMessage) {
		if from, message, err := b.unsealed(m.Channel, m.Message); err == nil && from != b.options.ID {
			b.options.Receive(from, message)
		}
	}, b.broadcastChannel(), b.channel(b.options.ID))
}

// IsForbidden reports whether an error says that the Redis user lacks permission.
func IsForbidden(err error) bool { return err != nil && strings.Contains(err.Error(), "NOPERM") }
