package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// stream reads server-sent events and passes each to a function, until that returns an error, the node ends the
// stream or the context ends.
func (c *adminClient) stream(ctx context.Context, path string, each func(event string, data []byte) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answer, err := c.send(ctx, http.MethodGet, path, nil, &http.Client{Transport: &http.Transport{ResponseHeaderTimeout: c.client.Timeout, Proxy: http.ProxyFromEnvironment}})
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	lines := bufio.NewScanner(answer.Body)
	lines.Buffer(nil, maxAnswer)
	event := ""
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ":")
		value = strings.TrimPrefix(value, " ")
		switch name {
		case "event":
			event = value
		case "data":
			if err := each(event, []byte(value)); err != nil {
				return err
			}
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read the stream of the admin API: %w", err)
	}
	return errors.New("the node has ended the stream")
}
