package ruleredis

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"

	"github.com/redis/rueidis"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/redisdial"
)

// A Link is a client of Redis. It is made when it is first needed, and retried until it succeeds.
type Link struct {
	Options Options // valid ones
	Closed  error   // of Connect after Close

	MaxReply int // bytes of a reply or a message that are received at most

	mu     sync.Mutex
	client rueidis.Client // nil until connected
	closed bool
}

// A connection is the link of one key.
type connection struct {
	Link
	key string
}

// newConnection returns the connection of a key. The options must be valid.
func newConnection(o Options, key string, maxReply int) connection {
	return connection{Link: Link{Options: o, Closed: errors.New("it is closed"), MaxReply: maxReply + overhead}, key: o.KeyPrefix + key}
}

const (
	overhead    = 64 << 10  // of a reply beside its texts, and other replies
	maxElements = 256 << 10 // of a reply; the slots of a cluster are the longest
)

// String returns the location of the key.
func (c *connection) String() string {
	return fmt.Sprintf("redis://%s %s", strings.Join(c.Options.Addresses, ","), c.key)
}

// GoString implements fmt.GoStringer.
func (c *connection) GoString() string { return c.String() }

// LogValue implements slog.LogValuer.
func (c *connection) LogValue() slog.Value { return slog.StringValue(c.String()) }

// Close closes the connections. Requests in flight fail.
func (l *Link) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	if l.client != nil {
		l.client.Close()
	}
}

// failed wraps an error with what was attempted and where. The cause may be that the caller gave up.
func (c *connection) failed(attempt string, err error) error {
	if said, ok := rueidis.IsRedisErr(err); ok && isForbidden(said.Error()) {
		err = fmt.Errorf("%w: %w", ErrForbidden, err)
	}
	return fmt.Errorf("%s %v: %w: %w", attempt, c, penstock.ErrUnavailable, err)
}

// ErrForbidden is wrapped if the Redis user lacks the permissions that docs/reference/redis.md lists for rules.
var ErrForbidden = errors.New("the Redis user lacks permission")

// isForbidden recognises the errors of Redis for missing permissions: outside scripts, in scripts since
// 7.0, and in scripts before.
func isForbidden(text string) bool {
	return strings.HasPrefix(text, "NOPERM") || strings.Contains(text, "ACL failure in script") || strings.Contains(text, "user executing the script can't")
}

// Connect returns the client. The client reconnects by itself later.
func (l *Link) Connect() (rueidis.Client, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, l.Closed
	}
	if l.client == nil {
		client, err := redisdial.NewClient(l.Options.client(), redisdial.Limits{Bytes: l.MaxReply, Elements: maxElements})
		if err != nil {
			return nil, err
		}
		l.client = client
	}
	return l.client, nil
}

// Listen receives the messages of channels until the connection is lost. It calls listening, in another goroutine,
// when Redis confirms that it listens.
func (l *Link) Listen(ctx context.Context, listening func(), receive func(rueidis.PubSubMessage), channels ...string) error {
	client, err := l.Connect()
	if err != nil {
		return err
	}
	hooked := rueidis.WithOnSubscriptionHook(ctx, func(s rueidis.PubSubSubscription) {
		if s.Kind == "subscribe" {
			listening()
		}
	})
	err = client.Receive(hooked, client.B().Subscribe().Channel(channels...).Build(), receive)
	if err == nil {
		err = errors.New("the subscription ended")
	}
	return err
}

// NewSeal returns a cipher with a key that is derived from the nodes' secret for one purpose.
func NewSeal(secret, purpose string) (cipher.AEAD, error) {
	key, err := hkdf.Key(sha256.New, []byte(secret), nil, purpose, 32)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}
