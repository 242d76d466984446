package other

import (
	"net"
	"testing"
)

func TestLoopback(t *testing.T) {
	if !net.IPv4(127, 0, 0, 1).IsLoopback() {
		t.Error("not loopback")
	}
}
