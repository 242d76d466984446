package redisdial

import (
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

var testLimits = Limits{Bytes: 1 << 20, Elements: 1 << 16}

// A tape is a connection that plays what a server sent.
type tape struct {
	net.Conn
	from    io.Reader
	written []byte
}

func (t *tape) Read(p []byte) (int, error) { return t.from.Read(p) }
func (t *tape) Write(p []byte) (int, error) {
	t.written = append(t.written, p...)
	return len(p), nil
}

// command returns a command as the client library writes it.
func command(words ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(words))
	for _, w := range words {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(w), w)
	}
	return b.String()
}

// play writes the commands, cut into pieces, and returns what the guard passes of what the server sends.
func play(t *testing.T, commands string, cut int, sent io.Reader) (string, error) {
	t.Helper()
	c := Guard(&tape{from: sent}, testLimits)
	for piece := range slices.Chunk([]byte(commands), max(1, cut)) {
		if _, err := c.Write(piece); err != nil {
			return "", err
		}
	}
	passed, err := io.ReadAll(c)
	return string(passed), err
}

var ping, subscribe = command("PING"), command("SUBSCRIBE", "a", "b")

// What no server sends is not passed on, wherever the reads are cut.
func TestInvalidReplies(t *testing.T) {
	sentinel := func(channel, text string) string {
		return fmt.Sprintf(">3\r\n$7\r\nmessage\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n", len(channel), channel, len(text), text)
	}
	unsubscribe := command("UNSUBSCRIBE", "a") + ping
	for _, c := range []struct{ name, commands, sent string }{
		{"negative array", ping, "*-5\r\n"},
		{"negative string", ping, "$-7\r\n"},
		{"negative map", ping, "%-1\r\n"},
		{"negative set", ping, "~-1\r\n"},
		{"negative push", ping, ">-1\r\n"},
		{"negative error", ping, "!-2\r\n"},
		{"negative text", ping, "=-2\r\n"},
		{"huge array", ping, "*9223372036854775807\r\n"},
		{"huge map", ping, "%4611686018427387905\r\n"},
		{"array for all memory", ping, "*2147483647\r\n"},
		{"array that wraps around", ping, "*18446744073709551617\r\n"},
		{"array beyond the bound", ping, "*65537\r\n"},
		{"map beyond the bound", ping, "%32769\r\n"},
		{"arrays beyond the bound together", ping, "*2\r\n*60000\r\n" + strings.Repeat(":1\r\n", 60000) + "*6000\r\n"},
		{"huge string", ping, "$2147483647\r\n"},
		{"string beyond the bound", ping, "$1048577\r\n"},
		{"strings beyond the bound together", ping, "*2\r\n$600000\r\n" + strings.Repeat("a", 600000) + "\r\n$600000\r\n"},
		{"line beyond the bound", ping, "+" + strings.Repeat("a", 1<<20+1)},
		{"deep array", ping, strings.Repeat("*1\r\n", 17)},
		{"endless depth", ping, strings.Repeat("*1\r\n", 1000)},
		{"streamed string", ping, "$?\r\n;-7\r\n"},
		{"streamed array", ping, "*?\r\n"},
		{"streamed map", ping, "%?\r\n"},
		{"end of a stream", ping, ".\r\n"},
		{"chunk", ping, ";1\r\na\r\n"},
		{"attribute", ping, "|1\r\n+a\r\n+b\r\n+c\r\n"},
		{"negative attribute", ping, "|-1\r\n"},
		{"unknown type", ping, "?1\r\n"},
		{"no type", ping, "\r\n"},
		{"HTTP", ping, "HTTP/1.1 400 Bad Request\r\n\r\n"},
		{"length without digits", ping, "$\r\n"},
		{"minus without digits", ping, "*-\r\n"},
		{"length with a plus", ping, "$+1\r\na\r\n"},
		{"length with a space", ping, "$1 \r\na\r\n"},
		{"length with a letter", ping, "$1a\r\na\r\n"},
		{"length that does not end", ping, "$" + strings.Repeat("0", 40)},
		{"integer with a letter", ping, ":1a\r\n"},
		{"integer without digits", ping, ":-\r\n"},
		{"line that ends with LF", ping, "+a\n"},
		{"lone LF", ping, "+\n"},
		{"length that ends with LF", ping, "$1\na\r\n"},
		{"string that is longer", ping, "$1\r\nabc\r\n"},
		{"string that ends with LF CR", ping, "$1\r\na\n\r"},
		{"null with a text", ping, "_abc\r\n"},
		{"boolean", ping, "#x\r\n"},
		{"long boolean", ping, "#true\r\n"},
		{"booleans in one line", ping, "#ab#ab#ab"},
		{"nulls in one line", ping, "_ab_ab_ab"},
		{"reply to nothing", "", "+PONG\r\n"},
		{"one reply too many", ping, "+PONG\r\n+PONG\r\n"},
		{"reply to half a command", ping[:len(ping)-1], "+PONG\r\n"},
		{"push within an array", ping, "*1\r\n>2\r\n+a\r\n+b\r\n"},
		{"empty push", ping, ">0\r\n"},
		{"MOVED without an address", ping, "-MOVED 1\r\n"},
		{"MOVED alone", ping, "-MOVED\r\n"},
		{"MOVED after ERR", ping, "-ERR MOVED\r\n"},
		{"MOVED as a string", ping, "!5\r\nMOVED\r\n"},
		{"ASK without an address", ping, "-ASK 1\r\n"},
		{"REDIRECT without an address", ping, "-REDIRECT\r\n"},
		{"MOVED that is too long", ping, "-MOVED" + strings.Repeat("a", 1000) + " 1 a:1\r\n"},
		{"confirmation that nobody asked for", ping, ">3\r\n+subscribe\r\n+a\r\n:1\r\n"},
		{"confirmation to nobody", "", ">3\r\n+subscribe\r\n+a\r\n:1\r\n"},
		{"one confirmation too many", subscribe + ping, strings.Repeat(">3\r\n+subscribe\r\n+a\r\n:1\r\n", 3)},
		{"confirmation in front of a reply", ping + subscribe, ">3\r\n+subscribe\r\n+a\r\n:1\r\n"},
		{"subscription that is queued", subscribe, "+QUEUED\r\n"},
		{"subscription with the error QUEUED", subscribe, "-QUEUED\r\n"},
		{"reply to a subscription", subscribe, "*3\r\n+subscribe\r\n+a\r\n:1\r\n"},
		{"reply to UNSUBSCRIBE", unsubscribe, "+OK\r\n"},
		{"two errors to UNSUBSCRIBE", unsubscribe, "-NOPERM a\r\n-NOPERM b\r\n"},
		{"QUEUED to UNSUBSCRIBE", unsubscribe, "-QUEUED\r\n"},
		{"two replies to UNSUBSCRIBE", unsubscribe, "-LOADING\r\n-LOADING\r\n"},
		{"no role", command("ROLE"), "*0\r\n"},
		{"no master", command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "m"), "*0\r\n"},
		{"half a master", command("sentinel", "get-master-addr-by-name", "m"), "*1\r\n+a\r\n"},
		{"sentinel without an address", "", sentinel("+sentinel", "sentinel a b")},
		{"switch without an address", "", sentinel("+switch-master", "m 1 2 3")},
		{"reboot without an address", "", sentinel("+reboot", "master m")},
		{"empty message", "", sentinel("+sentinel", "")},
		{"message that is an array", "", ">3\r\n+message\r\n++sentinel\r\n*1\r\n+a b c d\r\n"},
		{"message with fields that are too long", "", sentinel("+sentinel", strings.Repeat("a", 1000)+" b c d")},
	} {
		for cut := 1; cut < 8; cut += 3 {
			valid := strings.Repeat("+OK\r\n", 3) // in front of it
			before := strings.Repeat(ping, 3)
			passed, err := play(t, before+c.commands, cut, iotest.OneByteReader(strings.NewReader(valid+c.sent)))
			if !errors.Is(err, ErrReply) || !strings.HasPrefix(valid+c.sent, passed) || len(passed) < len(valid) || passed == valid+c.sent {
				t.Errorf("%s: error %v after %.60q", c.name, err, passed)
			}
			passed, err = play(t, before+c.commands, cut, strings.NewReader(valid+c.sent))
			if !errors.Is(err, ErrReply) || strings.HasPrefix(passed, valid+c.sent) {
				t.Errorf("%s at once: error %v after %.60q", c.name, err, passed)
			}
		}
	}
}

// After an invalid reply nothing passes any more.
func TestBroken(t *testing.T) {
	c := Guard(&tape{from: iotest.OneByteReader(strings.NewReader("$-7\r\n+OK\r\n"))}, testLimits)
	io.WriteString(c, ping+ping)
	io.Copy(io.Discard, c)
	if n, err := c.Read(make([]byte, 10)); n != 0 || !errors.Is(err, ErrReply) {
		t.Errorf("%d bytes, error %v", n, err)
	}
}

// What servers send passes unchanged, wherever reads and writes are cut.
func TestValidReplies(t *testing.T) {
	confirmed := func(kind, channel string) string {
		return fmt.Sprintf(">3\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n:1\r\n", len(kind), kind, len(channel), channel)
	}
	hello := "%7\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$6\r\n7.0.15\r\n$5\r\nproto\r\n:3\r\n$2\r\nid\r\n:12\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n$7\r\nmodules\r\n*0\r\n"
	unsubscribe := command("UNSUBSCRIBE", "a") + ping
	for _, c := range []struct{ name, commands, sent string }{
		{"handshake", command("HELLO", "3"), hello},
		{"handshake in RESP2", command("HELLO", "3") + command("HELLO", "2"), "-ERR unknown command `HELLO`\r\n*2\r\n$5\r\nproto\r\n:2\r\n"},
		{"every type", strings.Repeat(ping, 20), "+OK\r\n-ERR no\r\n:12\r\n:-9223372036854775808\r\n$3\r\na\r\n\r\n$0\r\n\r\n$-1\r\n*-1\r\n_\r\n#t\r\n#f\r\n,1.5\r\n,inf\r\n(123456789012345678901234567890\r\n!5\r\nERR a\r\n=5\r\ntxt:a\r\n*0\r\n%0\r\n~0\r\n*2\r\n%1\r\n+a\r\n*1\r\n~1\r\n:1\r\n$-1\r\n"},
		{"bounds", ping + ping, "$1048560\r\n" + strings.Repeat("a", 1048560) + "\r\n*65536\r\n" + strings.Repeat("_\r\n", 65536)},
		{"depth", ping, strings.Repeat("*1\r\n", 16) + ":1\r\n"},
		{"pipelining", strings.Repeat(ping, 1000), strings.Repeat("+PONG\r\n", 1000)},
		{"transaction", command("MULTI") + command("SET", "a", "b") + command("EXEC"), "+OK\r\n+QUEUED\r\n*1\r\n+OK\r\n"},
		{"redirections", ping + ping + ping, "-MOVED 1 127.0.0.1:7000\r\n-ASK 1 a:1\r\n-ERR REDIRECT a:1\r\n"},
		{"pushes", ping, ">2\r\n$10\r\ninvalidate\r\n*1\r\n+a\r\n+PONG\r\n>2\r\n+invalidate\r\n_\r\n>1\r\n+server-cpu-usage\r\n"},
		{"subscription", subscribe + ping, confirmed("subscribe", "a") + ">3\r\n+message\r\n+a\r\n+hello\r\n" + confirmed("subscribe", "b") + "+PONG\r\n"},
		{"subscription that is refused", subscribe + ping, "-NOPERM no\r\n+PONG\r\n"},
		{"subscription after commands", ping + subscribe + ping, "+PONG\r\n" + confirmed("subscribe", "a") + confirmed("subscribe", "b") + "+PONG\r\n"},
		{"end of a subscription", subscribe + unsubscribe + ping, confirmed("subscribe", "a") + confirmed("subscribe", "b") + confirmed("unsubscribe", "a") + "+PONG\r\n+PONG\r\n"},
		{"end that is refused", unsubscribe + ping, "-NOPERM User a has no permissions to run the 'unsubscribe' command\r\n+PONG\r\n+PONG\r\n"},
		{"end and PING that are refused", unsubscribe + ping, "-NOPERM the 'unsubscribe' command\r\n-NOPERM the 'ping' command\r\n+PONG\r\n"},
		{"end by the server", ping, confirmed("sunsubscribe", "a") + "+PONG\r\n" + confirmed("unsubscribe", "a")},
		{"role", command("ROLE"), "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n"},
		{"role that is refused", command("ROLE"), "-NOPERM no\r\n"},
		{"master", command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "m"), "*2\r\n$9\r\n127.0.0.1\r\n$4\r\n6379\r\n"},
		{"unknown master", command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "m") + ping, "*-1\r\n+PONG\r\n"},
		{"events of sentinels", "", ">3\r\n+message\r\n+switch-master\r\n+m 127.0.0.1 1 127.0.0.1 2\r\n>3\r\n+message\r\n++sentinel\r\n+sentinel id 127.0.0.1 1 @ m\r\n>3\r\n+message\r\n+other\r\n+\r\n"},
	} {
		for cut := 1; cut < 8; cut += 3 {
			for _, from := range []io.Reader{strings.NewReader(c.sent), iotest.OneByteReader(strings.NewReader(c.sent)), iotest.HalfReader(strings.NewReader(c.sent))} {
				if passed, err := play(t, c.commands, cut, from); err != nil || passed != c.sent {
					t.Errorf("%s: error %v after %d of %d bytes", c.name, err, len(passed), len(c.sent))
				}
			}
		}
	}
}

// In RESP2 the library takes any array for a message of a subscription, so there are none.
func TestNoOldSubscriptions(t *testing.T) {
	if _, err := play(t, command("HELLO", "2")+subscribe, 3, strings.NewReader("")); !errors.Is(err, ErrOldPubSub) {
		t.Errorf("error %v", err)
	}
	if _, err := play(t, command("HELLO", "2")+command("UNSUBSCRIBE"), 3, strings.NewReader("")); !errors.Is(err, ErrOldPubSub) {
		t.Errorf("error %v", err)
	}
}

// A guard allocates nothing for a reply.
func TestGuardAllocations(t *testing.T) {
	evalsha, reply := []byte(command("EVALSHA", strings.Repeat("a", 40), "1", "pen:{a}", strings.Repeat("b", 100))), []byte("$30\r\n"+strings.Repeat("a", 30)+"\r\n")
	from := &repeat{data: reply}
	c := Guard(&sink{from: from}, testLimits)
	p := make([]byte, 4096)
	if n := testing.AllocsPerRun(100, func() {
		if _, err := c.Write(evalsha); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Read(p); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

type sink struct {
	net.Conn
	from io.Reader
}

func (s *sink) Read(p []byte) (int, error)  { return s.from.Read(p) }
func (s *sink) Write(p []byte) (int, error) { return len(p), nil }

type repeat struct{ data []byte }

func (r *repeat) Read(p []byte) (int, error) { return copy(p, r.data), nil }

func BenchmarkGuard(b *testing.B) {
	evalsha, reply := []byte(command("EVALSHA", strings.Repeat("a", 40), "1", "pen:{a}", strings.Repeat("b", 100))), []byte("$30\r\n"+strings.Repeat("a", 30)+"\r\n")
	c := Guard(&sink{from: &repeat{data: reply}}, testLimits)
	p := make([]byte, 4096)
	for b.Loop() {
		c.Write(evalsha)
		c.Read(p)
	}
}
