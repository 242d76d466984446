package race

import (
	"context"
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"fmt"

	"github.com/redis/rueidis"
)

//go:embed take.lua
var takeScript string

var scriptText = Method{
	Name: "EVAL",
	What: "check and add in one script, its text sent with every call",
	Open: func(_ context.Context, node Node, limit Limit) (Decider, error) {
		return decideFunc(func(ctx context.Context, key string) (Answer, error) {
			t := &tripCounter{client: node.Client}
			n, err := t.send(ctx, takeByText(node.Client, key, limit))
			if err != nil {
				err = fmt.Errorf("run script on %q: %w", key, err)
			}
			return Answer{Allowed: n == 1, Trips: t.made}, err
		}), nil
	},
}

// scriptCached sends the hash of the script, and its text only to a server that does not have it.
var scriptCached = Method{
	Name: "EVALSHA",
	What: "the same script, named by its hash",
	Open: func(_ context.Context, node Node, limit Limit) (Decider, error) {
		sum := sha1.Sum([]byte(takeScript))
		sha := hex.EncodeToString(sum[:])
		c := node.Client
		return decideFunc(func(ctx context.Context, key string) (Answer, error) {
			t := &tripCounter{client: c}
			n, err := t.send(ctx, c.B().Evalsha().Sha1(sha).Numkeys(1).Key(key).Arg(takeArgs(limit)...).Build())
			if reply, ok := rueidis.IsRedisErr(err); ok && reply.IsNoScript() {
				n, err = t.send(ctx, takeByText(c, key, limit))
			}
			if err != nil {
				err = fmt.Errorf("run script %s on %q: %w", sha, key, err)
			}
			return Answer{Allowed: n == 1, Trips: t.made}, err
		}), nil
	},
}

func takeByText(c rueidis.Client, key string, limit Limit) rueidis.Completed {
	return c.B().Eval().Script(takeScript).Numkeys(1).Key(key).Arg(takeArgs(limit)...).Build()
}

func takeArgs(limit Limit) []string {
	return []string{fmt.Sprint(limit.Calls), fmt.Sprint(limit.Window.Microseconds()), newMember()}
}
