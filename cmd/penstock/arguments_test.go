package main

import (
	"slices"
	"strings"
	"testing"
)

// As ratelimit the program ignores flags, as envoyproxy/ratelimit does, and still knows its commands.
func TestArgumentsAsRatelimit(t *testing.T) {
	for line, want := range map[string]string{
		"/bin/ratelimit": "serve --envoy-ratelimit-env |",
		"/bin/ratelimit --quotaRateLimitServiceAddr=a:1 --key secret": "serve --envoy-ratelimit-env | --quotaRateLimitServiceAddr --key",
		"/bin/ratelimit --help":   "--help |",
		"/bin/ratelimit doctor":   "doctor |",
		"/bin/penstock --unknown": "--unknown |",
		"/bin/penstock":           "|",
	} {
		args, ignored := arguments(strings.Fields(line))
		if got := strings.TrimSpace(strings.Join(slices.Concat(args, []string{"|"}, ignored), " ")); got != want {
			t.Errorf("%s: got %q, want %q", line, got, want)
		}
	}
}
