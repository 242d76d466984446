package grpcstatus

import "testing"

func TestStatus(t *testing.T) {
	for value, want := range map[string]int{"0": 200, "1": 499, "7": 403, "8": 429, "14": 503, "16": 401, "17": 500, "-1": 500, "": 0, "x": 0} {
		if got := Parse(value); got != want {
			t.Errorf("%q: %d, want %d", value, got, want)
		}
	}
	for value, want := range map[string]bool{"application/grpc": true, "application/grpc+proto": true, "application/grpc;charset=utf-8": true, "application/grpc-web": false, "text/html": false, "": false} {
		if got := Is(value); got != want {
			t.Errorf("%q: %v, want %v", value, got, want)
		}
	}
}
