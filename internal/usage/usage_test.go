package usage

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"strings"
	"testing"
)

const (
	chatCompletion = `{"id":"c1","object":"chat.completion","choices":[{"message":{"content":"{\"usage\":{\"total_tokens\":1}}"}}],"usage":{"prompt_tokens":9,"completion_tokens":12,"total_tokens":21,"prompt_tokens_details":{"cached_tokens":3}}}`
	message        = `{"type":"message","content":[{"type":"text","text":"Hi"}],"usage":{"input_tokens":10,"cache_creation_input_tokens":5,"cache_read_input_tokens":100,"output_tokens":7}}`

	chatStream = `data: {"choices":[{"delta":{"role":"assistant"}}],"usage":null}

data: {"choices":[{"delta":{"content":"Hel"}}],"usage":null}

data: {"choices":[{"delta":{"content":"lo"}}],"usage":null}

data: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":2,"total_tokens":11}}

data: [DONE]

`
	messageStream = `event: message_start
data: {"type":"message_start","message":{"id":"m","usage":{"input_tokens":25,"output_tokens":1}}}

event: ping
data: {"type": "ping"}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hello"}}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":15}}

event: message_stop
data: {"type":"message_stop"}

`
	responseStream = `event: response.created
data: {"type":"response.created","response":{"id":"r","usage":null}}

event: response.output_text.delta
data: {"type":"response.output_text.delta","delta":"Hi"}

event: response.completed
data: {"type":"response.completed","response":{"id":"r","usage":{"input_tokens":37,"output_tokens":11,"total_tokens":48}}}

`
)

// read meters a body in parts of a size.
func read(fields []string, body, contentType, encoding string, size int) *Meter {
	m := New(fields, contentType, encoding)
	for len(body) > 0 {
		n := min(size, len(body))
		m.Write([]byte(body[:n]))
		body = body[n:]
	}
	m.Close()
	return m
}

func zipped(text string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	for line := range strings.Lines(text) {
		fmt.Fprint(z, line)
		_ = z.Flush()
	}
	_ = z.Close()
	return b.String()
}

func TestReportedUsage(t *testing.T) {
	for _, test := range []struct {
		name, body, contentType     string
		total, input, output, other int64 // -1: unknown
	}{
		{"chat completion", chatCompletion, "application/json", 21, 9, 12, -1},
		{"message", message, "application/json", 122, 115, 7, -1},
		{"chat stream", chatStream, "text/event-stream; charset=utf-8", 11, 9, 2, -1},
		{"message stream", messageStream, "text/event-stream", 40, 25, 15, -1},
		{"response stream", responseStream, "text/event-stream", 48, 37, 11, -1},
		{"carriage returns", strings.ReplaceAll(messageStream, "\n", "\r\n"), "text/event-stream", 40, 25, 15, -1},
		{"old Mac lines", strings.ReplaceAll(messageStream, "\n", "\r"), "text/event-stream", 40, 25, 15, -1},
		{"data over lines", "data: {\"usage\":\ndata:{\"total_tokens\":\ndata: 5}}\n\n", "text/event-stream", 5, -1, -1, -1},
		{"no blank line at the end", "data: {\"usage\":{\"total_tokens\":5}}", "text/event-stream", 5, -1, -1, -1},
		{"NDJSON", "{\"meta\":{\"cost\":3}}\n{\"meta\":{\"cost\":4}}\n", "application/x-ndjson", -1, -1, -1, 4},
		{"another field", `{"meta":{"cost":2.1}}`, "application/json", -1, -1, -1, 3},
		{"negative", `{"meta":{"cost":-5},"usage":{"total_tokens":-1}}`, "application/json", -1, -1, -1, -1},
		{"no number", `{"meta":{"cost":"5"}}`, "application/json", -1, -1, -1, -1},
		{"huge", `{"usage":{"total_tokens":1e300}}`, "application/json", 1 << 62, -1, -1, -1},
		{"no JSON", "<html>usage</html>", "text/html", -1, -1, -1, -1},
		{"empty", "", "", -1, -1, -1, -1},
	} {
		for _, encoding := range []string{"", "gzip"} {
			body := test.body
			if encoding != "" {
				body = zipped(body)
			}
			for _, size := range []int{1, 3, 1000} {
				m := read([]string{TotalTokens, "meta.cost"}, body, test.contentType, encoding, size)
				for field, want := range map[string]int64{TotalTokens: test.total, InputTokens: test.input, OutputTokens: test.output, "meta.cost": test.other, "nobody.asked": -1} {
					got, ok := m.Field(field)
					if !ok {
						got = -1
					}
					if got != want {
						t.Errorf("%s, encoding %q in parts of %d: %s is %d, want %d", test.name, encoding, size, field, got, want)
					}
				}
			}
		}
	}
}

// What was streamed is known while the stream runs, compressed or not.
func TestStreamed(t *testing.T) {
	for _, test := range []struct {
		name, body, until, contentType string
		total, output                  int64
	}{
		{"chat stream", chatStream, "lo\"", "text/event-stream", 102, 2},
		{"chat stream with its usage", chatStream, "[DONE]", "text/event-stream", 11, 4},
		{"message stream", messageStream, "event: message_delta", "text/event-stream", 28, 3},
		{"JSON", `{"choices":[{"message":"12345678`, "78", "application/json", 108, 8},
		{"nothing", chatStream, "data", "text/event-stream", 100, 0},
	} {
		part, _, ok := strings.Cut(test.body, test.until)
		if !ok {
			t.Fatal(test.until)
		}
		for _, encoding := range []string{"", "gzip"} {
			m := New([]string{TotalTokens}, test.contentType, encoding)
			body := part
			if encoding != "" {
				body = zipped(part)
				body = body[:len(body)-8] // no checksum: the rest of the stream is to come
			}
			m.Write([]byte(body))
			if got := m.Streamed(TotalTokens, 100); got != test.total {
				t.Errorf("%s, encoding %q: %d streamed, want %d", test.name, encoding, got, test.total)
			}
			if got := m.Streamed(OutputTokens, 100); got != test.output {
				t.Errorf("%s, encoding %q: output %d, want %d", test.name, encoding, got, test.output)
			}
			m.Close()
		}
	}
}

func TestUnreadableEncoding(t *testing.T) {
	m := read([]string{TotalTokens}, strings.Repeat("x", 400), "text/event-stream", "br", 7)
	if _, ok := m.Field(TotalTokens); ok || m.Streamed(TotalTokens, 5) != 105 {
		t.Errorf("streamed %d", m.Streamed(TotalTokens, 5))
	}
	m = read([]string{TotalTokens}, "this is not gzip", "application/json", "gzip", 3)
	if _, ok := m.Field(TotalTokens); ok {
		t.Error("a total of nothing")
	}
}

// FuzzMeter: nothing panics or hangs, and how a body is cut into parts changes nothing.
func FuzzMeter(f *testing.F) {
	for _, body := range []string{chatCompletion, message, chatStream, messageStream, responseStream, zipped(chatStream)} {
		for kind := range uint8(4) {
			f.Add([]byte(body), uint8(5), kind)
		}
	}
	f.Fuzz(func(t *testing.T, body []byte, size, kind uint8) {
		contentType, encoding := []string{"application/json", "text/event-stream"}[kind%2], []string{"", "gzip"}[kind/2%2]
		whole := read([]string{TotalTokens, "a.b"}, string(body), contentType, encoding, len(body)+1)
		parts := read([]string{TotalTokens, "a.b"}, string(body), contentType, encoding, int(size)+1)
		for _, field := range []string{TotalTokens, InputTokens, OutputTokens, "a.b"} {
			a, hasA := whole.Field(field)
			b, hasB := parts.Field(field)
			if a != b || hasA != hasB || whole.Streamed(field, 1) != parts.Streamed(field, 1) {
				t.Fatalf("%s: %d %v as a whole, %d %v in parts", field, a, hasA, b, hasB)
			}
			if a < 0 || whole.Streamed(field, 1) < 0 {
				t.Fatalf("%s: %d, streamed %d", field, a, whole.Streamed(field, 1))
			}
		}
	})
}
