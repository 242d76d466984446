package redistest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// A Fake is a server that answers what a test says.
type Fake struct {
	Addr string

	mu     sync.Mutex
	answer func(words []string) string
	conns  map[net.Conn]struct{}
}

// Hello is the reply to HELLO 3 of a server of a mode: standalone, cluster or sentinel.
func Hello(mode string) string {
	return "%4\r\n$7\r\nversion\r\n$6\r\n7.0.15\r\n$5\r\nproto\r\n:3\r\n$4\r\nrole\r\n$6\r\nmaster\r\n$4\r\nmode\r\n" + Bulk(mode)
}

// Bulk encodes a text.
func Bulk(text string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(text), text) }

// Array encodes an array of encoded elements.
func Array(elements ...string) string {
	return fmt.Sprintf("*%d\r\n%s", len(elements), strings.Join(elements, ""))
}

// Push encodes a push of encoded elements.
func Push(elements ...string) string { return ">" + Array(elements...)[1:] }

// StartFake starts a server that sends, for every command, what answer returns; it closes the connection if that is
// empty.
func StartFake(t testing.TB, answer func(words []string) string) *Fake {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &Fake{Addr: l.Addr().String(), answer: answer, conns: map[net.Conn]struct{}{}}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			f.mu.Lock()
			f.conns[c] = struct{}{}
			f.mu.Unlock()
			all.Go(func() { f.serve(c) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		f.mu.Lock()
		for c := range f.conns {
			c.Close()
		}
		f.mu.Unlock()
		all.Wait()
	})
	return f
}

// Answer changes what the server answers.
func (f *Fake) Answer(answer func(words []string) string) {
	f.mu.Lock()
	f.answer = answer
	f.mu.Unlock()
}

// Honest answers the handshake and questions about the topology, as the only server of a mode: standalone, cluster or
// sentinel. It answers everything else with OK.
func (f *Fake) Honest(mode string, words []string) string {
	host, port, _ := strings.Cut(f.Addr, ":")
	name := strings.ToUpper(words[0])
	if name == "CLUSTER" || name == "SENTINEL" {
		name = strings.ToUpper(words[1])
	}
	switch name {
	case "HELLO":
		return Hello(mode)
	case "SLOTS":
		return Array(Array(":0\r\n", ":16383\r\n", Array(Bulk(host), ":"+port+"\r\n")))
	case "SENTINELS":
		return Array()
	case "GET-MASTER-ADDR-BY-NAME":
		return Array(Bulk(host), Bulk(port))
	case "ROLE":
		return Array(Bulk("master"), ":0\r\n", Array())
	case "PING":
		return "+PONG\r\n"
	case "SUBSCRIBE", "UNSUBSCRIBE":
		var b strings.Builder
		for i, channel := range words[1:] {
			b.WriteString(Push(Bulk(strings.ToLower(name)), Bulk(channel), fmt.Sprintf(":%d\r\n", i)))
		}
		return b.String()
	}
	return "+OK\r\n"
}

func (f *Fake) serve(c net.Conn) {
	defer func() {
		c.Close()
		f.mu.Lock()
		delete(f.conns, c)
		f.mu.Unlock()
	}()
	r := bufio.NewReader(c)
	for {
		words, err := readCommand(r)
		if err != nil {
			return
		}
		f.mu.Lock()
		answer := f.answer
		f.mu.Unlock()
		reply := answer(words)
		if reply == "" {
			return
		}
		if _, err := io.WriteString(c, reply); err != nil {
			return
		}
	}
}

func readCommand(r *bufio.Reader) (words []string, err error) {
	n, err := readHead(r, '*')
	for range n {
		if err != nil {
			break
		}
		var size int
		if size, err = readHead(r, '$'); err == nil {
			b := make([]byte, size+2)
			_, err = io.ReadFull(r, b)
			words = append(words, string(b[:size]))
		}
	}
	return words, err
}

func readHead(r *bufio.Reader, kind byte) (int, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return 0, err
	}
	if line[0] != kind {
		return 0, fmt.Errorf("a command with %q", line)
	}
	return strconv.Atoi(strings.TrimSpace(line[1:]))
}
