package spelling

import (
	"encoding/json"
	"math/big"
	"strconv"
	"strings"
	"testing"
)

func TestNumber(t *testing.T) {
	for want, texts := range map[string][]string{
		"42":                           {"42", "42.0", "42.000", "4.2e1", "4.2E+1", "0.42e2", "420e-1", "42e0", "42e-0", "4200000000000000000000e-20", "42.00000000000000000001", "0.000000000000000042e18"},
		"-42":                          {"-42", "-42.0", "-4.2e1"},
		"0":                            {"0", "-0", "0.0", "-0.0", "0e5", "0e400", "0e99999999999999999999", "1e-400", "-1e-99999999999999999999"},
		"100":                          {"100", "1e2", "100.0", "1000e-1", "100e0"},
		"1.5":                          {"1.5", "1.50", "15e-1", "0.15e1"},
		"0.1":                          {"0.1", "1e-1", "0.1000000000000000000001"},
		"1e-07":                        {"0.0000001", "1e-7"},
		"1000000000000000000000":       {"1e21", "1000000000000000000000", "1000000000000000000000.0"},
		"9007199254740993":             {"9007199254740993", "9007199254740993.0", "9.007199254740993e15"},
		"9007199254740992":             {"9007199254740992"},
		"1" + strings.Repeat("0", 308): {"1e308", "10e307"},
	} {
		for _, text := range texts {
			if got, ok := Number(text); got != want || !ok {
				t.Errorf("%s: %s, %t; want %s", text, got, ok, want)
			}
		}
	}
	for _, text := range []string{"1e309", "-1e400", "1e99999999999999999999", "2.5e400"} {
		if got, ok := Number(text); ok {
			t.Errorf("%s: %s", text, got)
		}
	}
}

// FuzzNumber checks that numbers with one form are one double, that the form has itself as its form, and that two
// numbers that are equal have one form.
func FuzzNumber(f *testing.F) {
	for _, text := range []string{"42", "42.0", "4.2e1", "-0", "1e-400", "9007199254740993.5", "0.1e-3"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 64 || !json.Valid([]byte(text)) || strings.Trim(text, "-+.eE0123456789") != "" {
			return
		}
		form, ok := Number(text)
		if !ok {
			return
		}
		if again, ok := Number(form); again != form || !ok {
			t.Errorf("%q: %q, and of that %q, %t", text, form, again, ok)
		}
		want, err := strconv.ParseFloat(text, 64)
		got, _ := strconv.ParseFloat(form, 64)
		if err == nil && got != want {
			t.Errorf("%q: %q is another number", text, form)
		}
		exact, isNumber := new(big.Rat).SetString(form)
		if whole, _ := new(big.Rat).SetString(text); isNumber && whole != nil && whole.IsInt() && whole.Cmp(exact) != 0 {
			t.Errorf("%q: the integer is changed to %q", text, form)
		}
	})
}
