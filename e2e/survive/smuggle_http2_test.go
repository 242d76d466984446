//go:build linux

package survive

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// fields are a header as it is sent, pseudo-headers included.
type fields [][2]string

var oddFields = fields{
	{"transfer-encoding", "chunked"}, {"Transfer-Encoding", "chunked"}, {"transfer_encoding", "chunked"}, {"connection", "keep-alive"}, {"connection", "x-request-id"}, {"upgrade", "h2c"}, {"keep-alive", "1"}, {"proxy-connection", "close"},
	{"te", "chunked"}, {"te", "trailers"}, {"host", "b"}, {"host", "a"}, {"content-length", "0"}, {"content-length", "3"}, {"content-length", "5"}, {"content-length", "500"}, {"content-length", "-1"}, {"content-length", "5, 5"}, {"content-length", "+5"}, {"content-length", "x"},
	{"expect", "100-continue"}, {"expect", "x"}, {":path", "/p/0/"}, {":method", "PUT"}, {":unknown", "x"}, {":status", "200"}, {"", "x"}, {"trailer", "content-length"}, {":protocol", "websocket"}, {"cookie", "a=b; c=d"}, {"X-Upper", "x"},
}

// An http2Request is sent as it is, right or wrong.
type http2Request struct {
	header  fields
	body    string
	trailer fields
}

// payloadsOfHTTP2 are requests that would become two, or others, if they were written as HTTP/1.1
// without a second look.
func payloadsOfHTTP2() (all []payload) {
	number := 100000 // apart from those of HTTP/1.1
	add := func(build func(path string) http2Request) {
		number++
		n := strconv.Itoa(number)
		r := build("/p/" + n + "/")
		all = append(all, payload{n, fmt.Sprintf("HTTP/2 %q", r), r.send})
	}
	second := func(path string) string { return " HTTP/1.1\r\nHost: a\r\n\r\nGET " + path + "hidden HTTP/1.1\r\nX: y" }
	get := func(path string, more ...[2]string) fields {
		return append(fields{{":method", "GET"}, {":scheme", "http"}, {":authority", "a"}, {":path", path}}, more...)
	}
	post := func(path string, more ...[2]string) fields {
		return append(fields{{":method", "POST"}, {":scheme", "http"}, {":authority", "a"}, {":path", path}}, more...)
	}
	for _, breaker := range []string{"\r\n", "\n", "\r", "\x00", "\r\n\r\n", " ", "\t", "\v", "\x7f", ":"} {
		for place := range 4 { // in each pseudo-header
			add(func(path string) http2Request {
				header := get(path)
				header[place][1] += breaker + second(path)
				return http2Request{header: header}
			})
		}
		add(func(path string) http2Request {
			return http2Request{header: get(path, [2]string{"x", "y" + breaker + "transfer-encoding: chunked"})}
		})
		add(func(path string) http2Request {
			return http2Request{header: get(path, [2]string{"x" + breaker + "transfer-encoding", "chunked"})}
		})
		add(func(path string) http2Request {
			return http2Request{header: post(path), body: "hello", trailer: fields{{"x", "y" + breaker + second(path)}}}
		})
	}
	for _, odd := range oddFields {
		for _, body := range []string{"", "hello", hidden} {
			add(func(path string) http2Request { return http2Request{header: post(path, odd), body: body} })
		}
		add(func(path string) http2Request {
			return http2Request{header: append(fields{odd}, get(path)...)} // before the pseudo-headers
		})
		add(func(path string) http2Request {
			return http2Request{header: post(path), body: "hello", trailer: fields{odd}}
		})
	}
	for _, other := range []string{"5", "6"} {
		add(func(path string) http2Request {
			return http2Request{header: post(path, [2]string{"content-length", "5"}, [2]string{"content-length", other}), body: "hello"}
		})
	}
	for _, target := range []string{"", "*", "%spath", "http://b%s", "//b%s", "?%s", "%s#x", "%s%%00", "%s\\..\\", "%s/../x"} {
		for _, method := range []string{"GET", "OPTIONS", "CONNECT", "get", "", "G T", "PRI"} {
			add(func(path string) http2Request {
				if target != "" && target != "*" {
					path = fmt.Sprintf(target, path)
				} else {
					path = target
				}
				return http2Request{header: fields{{":method", method}, {":scheme", "http"}, {":authority", "a"}, {":path", path}}}
			})
		}
	}
	return all
}

// send speaks HTTP/2 on a connection of its own until the request is answered or refused. A refusal
// of the stream or the connection is a reply of 400.
func (r http2Request) send(t *testing.T, address string) []reply {
	conn := dial(t, address)
	if conn == nil {
		return nil
	}
	defer conn.Close()
	io.WriteString(conn, http2.ClientPreface)
	framer := http2.NewFramer(conn, conn.from)
	framer.AllowIllegalWrites = true
	framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	framer.WriteSettings()
	framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: r.header.encode(), EndHeaders: true, EndStream: r.body == "" && r.trailer == nil})
	if r.body != "" || r.trailer != nil {
		framer.WriteData(1, r.trailer == nil, []byte(r.body))
	}
	if r.trailer != nil {
		framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: r.trailer.encode(), EndHeaders: true, EndStream: true})
	}
	return readHTTP2(framer)
}

func readHTTP2(framer *http2.Framer) (replies []reply) {
	refused := reply{status: http.StatusBadRequest}
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			return append(replies, refused)
		}
		switch f := frame.(type) {
		case *http2.MetaHeadersFrame:
			status, _ := strconv.Atoi(f.PseudoValue("status"))
			header := http.Header{}
			for _, field := range f.RegularFields() {
				header.Add(field.Name, field.Value)
			}
			if status >= 200 {
				replies = append(replies, reply{status: status, header: header})
			}
		case *http2.RSTStreamFrame, *http2.GoAwayFrame:
			return append(replies, refused)
		}
		if f := frame.Header(); f.StreamID == 1 && f.Flags.Has(http2.FlagDataEndStream) {
			return replies
		}
	}
}

func (f fields) encode() []byte {
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for _, field := range f {
		encoder.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]}) // a buffer takes all
	}
	return block.Bytes()
}
