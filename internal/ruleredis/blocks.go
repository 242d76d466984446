package ruleredis

import (
	"context"
	"crypto/cipher"
	"crypto/rand"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/penstock-io/penstock/engine/blocklist"
)

// Blocks are the blocked keys in Redis, for all nodes that share it. Their texts are encrypted with a key that is
// derived from the nodes' secret, because nothing that identifies a client is stored in Redis in plain text.
//
// It needs no more permissions than the counters do: +eval +hget +hset +hdel +hrandfield +pttl +pexpire.
type Blocks struct {
	connection
	seal cipher.AEAD

	reading sync.Mutex
	version string // of last
	last    []blocklist.Block
	lastErr error
}

// NewBlocks returns the blocks in the Redis that the options name, without connecting.
func NewBlocks(o Options, secret string) (*Blocks, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	seal, err := NewSeal(secret, "penstock blocks")
	if err != nil {
		return nil, err
	}
	return &Blocks{connection: newConnection(o, "blocks", maxRead), seal: seal}, nil
}

//go:embed blocks.lua
var blocksText string

var blocksScript = rueidis.NewLuaScript(blocksText)

const (
	versionField = "version"
	maxFields    = 10_000                             // read at once; nodes write fewer
	maxRead      = 32 << 20                           // bytes of them; blocks of ordinary keys have some hundred bytes
	keptFor      = blocklist.MaxLength + 24*time.Hour // the longest block, and until slow clocks have passed its end
)

// Marks of a block and of a lifted one.
const (
	markBlock  = "B"
	markLifted = "L"
)

// Read returns all blocks. If nothing was written since the last call, it asks for the version only.
func (b *Blocks) Read(ctx context.Context) ([]blocklist.Block, error) {
	const attempt = "read the blocks from"
	client, err := b.Connect()
	if err != nil {
		return nil, b.failed(attempt, err)
	}
	ctx, cancel := context.WithTimeout(ctx, b.Options.Timeout)
	defer cancel()
	version, err := client.Do(ctx, client.B().Hget().Key(b.key).Field(versionField).Build()).ToString()
	if rueidis.IsRedisNil(err) {
		return nil, nil
	}
	if err != nil {
		return nil, b.failed(attempt, err)
	}
	b.reading.Lock()
	defer b.reading.Unlock()
	if version == b.version {
		return b.last, b.lastErr
	}
	fields, err := client.Do(ctx, client.B().Hrandfield().Key(b.key).Count(maxFields).Withvalues().Build()).ToArray()
	if err != nil {
		return nil, b.failed(attempt, err)
	}
	found, err := b.open(fields)
	if err != nil {
		err = fmt.Errorf("%s %v: %w", attempt, b, err)
	}
	b.version, b.last, b.lastErr = version, found, err
	return found, err
}

// open decrypts the fields of the hash: pairs, or one list of all in RESP2.
func (b *Blocks) open(fields []rueidis.RedisMessage) (found []blocklist.Block, err error) {
	var texts []string
	for i := range fields {
		pair, err := fields[i].AsStrSlice()
		if err != nil {
			text, err := fields[i].ToString()
			if err != nil {
				return nil, err
			}
			pair = []string{text}
		}
		texts = append(texts, pair...)
	}
	var unreadable int
	for i := 0; i+1 < len(texts); i += 2 {
		if texts[i] == versionField {
			continue
		}
		block, err := b.decrypt(texts[i], texts[i+1])
		if err != nil {
			unreadable++
			continue
		}
		found = append(found, *block)
	}
	if unreadable > 0 {
		err = fmt.Errorf("%d of %d cannot be decrypted: every node needs the same key_secret", unreadable, len(texts)/2-1)
	}
	return found, err
}

func (b *Blocks) decrypt(id, text string) (*blocklist.Block, error) {
	if len(text) == 0 {
		return nil, errors.New("empty")
	}
	plain, err := b.seal.Open(nil, nil, []byte(text[1:]), []byte(text[:1]+id))
	if err != nil {
		return nil, err
	}
	var block blocklist.Block
	if err := json.Unmarshal(plain, &block); err != nil {
		return nil, err
	}
	if block.ID != id || (block.LiftedBy != "") != (text[:1] == markLifted) {
		return nil, errors.New("another block")
	}
	return &block, nil
}

func (b *Blocks) encrypt(block *blocklist.Block) (string, error) {
	plain, err := json.Marshal(block)
	if err != nil {
		return "", err
	}
	mark := markBlock
	if block.LiftedBy != "" {
		mark = markLifted
	}
	return mark + string(b.seal.Seal(nil, nil, plain, []byte(mark+block.ID))), nil
}

// Write adds blocks that are not there, marks those that are lifted, and deletes others.
func (b *Blocks) Write(ctx context.Context, put []blocklist.Block, drop []string) error {
	const attempt = "write blocks to"
	client, err := b.Connect()
	if err != nil {
		return b.failed(attempt, err)
	}
	ctx, cancel := context.WithTimeout(ctx, b.Options.Timeout)
	defer cancel()
	args := []string{rand.Text(), strconv.FormatInt(keptFor.Milliseconds(), 10), strconv.Itoa(len(put))}
	for i := range put {
		text, err := b.encrypt(&put[i])
		if err != nil {
			return fmt.Errorf("%s %v: %w", attempt, b, err)
		}
		args = append(args, put[i].ID, text)
	}
	if err := blocksScript.Exec(ctx, client, []string{b.key}, append(args, drop...)).Error(); err != nil {
		return b.failed(attempt, err)
	}
	return nil
}
