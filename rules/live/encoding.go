package live

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/penstock-io/penstock/rules"
)

// An encoded text has a magic line, a line with the SHA-256 of everything after it, a line of JSON with the names
// and sizes of the files, and the files.
const (
	encodingKind  = "penstock rules "
	encodingMagic = encodingKind + "1\n"
	sumLine       = len("sha256:") + 2*sha256.Size + 1

	maxFiles  = 1000
	maxName   = 4096
	maxHeader = (maxFiles + 1) * (maxName*6 + 64) // a byte takes at most six in JSON; one more for the origin
)

// MaxEncoded is the maximum size of an encoded text, in bytes.
const MaxEncoded = len(encodingMagic) + sumLine + maxHeader + rules.MaxDocument

type encodedHeader struct {
	Version   int64         `json:"version"`
	Published time.Time     `json:"published,omitzero"`
	Origin    string        `json:"origin,omitempty"` // only in last good copies
	Files     []encodedFile `json:"files"`
}

type encodedFile struct {
	Name string `json:"name"`
	Size int    `json:"size"`
}

// Encode returns the text in the format that [DecodeText] reads.
func (t *Text) Encode() ([]byte, error) { return t.encode("") }

// encode encodes the text with the name of its origin.
func (t *Text) encode(origin string) ([]byte, error) {
	header := encodedHeader{Version: t.Version, Published: t.Published, Origin: origin}
	for _, f := range t.Files {
		header.Files = append(header.Files, encodedFile{f.Name, len(f.Data)})
	}
	if err := header.check(); err != nil {
		return nil, fmt.Errorf("encode the rules: %w", err)
	}
	line, err := json.Marshal(header)
	if err != nil {
		return nil, fmt.Errorf("encode the rules: %w", err)
	}
	parts := [][]byte{line, []byte("\n")}
	for _, f := range t.Files {
		parts = append(parts, f.Data)
	}
	body := bytes.Join(parts, nil)
	sum := sha256.Sum256(body)
	return fmt.Appendf(nil, "%ssha256:%x\n%s", encodingMagic, sum, body), nil
}

// DecodeText reads what [Text.Encode] wrote. It rejects truncated or altered data.
func DecodeText(data []byte) (*Text, error) {
	t, _, err := DecodeLastGood(data)
	return t, err
}

// DecodeLastGood reads a last good copy and the name of the origin of its rules. The name is empty in the copy of an
// older version.
func DecodeLastGood(data []byte) (t *Text, origin string, err error) {
	if t, origin, err = decodeText(data); err != nil {
		return nil, "", fmt.Errorf("decode the rules, %d bytes: %w", len(data), err)
	}
	return t, origin, nil
}

func decodeText(data []byte) (t *Text, origin string, err error) {
	if len(data) > MaxEncoded {
		return nil, "", fmt.Errorf("at most %d bytes can be rules", MaxEncoded)
	}
	rest, ok := bytes.CutPrefix(data, []byte(encodingMagic))
	if !ok {
		first, _, _ := bytes.Cut(data, []byte("\n"))
		if other, ok := bytes.CutPrefix(first, []byte(encodingKind)); ok {
			return nil, "", fmt.Errorf("they are in format %.20q, this program reads format 1: another version of Penstock has written them", other)
		}
		return nil, "", fmt.Errorf("they do not begin with %q", encodingMagic)
	}
	if len(rest) < sumLine {
		return nil, "", errors.New("they end within the checksum")
	}
	if want := fmt.Sprintf("sha256:%x\n", sha256.Sum256(rest[sumLine:])); string(rest[:sumLine]) != want {
		return nil, "", errors.New("the checksum is of other rules: they were cut off or altered")
	}
	line, body, ok := bytes.Cut(rest[sumLine:], []byte("\n"))
	if !ok || len(line) > maxHeader {
		return nil, "", errors.New("they have no list of files")
	}
	var header encodedHeader
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&header); err != nil {
		return nil, "", fmt.Errorf("read the list of files: %w", err)
	}
	if err := header.check(); err != nil {
		return nil, "", err
	}
	var files []rules.File
	for _, f := range header.Files {
		if f.Size > len(body) {
			return nil, "", fmt.Errorf("file %.100q has %d bytes, but %d are left", f.Name, f.Size, len(body))
		}
		files = append(files, rules.File{Name: f.Name, Data: bytes.Clone(body[:f.Size])})
		body = body[f.Size:]
	}
	if len(body) > 0 {
		return nil, "", fmt.Errorf("%d bytes belong to no file", len(body))
	}
	return NewText(header.Version, header.Published, files...), header.Origin, nil
}

func (h *encodedHeader) check() error {
	if n := len(h.Files); n < 1 || n > maxFiles {
		return fmt.Errorf("rules are in 1 to %d files, not in %d", maxFiles, n)
	}
	if len(h.Origin) > maxName || !utf8.ValidString(h.Origin) {
		return fmt.Errorf("origin %.100q must be UTF-8 of at most %d bytes", h.Origin, maxName)
	}
	if h.Version < 0 {
		return fmt.Errorf("version %d must not be negative", h.Version)
	}
	total := 0
	for _, f := range h.Files {
		switch {
		case len(f.Name) > maxName || !utf8.ValidString(f.Name):
			return fmt.Errorf("file name %.100q must be UTF-8 of at most %d bytes", f.Name, maxName)
		case f.Size < 0 || f.Size > rules.MaxDocument-total:
			return fmt.Errorf("files of %d bytes and more, at most %d together", total, rules.MaxDocument)
		}
		total += f.Size
	}
	return nil
}
