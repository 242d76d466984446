package ruleredis

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/redis/rueidis"

	"github.com/penstock-io/penstock"
)

// A connection is the client of one key. It is made when it is first needed, and retried until it succeeds.
type connection struct {
	options Options
	key     string

	mu     sync.Mutex
	client rueidis.Client // nil until connected
	closed bool
}

// String returns the location of the key.
func (c *connection) String() string {
	return fmt.Sprintf("redis://%s %s", strings.Join(c.options.Addresses, ","), c.key)
}

// Close closes the connections. Requests in flight fail.
func (c *connection) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if c.client != nil {
		c.client.Close()
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

// connect returns the client. The client reconnects by itself later.
func (c *connection) connect() (rueidis.Client, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, errors.New("it is closed")
	}
	if c.client == nil {
		client, err := rueidis.NewClient(c.options.Client())
		if err != nil {
			return nil, err
		}
		c.client = client
	}
	return c.client, nil
}
