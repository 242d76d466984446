package redistest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// A cluster node also listens on its port + busOffset.
const busOffset = 10000

// Ports are drawn from [firstPort, firstPort+busOffset), so that the bus ports follow in the next ten thousand and
// both lie below 32768, where Linux begins to hand ports to outgoing connections. A dead server's port must not be
// given to a client: not only could the server not return, a client dialling it could even connect to itself.
const firstPort = 11000

// A claim keeps a port for one server, dead or alive, until that is closed: in a test of what happens without a server
// nobody else's must answer there, and a server that returns must find its port free. The tests of other packages run
// in other processes, so the claim is one that the kernel knows of and ends with ours: the UDP port of that number,
// which Redis has no use for.
type claim struct {
	port int
	udp  net.PacketConn
}

// claimPort finds a port that nobody has claimed and that is free along with its bus port. Who makes no claims may
// still bind it before the server does; launch then tries again.
func claimPort() (claim, error) {
	const attempts = 200
	for range attempts {
		port := firstPort + rand.IntN(busOffset)
		udp, err := net.ListenPacket("udp", loopback(port))
		if err != nil {
			continue
		}
		if isFree(port) && isFree(port+busOffset) {
			return claim{port, udp}, nil
		}
		udp.Close()
	}
	return claim{}, fmt.Errorf("find a free port from %d to %d for redis-server: %d tries, all in use",
		firstPort, firstPort+busOffset-1, attempts)
}

func (c claim) release() { c.udp.Close() }

func isFree(port int) bool {
	l, err := net.Listen("tcp", loopback(port))
	if err != nil {
		return false
	}
	return l.Close() == nil
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
