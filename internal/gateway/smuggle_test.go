package gateway

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
)

func newReader(text string) *bufio.Reader { return bufio.NewReader(strings.NewReader(text)) }

// hidden is what an attacker wants to get past the limiter as a part of another request.
const hidden = "GET /hidden HTTP/1.1\r\nHost: a\r\n\r\n"

// smugglers returns requests whose end is ambiguous, with another request inside.
func smugglers() []string {
	chunked := fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(hidden), hidden)
	var framings []string
	for _, encoding := range []string{
		"chunked", "Chunked", " chunked", "chunked ", "\tchunked", "xchunked", "chunked, identity", "identity", "identity, chunked", "gzip, chunked",
		"chunked\r\nTransfer-Encoding: x", "x\r\nTransfer-Encoding: chunked", "\"chunked\"", "chunked;a=b", "chunk", "", "\vchunked", "chunked\x00",
	} {
		for _, field := range []string{"Transfer-Encoding:", "Transfer-Encoding :", "transfer-encoding:", " Transfer-Encoding:", "Transfer_Encoding:", "X: y\nTransfer-Encoding:", "Transfer-Encoding:\r\n "} {
			framings = append(framings, field+" "+encoding)
		}
	}
	for _, length := range []string{"0", "5", "+5", "-1", "0x5", "5, 5", "5, 6", "5\r\nContent-Length: 6", "5\r\nContent-Length: 5", "05", "5 5", "", "99999999999999999999", "5;", "\t5", "5\x0b"} {
		for _, field := range []string{"Content-Length:", "Content-Length :", "content-length:", "Content_Length:", " Content-Length:", "Content-Length:\r\n "} {
			framings = append(framings, field+" "+length)
		}
	}
	var requests []string
	for _, framing := range framings {
		for _, second := range []string{"", "Content-Length: 4\r\n", fmt.Sprintf("Content-Length: %d\r\n", len(hidden)), "Transfer-Encoding: chunked\r\n"} {
			for _, body := range []string{hidden, chunked} {
				requests = append(requests, "POST / HTTP/1.1\r\nHost: a\r\n"+second+framing+"\r\n\r\n"+body)
			}
		}
	}
	for _, size := range []string{"\n", "0\n\n", "0\r\r\n", "5\rXX", "0x5\r\nhello", "5 \r\nhello", "5;a\nb\r\nhello", "-1\r\n", "fffffffffffffffff\r\n", "5\r\nhelloXX", "g\r\n", " 5\r\nhello", "5\r\nhello0\r\n\r\n"} {
		requests = append(requests, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"+size+"\r\n0\r\n\r\n"+hidden)
	}
	for _, first := range []string{
		"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "GET / HTTP/1.1\r\n\r\n", "GET / HTTP/1.1\nHost: a\n\n", "GET  / HTTP/1.1\r\nHost: a\r\n\r\n", "GET / HTTP/1.1 \r\nHost: a\r\n\r\n",
		"GET /\r\n", "GET / HTTP/9.9\r\nHost: a\r\n\r\n", "GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", "GET / HTTP/1.1\r\nHost: a\r\nX: a\r\n b\r\n\r\n", "GET / HTTP/1.1\r\nHost: a\r\nX\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\n: x\r\n\r\n", "GET / HTTP/1.1\rHost: a\r\r", "GET http://b/ HTTP/1.1\r\nHost: a\r\n\r\n", "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\nX: a\x00b\r\n\r\n", "GET / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n", "GET /a b HTTP/1.1\r\nHost: a\r\n\r\n", "\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\nExpect: something\r\n\r\n", "GET / HTTP/1.1\r\nHost: a b\r\n\r\n", "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", "HEAD / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n",
	} {
		requests = append(requests, first+hidden)
	}
	return requests
}

// Whatever is sent, the server serves what the limiter counted. If the end of a request is ambiguous, nothing that
// follows on the connection is a request.
func TestNothingIsSmuggled(t *testing.T) {
	requests := smugglers()
	if len(requests) < 1000 {
		t.Errorf("only %d requests", len(requests))
	}
	var begun, served int
	serve := func(_ http.ResponseWriter, req *http.Request) {
		begun++
		if _, err := io.Copy(io.Discard, req.Body); err == nil {
			served++
		}
	}
	whole := 0
	inBubble(t, setting{rules: everyCall}, serve, func(t *testing.T, b *memoryGateway) {
		for _, text := range requests {
			begun, served = 0, 0
			answers := b.sendRaw(text)
			counted := len(b.counted())
			if begun > counted || answers[http.StatusOK] != served {
				t.Errorf("%q\ncounted %d, the server has begun %d and served %d; answers %v", text, counted, begun, served, answers)
			}
			if counted > 0 && counted == served {
				whole++
			}
			if counted != served && answers[http.StatusBadRequest]+answers[http.StatusRequestTimeout] == 0 {
				t.Errorf("%q\ncounted %d, served %d, and the client was told nothing: %v", text, counted, served, answers)
			}
		}
	})
	if whole < len(requests)/10 {
		t.Errorf("only %d of %d were served: the corpus has lost its point", whole, len(requests))
	}
}

// sendRaw sends a text on its own connection and returns the gateway's responses, until it has closed the connection
// and nothing more happens.
func (b *memoryGateway) sendRaw(text string) map[int]int {
	b.t.Helper()
	conn, from := b.dialRaw()
	go io.WriteString(conn, text) // not all of it may be read
	answers := map[int]int{}
	for {
		res, err := http.ReadResponse(from, nil)
		if err != nil {
			break
		}
		if res.Header.Get("X-Request-Id") != "" || res.StatusCode != http.StatusOK { // else net/http's own, to OPTIONS *
			answers[res.StatusCode]++
		}
		if _, err := io.Copy(io.Discard, res.Body); err != nil {
			break
		}
	}
	conn.Close()
	synctest.Wait()
	return answers
}
