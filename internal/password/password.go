// Package password hashes and checks the passwords of users with argon2id. A hash names its parameters, so that they
// can be raised later. Every call uses a core and 19 MiB for about 30 ms: the caller bounds how many run at once.
package password

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/crypto/argon2"
)

// Bounds of a password: at least MinLength characters, at most MaxBytes bytes.
const (
	MinLength = 12
	MaxBytes  = 256
)

// The parameters of new hashes, as OWASP recommends them: memory in KiB, passes and threads.
const (
	memory  = 19 * 1024
	passes  = 2
	threads = 1

	saltBytes = 16
	keyBytes  = 32
)

// The largest parameters that Verify accepts, so that a damaged hash cannot exhaust memory.
const (
	maxMemory  = 256 * 1024
	maxPasses  = 16
	maxThreads = 8
	maxKey     = 64
)

// Check reports every reason why a user cannot have the password. There are no rules about kinds of characters,
// which only make passwords predictable.
func Check(password, user string) error {
	var errs []error
	if n := utf8.RuneCountInString(password); n < MinLength {
		errs = append(errs, fmt.Errorf("must have at least %d characters, has %d", MinLength, n))
	}
	if len(password) > MaxBytes {
		errs = append(errs, fmt.Errorf("may have at most %d bytes, has %d", MaxBytes, len(password)))
	}
	if !utf8.ValidString(password) || strings.ContainsFunc(password, unicode.IsControl) {
		errs = append(errs, errors.New("must be text without control characters"))
	}
	if len(user) >= 3 && strings.Contains(strings.ToLower(password), strings.ToLower(user)) {
		errs = append(errs, errors.New("must not contain the user name"))
	}
	if isRepetition(password) {
		errs = append(errs, errors.New("must have at least 5 different characters"))
	}
	return errors.Join(errs...)
}

func isRepetition(password string) bool {
	different := map[rune]bool{}
	for _, r := range password {
		different[r] = true
	}
	return len(different) < 5
}

// Generate returns a random password of 130 bits.
func Generate() string { return rand.Text() }

// Hash returns the hash of a password, with a new salt, as a PHC string: $argon2id$v=19$m=…,t=…,p=…$salt$key.
func Hash(password string) string {
	salt := make([]byte, saltBytes)
	_, _ = rand.Read(salt) // never fails
	h := hash{memory: memory, passes: passes, threads: threads, salt: salt}
	h.key = h.derive(password, keyBytes)
	return h.String()
}

// Decoy is a hash that takes as long to verify as others. Callers verify it for users who do not exist, so that the
// time does not reveal who does.
var Decoy = (&hash{memory: memory, passes: passes, threads: threads, salt: make([]byte, saltBytes), key: make([]byte, keyBytes)}).String()

// Verify reports whether a password has the hash, and whether the hash should be made again with today's parameters.
func Verify(encoded, password string) (ok, outdated bool, err error) {
	h, err := parse(encoded)
	if err != nil {
		return false, false, err
	}
	if len(password) > MaxBytes {
		return false, false, nil
	}
	ok = subtle.ConstantTimeCompare(h.key, h.derive(password, uint32(len(h.key)))) == 1
	return ok, h.memory != memory || h.passes != passes || h.threads != threads, nil
}

// A hash is a derived key and what it was derived with.
type hash struct {
	memory, passes uint32
	threads        uint8
	salt, key      []byte
}

func (h *hash) derive(password string, length uint32) []byte {
	return argon2.IDKey([]byte(password), h.salt, h.passes, h.memory, h.threads, length)
}

func (h *hash) String() string {
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, h.memory, h.passes, h.threads,
		base64.RawStdEncoding.EncodeToString(h.salt), base64.RawStdEncoding.EncodeToString(h.key))
}

// errHash does not quote the hash.
var errHash = errors.New("the stored password hash is damaged: set the password again")

func parse(encoded string) (*hash, error) {
	parts := strings.Split(encoded, "$")
	if len(encoded) > 512 || len(parts) != 6 || parts[0] != "" || parts[1] != "argon2id" || parts[2] != fmt.Sprint("v=", argon2.Version) {
		return nil, errHash
	}
	var h hash
	if _, err := fmt.Sscanf(parts[3], "m=%d,t=%d,p=%d", &h.memory, &h.passes, &h.threads); err != nil {
		return nil, errHash
	}
	var err1, err2 error
	h.salt, err1 = base64.RawStdEncoding.DecodeString(parts[4])
	h.key, err2 = base64.RawStdEncoding.DecodeString(parts[5])
	if err1 != nil || err2 != nil || !h.bounded() || h.String() != encoded {
		return nil, errHash
	}
	return &h, nil
}

func (h *hash) bounded() bool {
	return h.passes >= 1 && h.passes <= maxPasses && h.threads >= 1 && h.threads <= maxThreads && h.memory <= maxMemory &&
		len(h.salt) >= 8 && len(h.key) >= 16 && len(h.key) <= maxKey
}
