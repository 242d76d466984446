package redisdial

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"testing"
	_ "unsafe" // for go:linkname

	"github.com/redis/rueidis"
)

// readers are the functions by which the client library reads values, by type.
//
//go:linkname readers github.com/redis/rueidis.readers
var readers [256]func(*bufio.Reader) (rueidis.RedisMessage, error)

// readValue reads a value as the client library does. It does not know attributes, which a guard refuses.
func readValue(r *bufio.Reader) error {
	kind, err := r.ReadByte()
	if err != nil {
		return err
	}
	read := readers[kind]
	if read == nil {
		return errors.New("unknown type")
	}
	if _, err = read(r); err != nil && err.Error() == "RESP2 null" {
		return nil
	}
	return err
}

// FuzzReplies reads with the client library what a guard passes: it neither panics nor sees an error before the end,
// and both agree on where values end.
func FuzzReplies(f *testing.F) {
	for _, seed := range []string{
		"+OK\r\n", "-ERR no\r\n", ":12\r\n", "$3\r\nabc\r\n", "$-1\r\n", "*-1\r\n", "*2\r\n:1\r\n$1\r\na\r\n", "%1\r\n+a\r\n~2\r\n_\r\n#t\r\n",
		",1.5\r\n(12\r\n", "=5\r\ntxt:a\r\n", "!5\r\nERR a\r\n", ">3\r\n+message\r\n+a\r\n+b\r\n", "*?\r\n:1\r\n.\r\n", "$?\r\n;1\r\na\r\n;0\r\n",
		"*-5\r\n", "$-7\r\n", "*9223372036854775807\r\n", "$2147483647\r\n", "|1\r\n+a\r\n+b\r\n+OK\r\n", "-MOVED\r\n", "+OK\n", "*1\r\n>1\r\n+a\r\n", "#ab#ab#ab", "_ab_ab",
	} {
		f.Add([]byte(seed), uint8(3))
	}
	f.Fuzz(func(t *testing.T, sent []byte, cut uint8) {
		newReader := func() *reader {
			r := &reader{limits: Limits{Bytes: 1 << 16, Elements: 1 << 10}, book: new(book)}
			r.book.sent.Store(1 << 60)
			return r
		}
		byBytes, values, valid := newReader(), 0, 0 // values in the bytes that are valid
		for ; valid < len(sent); valid++ {
			within := byBytes.within
			if byBytes.follow(sent[valid:valid+1]) != nil {
				break
			}
			if within && !byBytes.within {
				values++
			}
		}
		byPieces, end := newReader(), 0
		for end < len(sent) {
			n := min(max(1, int(cut)), len(sent)-end)
			if byPieces.follow(sent[end:end+n]) != nil {
				break
			}
			end += n
		}
		if end > valid || end < valid-int(cut) {
			t.Fatalf("%q is valid to byte %d, and to %d in pieces of %d", sent, valid, end, cut)
		}
		from := bufio.NewReader(bytes.NewReader(sent[:valid]))
		for range values {
			if err := readValue(from); err != nil {
				t.Fatalf("in %q the library does not find %d values: %v", sent[:valid], values, err)
			}
		}
		if err := readValue(from); !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("in %q the library finds more than %d values: %v", sent[:valid], values, err)
		}
	})
}
