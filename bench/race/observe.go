package race

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/rueidis"
)

func info(ctx context.Context, c rueidis.Client, section string) (map[string]string, error) {
	text, err := c.Do(ctx, c.B().Info().Section(section).Build()).ToString()
	if err != nil {
		return nil, fmt.Errorf("read server info %q: %w", section, err)
	}
	fields := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[name] = value
		}
	}
	return fields, nil
}

func serverVersion(ctx context.Context, c rueidis.Client) (string, error) {
	fields, err := info(ctx, c, "server")
	if err != nil {
		return "", err
	}
	if v := fields["valkey_version"]; v != "" {
		return "Valkey " + v, nil
	}
	return "Redis " + fields["redis_version"], nil
}

// notTheirs are commands of connections and of this observer, not of a way.
var notTheirs = map[string]bool{"info": true, "ping": true, "hello": true, "client": true}

// commandsExecuted returns how many commands the server has run, including those inside scripts and transactions.
func commandsExecuted(ctx context.Context, c rueidis.Client) (int, error) {
	fields, err := info(ctx, c, "commandstats")
	if err != nil {
		return 0, err
	}
	sum := 0
	for name, value := range fields {
		command, ok := strings.CutPrefix(name, "cmdstat_")
		command, _, _ = strings.Cut(command, "|")
		if !ok || notTheirs[command] {
			continue
		}
		calls, _, _ := strings.Cut(strings.TrimPrefix(value, "calls="), ",")
		n, err := strconv.Atoi(calls)
		if err != nil {
			return 0, fmt.Errorf("read calls of %q from %q: %w", command, value, err)
		}
		sum += n
	}
	return sum, nil
}

// logged returns how many requests the log under key holds, 0 if there is none.
func logged(ctx context.Context, c rueidis.Client, key string) (int, error) {
	n, err := c.Do(ctx, c.B().Zcard().Key(key).Build()).AsInt64()
	if err != nil {
		return 0, fmt.Errorf("count what %q holds: %w", key, err)
	}
	return int(n), nil
}

// forget deletes the keys of the ways. This is optional: every key expires.
func forget(ctx context.Context, c rueidis.Client, keys []string) {
	c.Do(ctx, c.B().Unlink().Key(keys...).Build())
}
