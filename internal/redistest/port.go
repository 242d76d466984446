package redistest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// A cluster node also listens on its port + busOffset.
const busOffset = 10000

// Ports are drawn from [firstPort, firstPort+busOffset), so that the bus ports follow in the next ten
// thousand and both lie below 32768, where Linux starts to assign ports to outgoing connections. The port
// of a dead server must not be assigned to a client: the server could not come back, and a client that
// dials the port could even connect to itself.
const firstPort = 11000

// A claim reserves a port for one server, dead or alive, until the server is closed. In a test of what
// happens without a server, no other server may answer there, and a server that comes back must find its
// port free. The tests of other packages run in other processes, so the claim is one that the kernel knows
// and that ends with this process: the UDP port of the same number, which Redis does not use.
type claim struct {
	port int
	udp  net.PacketConn
}

// claimPort finds an unclaimed port that is free together with its bus port. A process that does not claim
// ports may still bind it before the server does; launch then tries again.
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
