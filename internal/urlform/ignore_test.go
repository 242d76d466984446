package urlform

import (
	"strings"
	"testing"
	"unicode"
)

const everything = Case | TrailingSlash | MatrixParameters

func TestIgnore(t *testing.T) {
	for _, test := range []struct {
		ignore     Ignore
		path, want string
	}{
		{0, "/Login/;x", "/Login/;x"},
		{Case, "/LogIn", "/login"},
		{Case, "/a%2Fb", "/a%2fb"},
		{Case, "/ÉCOLE/Σσς", "/école/σσσ"},
		{Case, "/\u212a\u017fİ", "/ksi"}, // the Kelvin sign, a long s, a dotted I
		{TrailingSlash, "/login/", "/login"},
		{TrailingSlash, "/login", "/login"},
		{TrailingSlash, "/", "/"},
		{MatrixParameters, "/login;x=1", "/login"},
		{MatrixParameters, "/login;x=1;y/;z", "/login/"},
		{MatrixParameters, "/a;x/b;y/c", "/a/b/c"},
		{MatrixParameters, "/a/..;x/b", "/b"},
		{MatrixParameters, "/a/.;x/b", "/a/b"},
		{MatrixParameters, "/;x/login", "/login"},
		{MatrixParameters, "/;x", "/"},
		{MatrixParameters, "/login%3Bx=1", "/login"}, // which Path decodes
		{MatrixParameters | TrailingSlash, "/login/;x=1", "/login"},
		{everything, "/x/..;y/LOGIN;z=1/", "/login"},
	} {
		if got := test.ignore.Path(Path(test.path)); got != test.want {
			t.Errorf("%03b: %q becomes %q, want %q", test.ignore, test.path, got, test.want)
		}
	}
}

// Letters that any server treats as the same are one letter.
func TestFold(t *testing.T) {
	for r := rune(0); r <= unicode.MaxRune; r++ {
		folded := fold(r)
		if fold(folded) != folded {
			t.Errorf("%U becomes %U and then %U", r, folded, fold(folded))
		}
		for _, other := range []rune{unicode.ToLower(r), unicode.ToUpper(r), unicode.ToTitle(r), unicode.SimpleFold(r)} {
			if other < 0x80 && r >= 0x80 && unicode.SimpleFold(r) == r {
				continue // ı, whose capital is I, is a different letter everywhere else
			}
			if fold(other) != folded {
				t.Errorf("%U becomes %U, but %U becomes %U", r, folded, other, fold(other))
			}
		}
	}
}

func TestIgnoringAllocatesNothing(t *testing.T) {
	if n := testing.AllocsPerRun(100, func() { everything.Path("/v1/users/7/.config/") }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzIgnore checks that ignored spellings make no difference, and that the result has the form of a path.
func FuzzIgnore(f *testing.F) {
	for _, seed := range []string{"/", "/Login/", "/a;b/c", "/..;/", "/;", "/%2F;x/É", "//;//;", "/\xff", "/a;%2F;/.."} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		path := Path(text)
		for ignore := range everything + 1 {
			got := ignore.Path(path)
			if again := ignore.Path(Path(got)); again != got {
				t.Errorf("%03b: %q becomes %q and then %q", ignore, path, got, again)
			}
			if !strings.HasPrefix(got, "/") || strings.Contains(got, "//") {
				t.Errorf("%03b: %q becomes %q", ignore, path, got)
			}
		}
		want := everything.Path(path)
		spellings := []string{strings.ReplaceAll(path, "/", "/;x/") + ";y=1", strings.TrimSuffix(path, "/") + "/", path + "/y/..;x"}
		for _, spelling := range spellings {
			if got := everything.Path(Path(spelling)); got != want {
				t.Errorf("%q becomes %q, but %q becomes %q", path, want, spelling, got)
			}
		}
	})
}
