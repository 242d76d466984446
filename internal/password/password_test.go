package password

import (
	"strings"
	"testing"
)

const good = "correct horse battery"

func TestHashAndVerify(t *testing.T) {
	one, two := Hash(good), Hash(good)
	if one == two || !strings.HasPrefix(one, "$argon2id$v=19$m=19456,t=2,p=1$") || strings.Contains(one, good) {
		t.Errorf("%s\n%s", one, two)
	}
	for password, want := range map[string]bool{good: true, "": false, good + " ": false, "Correct horse battery": false, strings.Repeat("a", 1<<20): false} {
		if ok, outdated, err := Verify(one, password); ok != want || outdated || err != nil {
			t.Errorf("%.40q: %v %v %v", password, ok, outdated, err)
		}
	}
}

// The example was made by the reference implementation: echo -n password | argon2 somesalt -id -t 2 -k 65536 -p 1.
func TestOtherParameters(t *testing.T) {
	const reference = "$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc"
	if ok, outdated, err := Verify(reference, "password"); !ok || !outdated || err != nil {
		t.Errorf("%v %v %v", ok, outdated, err)
	}
}

func TestDamagedHash(t *testing.T) {
	whole := Hash(good)
	for _, damaged := range []string{
		"", "x", whole[:20], whole[:len(whole)-30], whole + "$", whole + "=", strings.Replace(whole, "argon2id", "argon2i", 1),
		strings.Replace(whole, "v=19", "v=16", 1), strings.Replace(whole, "m=19456", "m=4294967295", 1), strings.Replace(whole, "m=19456", "m=019456", 1),
		strings.Replace(whole, "t=2", "t=0", 1), strings.Replace(whole, "t=2", "t=1000000", 1), strings.Replace(whole, "p=1", "p=0", 1),
		strings.Replace(whole, "p=1", "p=255", 1), strings.Replace(whole, "p=1", "p=-1", 1), strings.Repeat("$", 1000),
		"$argon2id$v=19$m=19456,t=2,p=1$$", "$argon2id$v=19$m=19456,t=2,p=1$c29tZXNhbHQ$",
	} {
		if ok, _, err := Verify(damaged, good); ok || err == nil || strings.Contains(err.Error(), "$") {
			t.Errorf("%.60s: %v %v", damaged, ok, err)
		}
	}
}

func TestCheck(t *testing.T) {
	for password, want := range map[string]string{
		good: "", "ünïcödé ist gut": "", strings.Repeat("abcde", 51): "",
		"": "at least 12", "elevenchars": "has 11", "ööööööööööö": "has 11", strings.Repeat("abcde", 52): "has 260",
		"aaaaaaaaaaaaaaaa": "different", "the cat ANN sleeps": "user name", "with\x00null bytes": "control", "not \xff\xfe UTF-8 text": "control",
	} {
		if err := Check(password, "a"); (err == nil) != (want == "" || want == "user name") {
			t.Errorf("%.60q, of a: %v", password, err) // nearly every password contains a short name
		}
		err := Check(password, "ann")
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: %v, want %q", password, err, want)
		}
	}
}
