package httplimit

import "strings"

// parseForwarded returns the for= node of each element of a Forwarded line, from the left, and "" for an
// element without one. It reports whether the line follows RFC 7239: an unterminated quoted string could hide
// an element, or forge one.
func parseForwarded(line string) (nodes []string, ok bool) {
	s := scanner(line)
	for {
		node, ok := s.element()
		if !ok {
			return nil, false
		}
		nodes = append(nodes, node)
		if s == "" {
			return nodes, true
		}
		s = s[1:] // the comma
	}
}

// A scanner is the unread rest of a line.
type scanner string

// element reads the pairs up to a comma or the end.
func (s *scanner) element() (node string, ok bool) {
	seen := false
	for {
		s.space()
		if name := s.token(); name != "" {
			if *s == "" || (*s)[0] != '=' {
				return "", false
			}
			*s = (*s)[1:]
			value, ok := s.value()
			isFor := strings.EqualFold(name, "for")
			if !ok || isFor && seen {
				return "", false
			}
			if isFor {
				node, seen = value, true
			}
			s.space()
		}
		switch {
		case *s == "" || (*s)[0] == ',':
			return node, true
		case (*s)[0] != ';':
			return "", false
		}
		*s = (*s)[1:]
	}
}

func (s *scanner) space() { *s = scanner(strings.TrimLeft(string(*s), " \t")) }

func (s *scanner) token() string { return s.upTo(" \t=;,\"") }

// value reads a token or a quoted string. Tokens may contain the colons and brackets of an address, which
// many proxies do not quote.
func (s *scanner) value() (text string, ok bool) {
	if *s == "" || (*s)[0] != '"' {
		text = s.upTo(" \t;,\"")
		return text, text != ""
	}
	for i := 1; i < len(*s); i++ {
		switch (*s)[i] {
		case '\\': // no address needs one, so the text is not an address, with it or without
			i++
		case '"':
			text, *s = string((*s)[1:i]), (*s)[i+1:]
			return text, true
		}
	}
	return "", false
}

func (s *scanner) upTo(ends string) (text string) {
	end := strings.IndexAny(string(*s), ends)
	if end < 0 {
		end = len(*s)
	}
	text, *s = string((*s)[:end]), (*s)[end:]
	return text
}
