//go:build linux

package survive

import "fmt"

// asChunks writes a text as one chunk and the last.
func asChunks(text string) string { return fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(text), text) }

// oddLengthsAndEncodings pairs ways to say how long a body is.
func oddLengthsAndEncodings() (texts []string) {
	var framings []string
	for _, encoding := range []string{
		"chunked", "Chunked", " chunked", "chunked ", "\tchunked", "xchunked", "chunked, identity", "identity", "identity, chunked", "gzip, chunked", "chunked, chunked",
		"chunked\r\nTransfer-Encoding: x", "x\r\nTransfer-Encoding: chunked", "\"chunked\"", "chunked;a=b", "chunk", "", "\vchunked", "chunked\x00", "chunked\r\n ,x", "ｃhunked",
	} {
		for _, field := range []string{"Transfer-Encoding:", "Transfer-Encoding :", "transfer-encoding:", " Transfer-Encoding:", "Transfer_Encoding:", "X: y\nTransfer-Encoding:", "Transfer-Encoding:\r\n ", "X: y\rTransfer-Encoding:"} {
			framings = append(framings, field+" "+encoding)
		}
	}
	for _, length := range []string{"0", "5", "+5", "-1", "0x5", "5, 5", "5, 6", "5\r\nContent-Length: 6", "5\r\nContent-Length: 5", "05", "5 5", "", "99999999999999999999", "5;", "\t5", "5\x0b", "5.0", "५"} {
		for _, field := range []string{"Content-Length:", "Content-Length :", "content-length:", "Content_Length:", " Content-Length:", "Content-Length:\r\n ", "Content-Length\t:"} {
			framings = append(framings, field+" "+length)
		}
	}
	for i, framing := range framings {
		seconds := []string{"", "Content-Length: 4\r\n", fmt.Sprintf("Content-Length: %d\r\n", len(hidden)), "Transfer-Encoding: chunked\r\n"}
		for k, second := range seconds {
			body := hidden
			if (i+k)%2 == 0 {
				body = asChunks(hidden)
			}
			texts = append(texts, "POST /p/NNNN/ HTTP/1.1\r\nHost: a\r\n"+second+framing+"\r\n\r\n"+body)
		}
	}
	return texts
}

// oddChunks are chunked bodies that end in more than one place.
func oddChunks() (texts []string) {
	for _, body := range []string{
		"\n", "0\n\n", "0\r\r\n", "0\r\n\n", "0\n\r\n", "5\rXX", "0x5\r\nhello", "5 \r\nhello", "5;a\nb\r\nhello", "5;a\r\nhello", "-1\r\n", "fffffffffffffffff\r\n", "8000000000000000\r\n",
		"5\r\nhelloXX", "g\r\n", " 5\r\nhello", "5\r\nhello0\r\n\r\n", "5\n\rhello", "5\r\nhello\n0\r\n\r\n", "+5\r\nhello", "005\r\nhello", "5;=\r\nhello", "5;a=\"\r\n\"\r\nhello", "\r\n5\r\nhello", "5\x00\r\nhello", "5\t\r\nhello",
		"0;a\r\n\r\n", "0\r\nContent-Length: 5\r\n\r\n", "0\r\nX: y\r\n\r\n", "0\r\nX : y\r\n\r\n", "0\r\n X: y\r\n\r\n", "0\r\nX\r\n\r\n", "0\r\nTransfer-Encoding: chunked\r\n\r\n", "0\r\nHost: b\r\n\r\n", "00\r\n\r\n", "0 \r\n\r\n",
	} {
		for _, version := range []string{"1.1", "1.0"} {
			head := "POST /p/NNNN/ HTTP/" + version + "\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"
			texts = append(texts,
				head+"\r\n"+body+"\r\n0\r\n\r\n"+hidden,
				head+"Connection: keep-alive\r\n\r\n"+body+hidden,
				head+"Trailer: X\r\nExpect: 100-continue\r\n\r\n"+body+"\r\n"+hidden,
			)
		}
	}
	return texts
}

// oddHeads are requests whose first lines are odd, followed by another.
func oddHeads() (texts []string) {
	for _, line := range []string{
		"GET  /p/NNNN/ HTTP/1.1\r\n", "GET /p/NNNN/ HTTP/1.1 \r\n", "GET /p/NNNN/\r\n", "GET /p/NNNN/ HTTP/9.9\r\n", "GET /p/NNNN/ HTTP/1.10\r\n", "GET /p/NNNN/ HTTP/1\r\n", "GET /p/NNNN/ http/1.1\r\n", "GET /p/NNNN/ HTTP/1.1\n", "GET /p/NNNN/ HTTP/1.1\r",
		"GET /p/NNNN/a b HTTP/1.1\r\n", "\r\nGET /p/NNNN/ HTTP/1.1\r\n", " GET /p/NNNN/ HTTP/1.1\r\n", "GET\t/p/NNNN/\tHTTP/1.1\r\n", "GET /p/NNNN/\x00 HTTP/1.1\r\n", "GET /p/NNNN/\x7f HTTP/1.1\r\n", "GET /p/NNNN/é HTTP/1.1\r\n", "GET /p/NNNN/\\ HTTP/1.1\r\n",
		"GET p/N/ HTTP/1.1\r\n", "GET //p/NNNN/ HTTP/1.1\r\n", "GET /p/NNNN/#x HTTP/1.1\r\n", "GET /p/NNNN/?a=b?c HTTP/1.1\r\n", "GET /p/NNNN/?\x00 HTTP/1.1\r\n", "GET ?/p/NNNN/ HTTP/1.1\r\n",
		"GET http://a/p/NNNN/ HTTP/1.1\r\n", "GET http://b/p/NNNN/ HTTP/1.1\r\n", "GET https://a/p/NNNN/ HTTP/1.1\r\n", "GET HTTP://A/p/NNNN/ HTTP/1.1\r\n", "GET http:///p/NNNN/ HTTP/1.1\r\n", "GET http:/p/NNNN/ HTTP/1.1\r\n", "GET http://u:p@a/p/NNNN/ HTTP/1.1\r\n",
		"GET ftp://a/p/NNNN/ HTTP/1.1\r\n", "GET file:///p/NNNN/ HTTP/1.1\r\n", "GET urn:/p/NNNN/ HTTP/1.1\r\n", "GET a:80 HTTP/1.1\r\n", "GET http://a?/p/NNNN/ HTTP/1.1\r\n", "GET http://a HTTP/1.1\r\n", "GET * HTTP/1.1\r\n", "OPTIONS * HTTP/1.1\r\n", "OPTIONS /p/NNNN/ HTTP/1.1\r\n",
		"PRI * HTTP/2.0\r\n", "PRI /p/NNNN/ HTTP/1.1\r\n", "CONNECT a:80 HTTP/1.1\r\n", "CONNECT /p/NNNN/ HTTP/1.1\r\n", "CONNECT http://a/p/NNNN/ HTTP/1.1\r\n", "TRACE /p/NNNN/ HTTP/1.1\r\n", "get /p/NNNN/ HTTP/1.1\r\n", "GE\x00T /p/NNNN/ HTTP/1.1\r\n", "GET: /p/NNNN/ HTTP/1.1\r\n",
		"G\"ET /p/NNNN/ HTTP/1.1\r\n", "PROPFIND /p/NNNN/ HTTP/1.1\r\n", "HEAD /p/NNNN/ HTTP/1.1\r\n", "DELETE /p/NNNN/ HTTP/1.1\r\n", "A-LONG-METHOD-THAT-NOBODY-KNOWS /p/NNNN/ HTTP/1.1\r\n", "M!#$%&'*+-.^_`|~ /p/NNNN/ HTTP/1.1\r\n", "HTTP/1.1 200 OK\r\n",
	} {
		for _, rest := range []string{"Host: a\r\n\r\n", "Host: a\r\nContent-Length: 5\r\n\r\n"} {
			texts = append(texts, line+rest+hidden)
		}
	}
	return texts
}

// oddHeaders are requests with an odd header, followed by another.
func oddHeaders() (texts []string) {
	for _, header := range []string{
		"Host: a\r\nHost: b\r\n", "", "Host: \r\n", "Host: a b\r\n", "Host: a/b\r\n", "Host: a@b\r\n", "Host: a:80:80\r\n", "Host: a\x00\r\n", "Host : a\r\n", "host: a\r\nHOST: a\r\n", "Host: a, b\r\n", "Host:\r\n a\r\n", "Host: a#b\r\n", "Host: a?b\r\n",
		"Host: a\r\nX: a\r\n b\r\n", "Host: a\r\nX\r\n", "Host: a\r\n: x\r\n", "Host: a\r\nX: a\x00b\r\n", "Host: a\r\nX: a\rb\r\n", "Host: a\r\nX: a\nb\r\n", "Host: a\r\nX: a\r\r\n", "Host: a\r\nX: a\n\n", "Host: a\nX: b\n", "Host: a\r\nX y: b\r\n", "Host: a\r\nX\x00: b\r\n", "Host: a\r\n\tX: b\r\n", "\r\nHost: a\r\n", " Host: a\r\n", "Host: a\r\nX: \xff\xfe\r\n", "Host: a\r\nÜ: b\r\n",
		"Host: a\r\nExpect: 100-continue\r\n", "Host: a\r\nExpect: something\r\n", "Host: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n", "Host: a\r\nExpect: 100-Continue, x\r\nContent-Length: 5\r\n", "Host: a\r\nExpect:\r\n 100-continue\r\nContent-Length: 5\r\n",
		"Host: a\r\nConnection: close\r\n", "Host: a\r\nConnection: keep-alive, close\r\n", "Host: a\r\nConnection: Content-Length\r\nContent-Length: 5\r\n", "Host: a\r\nConnection: Transfer-Encoding\r\nTransfer-Encoding: chunked\r\n", "Host: a\r\nConnection: Host\r\n", "Host: a\r\nProxy-Connection: close\r\n", "Host: a\r\nKeep-Alive: timeout=1\r\n",
		"Host: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n", "Host: a\r\nConnection: Upgrade\r\nUpgrade: TLS/1.0\r\n", "Host: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n",
		"Host: a\r\nUpgrade: h2c\r\n", "Host: a\r\nTE: trailers\r\n", "Host: a\r\nTE: chunked\r\n", "Host: a\r\nTrailer: Content-Length\r\n", "Host: a\r\nContent-Encoding: chunked\r\n", "Host: a\r\nX-HTTP-Method-Override: PUT\r\n", "Host: a\r\nContent-Length: 0\r\n", "Host: a\r\nMax-Forwards: 0\r\n", "Host: a\r\nRange: bytes=0-0\r\n",
		"Host: a\r\nX-Original-URL: /p/0/other\r\n", "Host: a\r\nX-Rewrite-URL: /p/0/other\r\n", "Host: a\r\nX-Forwarded-Prefix: /p/0\r\n",
	} {
		for _, method := range []string{"GET", "POST", "HEAD", "OPTIONS"} {
			texts = append(texts, method+" /p/NNNN/ HTTP/1.1\r\n"+header+"\r\n"+hidden)
		}
	}
	return texts
}
