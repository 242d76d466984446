package redistest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// A cluster node also listens on its port + busOffset.
const busOffset = 10000

// Ports are drawn from [firstPort, firstPort+busOffset), so that the bus ports follow in the next ten thousand and
// both lie below 32768, where Linux begins to hand ports to outgoing connections. A dead server's port must not be
// given to a client: not only could the server not return, a client dialling it could even connect to itself.
const firstPort = 11000

// taken holds the ports of this process's servers, dead ones too until they are closed.
var taken = struct {
	sync.Mutex
	ports map[int]bool
}{ports: map[int]bool{}}

// takePort finds a port that is free along with its bus port. Another process may still bind it before the server
// does; launch then tries again.
func takePort() (int, error) {
	taken.Lock()
	defer taken.Unlock()
	const attempts = 200
	for range attempts {
		port := firstPort + rand.IntN(busOffset)
		if !taken.ports[port] && isFree(port) && isFree(port+busOffset) {
			taken.ports[port] = true
			return port, nil
		}
	}
	return 0, fmt.Errorf("find a free port from %d to %d for redis-server: %d tries, all in use",
		firstPort, firstPort+busOffset-1, attempts)
}

func releasePort(port int) {
	taken.Lock()
	defer taken.Unlock()
	delete(taken.ports, port)
}

func isFree(port int) bool {
	l, err := net.Listen("tcp", loopback(port))
	if err != nil {
		return false
	}
	return l.Close() == nil
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
