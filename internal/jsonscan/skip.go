package jsonscan

import (
	"encoding/binary"
	"fmt"
)

// Values that nobody asks for are not taken apart: a table says for every byte whether it may come, and nothing is kept
// of them. They are still checked, so that a text means the same to every decoder that accepts it.

// A skipState says what may come next within a value that is skipped.
type skipState = uint8

const (
	skipInvalid   skipState = iota // the byte cannot come
	skipAny                        // before a value
	skipElement                    // after [
	skipNextKey                    // after a comma in an object
	skipMember                     // after {
	skipColon                      // after a key
	skipEnd                        // after a value
	skipString                     // in a string
	skipEscape                     // after a backslash, and after \u and its digits
	skipHex1                       //
	skipHex2                       //
	skipHex3                       //
	skipHex4                       //
	skipKey                        // in a key, with the same states as in a string
	skipKeyEscape                  //
	skipKeyHex1                    //
	skipKeyHex2                    //
	skipKeyHex3                    //
	skipKeyHex4                    //
	skipMinus                      // in a number
	skipZero                       //
	skipDigits                     //
	skipPoint                      //
	skipFraction                   //
	skipE                          //
	skipSign                       //
	skipExponent                   //
	skipWord                       // in true, false and null: one state for each letter
	skipStates    = skipWord + 3 + 4 + 3
)

// Steps that are more than a change of the state.
const (
	skipOpenObject skipState = 0xff - iota
	skipOpenArray
	skipComma
	skipCloseObject
	skipCloseArray
	skipSteps
)

var skipTable [skipStates][256]skipState

func init() {
	set := func(from skipState, bytes string, to skipState) {
		for i := range len(bytes) {
			skipTable[from][bytes[i]] = to
		}
	}
	const digits, hex = "0123456789", "0123456789abcdefABCDEF"
	for _, state := range []skipState{skipAny, skipElement, skipNextKey, skipMember, skipColon, skipEnd} {
		set(state, " \t\r\n", state)
	}
	for _, state := range []skipState{skipAny, skipElement} {
		set(state, `"`, skipString)
		set(state, "{", skipOpenObject)
		set(state, "[", skipOpenArray)
		set(state, "-", skipMinus)
		set(state, "0", skipZero)
		set(state, "123456789", skipDigits)
	}
	word := skipWord
	for _, text := range []string{"true", "false", "null"} {
		set(skipAny, text[:1], word)
		set(skipElement, text[:1], word)
		for i := 1; i < len(text)-1; i, word = i+1, word+1 {
			set(word, text[i:i+1], word+1)
		}
		set(word, text[len(text)-1:], skipEnd)
		word++
	}
	set(skipElement, "]", skipCloseArray)
	set(skipMember, "}", skipCloseObject)
	set(skipMember, `"`, skipKey)
	set(skipNextKey, `"`, skipKey)
	set(skipColon, ":", skipAny)
	for _, text := range []struct{ in, end skipState }{{skipString, skipEnd}, {skipKey, skipColon}} {
		for c := ' '; c < 256; c++ {
			skipTable[text.in][c] = text.in
		}
		set(text.in, `"`, text.end)
		set(text.in, `\`, text.in+1)
		set(text.in+1, `"\/bfnrt`, text.in)
		set(text.in+1, "u", text.in+2)
		for i := range skipState(3) {
			set(text.in+2+i, hex, text.in+3+i)
		}
		set(text.in+5, hex, text.in)
	}
	set(skipMinus, "0", skipZero)
	set(skipMinus, "123456789", skipDigits)
	set(skipDigits, digits, skipDigits)
	set(skipZero, ".", skipPoint)
	set(skipDigits, ".", skipPoint)
	set(skipPoint, digits, skipFraction)
	set(skipFraction, digits, skipFraction)
	set(skipE, "+-", skipSign)
	set(skipE, digits, skipExponent)
	set(skipSign, digits, skipExponent)
	set(skipExponent, digits, skipExponent)
	for _, state := range []skipState{skipZero, skipDigits, skipFraction} {
		set(state, "eE", skipE)
	}
	for _, state := range []skipState{skipZero, skipDigits, skipFraction, skipExponent, skipEnd} {
		set(state, " \t\r\n", skipEnd)
		set(state, ",", skipComma)
		set(state, "]", skipCloseArray)
		set(state, "}", skipCloseObject)
	}
}

// skip checks a value that nobody asks for, up to its end or the end of p, and returns how many bytes it took. What
// follows the value is left to the other states.
func (s *Scanner) skip(p []byte) int {
	at := s.skipped
	for i := 0; i < len(p); i++ {
		if at == skipString || at == skipKey {
			if i += plain(p[i:]); i == len(p) {
				break
			}
		}
		next := skipTable[at][p[i]]
		if next < skipStates && next != skipInvalid {
			at = next
			continue
		}
		if (next == skipComma || next == skipCloseObject || next == skipCloseArray) && s.depth == s.skipFrom {
			s.ended()
			return i
		}
		if at = s.skipStep(next, p[i]); at == skipInvalid {
			return len(p)
		}
	}
	s.skipped = at
	return len(p)
}

// skipStep begins, continues or ends a container, and returns what may come then.
func (s *Scanner) skipStep(step skipState, c byte) skipState {
	switch isObject := s.isObject(); {
	case step == skipOpenObject || step == skipOpenArray:
		if s.depth == MaxDepth {
			s.err = fmt.Errorf("a JSON text with more than %d levels", MaxDepth)
			return skipInvalid
		}
		s.enter(step == skipOpenObject)
		if step == skipOpenObject {
			return skipMember
		}
		return skipElement
	case step == skipComma && isObject:
		return skipNextKey
	case step == skipComma:
		return skipAny
	case step == skipCloseObject && isObject, step == skipCloseArray && !isObject:
		s.depth--
		return skipEnd
	}
	s.fail(c)
	return skipInvalid
}

// plain returns how many bytes at the beginning of p are neither a quote, a backslash nor a control character.
func plain(p []byte) int {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	i := 0
	for ; i+8 <= len(p); i += 8 {
		v := binary.LittleEndian.Uint64(p[i:])
		quote, slash := v^('"'*ones), v^('\\'*ones)
		if (((quote-ones)&^quote)|((slash-ones)&^slash)|((v-' '*ones)&^v))&tops != 0 {
			break
		}
	}
	for ; i < len(p) && p[i] != '"' && p[i] != '\\' && p[i] >= ' '; i++ {
	}
	return i
}

// skipFirst begins to skip a value with its first byte.
func (s *Scanner) skipFirst(c byte) { s.skip([]byte{c}) }
