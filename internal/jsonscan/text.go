package jsonscan

import (
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// run scans a string up to its end, the next escape or the end of p, and returns how many bytes it took.
func (s *Scanner) run(p []byte) int {
	i := plain(p)
	s.add(p[:i])
	if i == len(p) {
		return i
	}
	switch c := p[i]; c {
	case '"':
		s.endString()
	case '\\':
		s.state = inEscape
	default:
		s.fail(c)
	}
	return i + 1
}

// isKept reports whether anyone wants the current string.
func (s *Scanner) isKept() bool { return s.isKey || len(s.next) > 0 }

func (s *Scanner) add(p []byte) {
	if len(p) > 0 {
		s.endPair()
	}
	s.append(p)
}

func (s *Scanner) append(p []byte) {
	if !s.isKept() {
		return
	}
	if room := s.limit - len(s.text); len(p) > room {
		p, s.long = p[:room], true
	}
	s.text = append(s.text, p...)
}

func (s *Scanner) addRune(r rune) { s.append(utf8.AppendRune(nil, r)) }

// endPair writes half of a surrogate pair that stays alone.
func (s *Scanner) endPair() {
	if s.leading != 0 {
		s.leading = 0
		s.addRune(utf8.RuneError)
	}
}

func (s *Scanner) escaped(c byte) {
	const letters, meanings = `"\/bfnrt`, "\"\\/\b\f\n\r\t"
	if c == 'u' {
		s.state, s.escape, s.digits = inUnicode, 0, 0
		return
	}
	i := strings.IndexByte(letters, c)
	if i < 0 {
		s.fail(c)
		return
	}
	s.state = inString
	s.add([]byte{meanings[i]})
}

func (s *Scanner) unicode(c byte) {
	digit := strings.IndexByte("0123456789abcdef", c|0x20)
	if c < '0' || digit < 0 {
		s.fail(c)
		return
	}
	s.escape = s.escape<<4 | rune(digit)
	if s.digits++; s.digits < 4 {
		return
	}
	s.state = inString
	r := s.escape
	if s.leading != 0 {
		if pair := utf16.DecodeRune(s.leading, r); pair != utf8.RuneError {
			s.leading = 0
			s.addRune(pair)
			return
		}
	}
	s.endPair()
	if utf16.IsSurrogate(r) && r < 0xdc00 {
		s.leading = r
		return
	}
	s.addRune(r)
}

func (s *Scanner) endString() {
	s.endPair()
	if s.isKey {
		s.matchKey()
		s.state = wantColon
		return
	}
	if len(s.next) > 0 {
		s.keep(Value{Kind: String, Text: strings.ToValidUTF8(string(s.text), "�"), Long: s.long})
	}
	s.ended()
}
