package hot

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/redisstore"
	"github.com/penstock-io/penstock/rules"
)

// recorded is the user of the recorded requests.
const recorded = "recorded"

// A crowd is large enough to fill a run, and repeats often enough that one run is full.
const (
	crowd  = 512
	rounds = 4
)

// record returns what the store sends to decide one request by the exact rule, and what it sends for the largest
// batch: the smallest and the largest run of its script.
func record(ctx context.Context, addr string, s *rules.Snapshot) (one, many []byte, err error) {
	var tape recording
	n, err := openNode(redisstore.Options{Addresses: []string{addr}, Dial: tape.dial}, s)
	if err != nil {
		return nil, nil, err
	}
	defer n.close()
	var all sync.WaitGroup
	failures := make([]error, crowd)
	ask := func() (err error) {
		var v penstock.Verdict
		for i := 0; i < rounds && err == nil; i++ {
			err = n.Decide(ctx, newCall(exactPath, recorded, 1), &v)
		}
		return err
	}
	if err := ask(); err != nil { // alone
		return nil, nil, err
	}
	for i := range crowd {
		all.Go(func() { failures[i] = ask() })
	}
	all.Wait()
	if err := cmp.Or(failures...); err != nil { // the first failure
		return nil, nil, err
	}
	return tape.runs()
}

// A recording records what is written to connections.
type recording struct {
	mu    sync.Mutex
	conns []*recordedConn
}

type recordedConn struct {
	net.Conn
	mu   sync.Mutex
	sent bytes.Buffer
}

func (c *recordedConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sent.Write(b[:n])
	return n, err
}

func (t *recording) dial(ctx context.Context, addr string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	c := &recordedConn{Conn: conn}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.conns = append(t.conns, c)
	return c, nil
}

// runs returns the smallest and the largest run of a script by name.
func (t *recording) runs() (smallest, largest []byte, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range t.conns {
		c.mu.Lock()
		all, err := commands(c.sent.Bytes())
		c.mu.Unlock()
		if err != nil {
			return nil, nil, err
		}
		for _, text := range all["EVALSHA"] {
			if smallest == nil || len(text) < len(smallest) {
				smallest = text
			}
			if len(text) > len(largest) {
				largest = text
			}
		}
	}
	if smallest == nil {
		return nil, nil, errors.New("record runs of the script: none was sent")
	}
	return smallest, largest, nil
}

// commands splits the bytes sent to Redis into commands, by name. The last one may be incomplete.
func commands(sent []byte) (map[string][][]byte, error) {
	all := map[string][][]byte{}
	for len(sent) > 0 {
		name, size, err := command(sent)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("read back what was sent to Redis: %w", err)
		}
		all[name] = append(all[name], bytes.Clone(sent[:size]))
		sent = sent[size:]
	}
	return all, nil
}

// command returns the name of the first command and its size in bytes.
func command(sent []byte) (name string, size int, err error) {
	source := bytes.NewReader(sent)
	r := bufio.NewReader(source)
	words, err := header(r, '*')
	for i := 0; i < words && err == nil; i++ {
		var n int
		if n, err = header(r, '$'); err != nil {
			break
		}
		word := make([]byte, n+len("\r\n"))
		if _, err = io.ReadFull(r, word); i == 0 {
			name = strings.ToUpper(string(word[:n]))
		}
	}
	return name, len(sent) - source.Len() - r.Buffered(), err
}

// maxHeader bounds the length that a protocol line may announce.
const maxHeader = 1 << 20

// header reads a line of a kind and returns its number.
func header(r *bufio.Reader, kind byte) (int, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(strings.TrimSpace(line[1:]))
	if line[0] != kind || err != nil || n < 0 || n > maxHeader {
		return 0, fmt.Errorf("%.80q where %q and a number were expected", line, kind)
	}
	return n, nil
}
