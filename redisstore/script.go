package redisstore

import (
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"strings"
)

//go:embed lua/*.lua
var luaFiles embed.FS

// script is the one script of this store: the twins of the root package's algorithms, then the
// part that decides tickets with them.
var script = assemble("fixedwindow", "slidingcounter", "tokenbucket", "leakybucket", "slidinglog", "concurrency", "take")

// scriptSHA is how Redis names it.
var scriptSHA = func() string {
	sum := sha1.Sum([]byte(script))
	return hex.EncodeToString(sum[:])
}()

// assemble joins the files, without comments and indentation: on NOSCRIPT the text travels.
func assemble(names ...string) string {
	var b strings.Builder
	for _, name := range names {
		text, err := luaFiles.ReadFile("lua/" + name + ".lua")
		if err != nil {
			panic(err) // embedded at build time
		}
		for line := range strings.Lines(string(text)) {
			if i := strings.Index(line, "--"); i >= 0 {
				line = line[:i]
			}
			if line = strings.TrimSpace(line); line != "" {
				b.WriteString(line)
				b.WriteByte('\n')
			}
		}
	}
	return b.String()
}
