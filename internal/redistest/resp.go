package redistest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// Command sends one command on its own connection and returns the reply as text: the elements of an array,
// including nested ones, one per line, and "(nil)" for nil. An error reply is an error. It times out after
// half a minute.
func Command(addr string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	return command(ctx, addr, args...)
}

func command(ctx context.Context, addr string, args ...string) (string, error) {
	if len(args) == 0 {
		return "", fmt.Errorf("send a command to %s: it is empty", addr)
	}
	reply, err := roundTrip(ctx, addr, args)
	if err != nil {
		return "", fmt.Errorf("send %s to %s: %w", args[0], addr, err)
	}
	return reply, nil
}

func roundTrip(ctx context.Context, addr string, args []string) (string, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	// When ctx ends, closing the connection interrupts a read from a server that does not answer.
	defer context.AfterFunc(ctx, func() { conn.Close() })()

	var request strings.Builder
	fmt.Fprintf(&request, "*%d\r\n", len(args))
	for _, arg := range args {
		fmt.Fprintf(&request, "$%d\r\n%s\r\n", len(arg), arg)
	}
	reply := ""
	if _, err = io.WriteString(conn, request.String()); err == nil {
		reply, err = readReply(bufio.NewReader(conn))
	}
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	return reply, err
}

// readReply reads one RESP2 reply.
func readReply(r *bufio.Reader) (string, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return "", err
	}
	line = strings.TrimRight(line, "\r\n")
	if line == "" {
		return "", errors.New("empty reply line")
	}
	kind, rest := line[0], line[1:]
	switch kind {
	case '+', ':':
		return rest, nil
	case '-':
		return "", errors.New(rest)
	case '$', '*':
		n, err := strconv.Atoi(rest)
		if err != nil {
			return "", fmt.Errorf("reply %q: %w", line, err)
		}
		if n < 0 {
			return "(nil)", nil
		}
		if kind == '$' {
			return readBulk(r, n)
		}
		return readArray(r, n)
	}
	return "", fmt.Errorf("reply %q is of an unknown kind", line)
}

func readBulk(r *bufio.Reader, n int) (string, error) {
	data := make([]byte, n+len("\r\n"))
	if _, err := io.ReadFull(r, data); err != nil {
		return "", err
	}
	return string(data[:n]), nil
}

func readArray(r *bufio.Reader, n int) (string, error) {
	elements := make([]string, n)
	for i := range elements {
		var err error
		if elements[i], err = readReply(r); err != nil {
			return "", err
		}
	}
	return strings.Join(elements, "\n"), nil
}
