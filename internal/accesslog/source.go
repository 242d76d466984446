package accesslog

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"

	"github.com/klauspost/compress/zstd"
)

const (
	maxLine   = 256 << 10
	sniffed   = 64 << 10 // bytes from which the format is detected
	zstdLimit = 64 << 20 // bytes of a zstd window
)

// A source is one file that is being read.
type source struct {
	name   string
	lines  *bufio.Reader
	line   int64 // number of the last line
	format Format
	parser parser
	close  []func()

	next item // the next request
	has  bool
}

// countingReader counts the bytes read from a file, before decompression.
type countingReader struct {
	io.Reader
	read *atomic.Int64
}

func (c countingReader) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.read.Add(int64(n))
	return n, err
}

// openSource opens a file, or stdin for -, and detects its compression and format.
func openSource(path string, o *Options, read *atomic.Int64) (s *source, size int64, err error) {
	s = &source{name: path}
	var raw io.Reader = o.Stdin
	if path == "-" {
		s.name = cmp.Or(o.StdinName, "stdin")
	} else {
		file, err := os.Open(path)
		if err != nil {
			return nil, 0, fmt.Errorf("open the log: %w", err)
		}
		s.close = append(s.close, func() { file.Close() })
		info, err := file.Stat()
		if err == nil && info.IsDir() {
			err = errors.New("it is a directory; give the files in it")
		}
		if err != nil {
			s.Close()
			return nil, 0, fmt.Errorf("open the log %s: %w", path, err)
		}
		raw, size = file, info.Size()
	}
	if err := s.begin(countingReader{raw, read}, o); err != nil {
		s.Close()
		return nil, 0, fmt.Errorf("%s: %w", s.name, err)
	}
	return s, size, nil
}

func (s *source) Close() {
	for _, c := range s.close {
		c()
	}
}

// begin reads the beginning of the file.
func (s *source) begin(raw io.Reader, o *Options) error {
	packed := bufio.NewReaderSize(raw, 64<<10)
	magic, _ := packed.Peek(4)
	var plain io.Reader = packed
	switch {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		r, err := gzip.NewReader(packed)
		if err != nil {
			return fmt.Errorf("read gzip: %w", err)
		}
		plain = r
	case bytes.HasPrefix(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		r, err := zstd.NewReader(packed, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(zstdLimit))
		if err != nil {
			return fmt.Errorf("read zstd: %w", err)
		}
		s.close = append(s.close, r.Close)
		plain = r
	}
	s.lines = bufio.NewReaderSize(plain, sniffed)
	head, err := s.lines.Peek(sniffed)
	if len(head) == 0 {
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		return nil // an empty file has no requests
	}
	if bytes.IndexByte(head, 0) >= 0 {
		return errors.New("a binary file, not a log; logs are text, plain or compressed with gzip or zstd")
	}
	if o.Format != "" {
		s.format, err = FindFormat(o.Format)
	} else {
		s.format, err = detect(sample(head), o)
	}
	if err != nil {
		return err
	}
	s.parser = s.format.newParser(o)
	return nil
}

// sample returns complete lines, and the first even if it is incomplete.
func sample(head []byte) []string {
	lines := strings.Split(strings.TrimRight(string(head), "\r\n"), "\n")
	if len(head) == sniffed && len(lines) > 1 {
		lines = lines[:len(lines)-1]
	}
	var some []string
	for _, line := range lines {
		if line = strings.TrimRight(line, "\r"); line != "" {
			some = append(some, line)
		}
	}
	return append(some, "")[:max(1, len(some))]
}

var errLong = fmt.Errorf("longer than %d bytes", maxLine)

// readLine returns the next line that is not empty, or an error that ends the file. It returns errLong for a line
// that is too long.
func (s *source) readLine() (string, error) {
	for {
		line, err := s.lines.ReadSlice('\n')
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) && len(line) == 0 {
			return "", err
		}
		s.line++
		text := string(line)
		for errors.Is(err, bufio.ErrBufferFull) {
			line, err = s.lines.ReadSlice('\n')
			if len(text) <= maxLine {
				text += string(line)
			}
		}
		if len(text) > maxLine {
			return text[:80], errLong
		}
		if text = strings.TrimRight(text, "\r\n"); text != "" {
			return text, nil
		}
	}
}
