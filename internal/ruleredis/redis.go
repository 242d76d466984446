package ruleredis

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"

	"github.com/redis/rueidis"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/poll"
	"github.com/penstock-io/penstock/rules/live"
)

// Rules are the rules in Redis, to publish and to follow. The connection is made when it is first needed
// and retried until it succeeds, so a node can start while Redis is down. If Redis and not the input is at
// fault, the error wraps penstock.ErrUnavailable.
type Rules struct {
	connection // its key is also the name of the channel

	reading sync.Mutex
	last    *live.Text // the last text read, so that it is not fetched again
}

var _ live.Origin = (*Rules)(nil)

// New returns the rules in the Redis that the options name, without connecting.
func New(o Options) (*Rules, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	return &Rules{connection: newConnection(o, "rules", live.MaxEncoded)}, nil
}

//go:embed publish.lua
var publishText string

// publishScript is sent with every text: it is much smaller than the text.
var publishScript = rueidis.NewLuaScriptNoSha(publishText)

// maxVersion is the last integer that Lua numbers can tell from the next.
const maxVersion = 1 << 53

// ErrNewer is wrapped if Redis has a later version than the one to publish.
var ErrNewer = errors.New("a newer version is published")

// Publish makes the text the one that nodes read, and notifies them, unless it is there already. It does
// not replace a later version; then the error wraps ErrNewer.
func (r *Rules) Publish(ctx context.Context, text *live.Text) error {
	attempt := fmt.Sprintf("publish version %d of the rules to", text.Version)
	if text.Version < 1 || text.Version >= maxVersion {
		return fmt.Errorf("%s %v: %w: the version must be from 1 to %d", attempt, r, penstock.ErrInvalid, int64(maxVersion-1))
	}
	data, err := text.Encode()
	if err != nil {
		return fmt.Errorf("%s %v: %w: %w", attempt, r, penstock.ErrInvalid, err)
	}
	client, err := r.Connect()
	if err != nil {
		return r.failed(attempt, err)
	}
	ctx, cancel := context.WithTimeout(ctx, r.Options.Timeout)
	defer cancel()
	version := strconv.FormatInt(text.Version, 10)
	there, err := publishScript.Exec(ctx, client, []string{r.key}, []string{version, text.Checksum(), rueidis.BinaryString(data)}).ToString()
	if err != nil {
		return r.failed(attempt, err)
	}
	if there != version {
		return fmt.Errorf("%s %v: %w, %.20s; if the database was restored from a backup, delete the key %s", attempt, r, ErrNewer, there, r.key)
	}
	return nil
}

// Read returns the text that was published last.
func (r *Rules) Read(ctx context.Context) (*live.Text, error) {
	const attempt = "read the rules from"
	client, err := r.Connect()
	if err != nil {
		return nil, r.failed(attempt, err)
	}
	ctx, cancel := context.WithTimeout(ctx, r.Options.Timeout)
	defer cancel()
	replies := client.DoMulti(ctx,
		client.B().Hmget().Key(r.key).Field("version", "checksum").Build(),
		client.B().Hstrlen().Key(r.key).Field("text").Build())
	known, err := replies[0].AsStrSlice()
	size, sizeErr := replies[1].AsInt64()
	if err := errors.Join(err, sizeErr); err != nil {
		return nil, r.failed(attempt, err)
	}
	if size == 0 {
		return nil, fmt.Errorf("%s %v: %w", attempt, r, live.ErrNoRules)
	}
	if size > int64(live.MaxEncoded) {
		return nil, fmt.Errorf("%s %v: the text has %d bytes, at most %d", attempt, r, size, live.MaxEncoded)
	}
	r.reading.Lock()
	last := r.last
	r.reading.Unlock()
	if last != nil && slices.Equal(known, []string{strconv.FormatInt(last.Version, 10), last.Checksum()}) {
		return last, nil
	}
	data, err := client.Do(ctx, client.B().Hget().Key(r.key).Field("text").Build()).AsBytes()
	if rueidis.IsRedisNil(err) { // deleted in the meantime
		return nil, fmt.Errorf("%s %v: %w", attempt, r, live.ErrNoRules)
	}
	if err != nil {
		return nil, r.failed(attempt, err)
	}
	text, err := live.DecodeText(data)
	if err != nil {
		return nil, fmt.Errorf("%s %v: %w; publish them again", attempt, r, err)
	}
	r.reading.Lock()
	r.last = text
	r.reading.Unlock()
	return text, nil
}

// Watch listens to the channel. If the connection is lost, it listens again, with increasing delays.
func (r *Rules) Watch(ctx context.Context, changed func(), failed func(error)) {
	poll.Listen(ctx, r.listen, changed, func(err error) { failed(r.failed("listen to", err)) })
}

func (r *Rules) listen(ctx context.Context, changed func()) error {
	var one sync.Mutex // the confirmation and the messages come from two goroutines
	tell := func() {
		one.Lock()
		defer one.Unlock()
		changed()
	}
	// The confirmation counts as a change: something may have been published before we listened.
	return r.Listen(ctx, tell, func(rueidis.PubSubMessage) { tell() }, r.key)
}
