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

	maxUnasked = 256 << 10 // of a message that answers nothing
	maxName    = 64        // of an ID and a number
)

// Options configure a bus.
type Options struct {
	Redis  ruleredis.Options
	Secret string // key_secret: the same on all nodes
	ID     string // of this node, see membership

	// Receive is called for every message to this node or to all, by one goroutine at a time. It must not block.
	Receive func(from string, message []byte)

	// Expects reports whether an answer is waited for, by its number. Others are not even decrypted: anyone who can
	// write to Redis can send an old one again and again, and large ones take long to unpack. nil: no answer is.
	Expects func(from, number string) bool

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
const format = 2

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

// Send sends a message to a node, or to all if it names none. It does not fail if nobody receives it. An answer has the
// number by which the other node expects it.
func (b *Bus) Send(ctx context.Context, to, answers string, message []byte) error {
	channel := b.broadcastChannel()
	if to != "" {
		channel = b.channel(to)
	}
	sealed, err := b.sealed(channel, answers, message)
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

// sealed compresses and encrypts a message. Before it stand the format, who sends it and the number that it answers,
// each with its length. They are authenticated, and so is the channel, so that nobody can pass a message on to others.
func (b *Bus) sealed(channel, answers string, message []byte) (string, error) {
	most := MaxMessage
	if answers == "" {
		most = maxUnasked
	}
	if len(message) > most {
		return "", fmt.Errorf("a message of %d bytes, must be at most %d", len(message), most)
	}
	if len(b.options.ID) > maxName || len(answers) > maxName {
		return "", fmt.Errorf("an ID of %d bytes and a number of %d bytes, must be at most %d", len(b.options.ID), len(answers), maxName)
	}
	head := []byte{format}
	for _, name := range []string{b.options.ID, answers} {
		head = append(append(head, byte(len(name))), name...)
	}
	var packed bytes.Buffer
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
	return string(b.seal.Seal(head, nil, packed.Bytes(), authenticated(head, channel))), nil
}

// authenticated returns what is not encrypted, for a seal.
func authenticated(head []byte, channel string) []byte { return append(bytes.Clone(head), channel...) }

var (
	errNotSealed = errors.New("not a message from a node with the same key_secret")
	errUnasked   = errors.New("an answer that nobody waits for")
)

// A heading is what stands before a sealed message.
type heading struct {
	from, answers string
	size          int
}

func readHeading(sealed string) (h heading, ok bool) {
	if sealed == "" || sealed[0] != format {
		return h, false
	}
	rest := sealed[1:]
	for _, name := range []*string{&h.from, &h.answers} {
		if rest == "" || int(rest[0]) > maxName || len(rest) < 1+int(rest[0]) {
			return h, false
		}
		*name, rest = rest[1:1+rest[0]], rest[1+rest[0]:]
	}
	h.size = len(sealed) - len(rest)
	return h, true
}

func (b *Bus) unsealed(channel, sealed string) (from string, message []byte, err error) {
	h, ok := readHeading(sealed)
	if !ok || len(sealed) > 2*maxSealed {
		return "", nil, errNotSealed
	}
	most := int64(maxUnasked)
	if h.answers != "" {
		if b.options.Expects == nil || !b.options.Expects(h.from, h.answers) {
			return "", nil, errUnasked
		}
		most = MaxMessage
	} else if len(sealed) > 2*maxUnasked {
		return "", nil, errNotSealed
	}
	packed, err := b.seal.Open(nil, nil, []byte(sealed[h.size:]), authenticated([]byte(sealed[:h.size]), channel))
	if err != nil {
		return "", nil, errNotSealed
	}
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return "", nil, err
	}
	message, err = io.ReadAll(io.LimitReader(r, most+1))
	if err == nil && int64(len(message)) > most {
		err = fmt.Errorf("a message of more than %d bytes", most)
	}
	return h.from, message, err
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
