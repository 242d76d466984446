package main

import (
	"context"
	"embed"
	"fmt"
	"strconv"

	"github.com/redis/rueidis"
)

//go:embed scripts/*.lua
var scripts embed.FS

// baseline is the candidate every ratio is taken against.
const baseline = "sorted set"

// candidate is one way to keep the log; its script takes a whole decision.
type candidate struct {
	name string
	file string
	sha  string
}

// structures lists what is compared, the baseline first.
func structures() []candidate {
	return []candidate{
		{name: baseline, file: "sortedset.lua"},
		{name: "stream", file: "stream.lua"},
		{name: "list", file: "list.lua"},
		{name: "packed string", file: "packedstring.lua"},
	}
}

// floor is a script that decides nothing: the part of every figure that no
// structure can save.
func floor() candidate { return candidate{name: "(empty script)", file: "floor.lua"} }

func (c *candidate) load(ctx context.Context, client rueidis.Client) error {
	source, err := scripts.ReadFile("scripts/" + c.file)
	if err != nil {
		return fmt.Errorf("read script of %s: %w", c.name, err)
	}
	c.sha, err = client.Do(ctx, client.B().ScriptLoad().Script(string(source)).Build()).ToString()
	if err != nil {
		return fmt.Errorf("load script %s: %w", c.file, err)
	}
	return nil
}

// call is one question to the log; instants and windows are microseconds.
type call struct {
	now, window, limit, cost int64
}

// answer is what a script returns.
type answer struct {
	allowed bool
	sum     int64 // cost in the window after the decision
	retry   int64 // denied: the earliest instant this call passes, -1 never; allowed: 0
	newest  int64 // instant of the newest entry in the window, 0 when it is empty
}

func (c candidate) command(client rueidis.Client, key string, q call) rueidis.Completed {
	return client.B().Evalsha().Sha1(c.sha).Numkeys(1).Key(key).Arg(
		strconv.FormatInt(q.now, 10), strconv.FormatInt(q.window, 10),
		strconv.FormatInt(q.limit, 10), strconv.FormatInt(q.cost, 10),
	).Build()
}

func parseAnswer(r rueidis.RedisResult) (answer, error) {
	n, err := r.AsIntSlice()
	if err != nil {
		return answer{}, err
	}
	if len(n) != 4 {
		return answer{}, fmt.Errorf("script answered %d numbers %v, want 4", len(n), n)
	}
	return answer{allowed: n[0] == 1, sum: n[1], retry: n[2], newest: n[3]}, nil
}
