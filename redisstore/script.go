package redisstore

import (
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"strings"
)

//go:embed lua/*.lua
var luaFiles embed.FS

// A luaScript is the text of a script and the SHA-1 that Redis knows it by.
type luaScript struct{ text, sha string }

// The scripts of this store: the Lua versions of the root package's algorithms, included in the script that
// decides tickets and in the one that amends earlier decisions.
var (
	takeScript  = newScript(assemble("take"))
	amendScript = newScript(assemble("amend"))
)

func newScript(text string) luaScript {
	sum := sha1.Sum([]byte(text))
	return luaScript{text: text, sha: hex.EncodeToString(sum[:])}
}

// assemble returns a script with its includes, without comments and indentation, because NOSCRIPT makes the
// client send the text.
func assemble(name string) string {
	text, err := luaFiles.ReadFile("lua/" + name + ".lua")
	if err != nil {
		panic(err) // embedded at build time
	}
	var b strings.Builder
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if part, ok := strings.CutPrefix(line, "--@include "); ok {
			b.WriteString(assemble(part))
			continue
		}
		if i := strings.Index(line, "--"); i >= 0 {
			line = strings.TrimSpace(line[:i])
		}
		if line != "" {
			b.WriteString(line)
			b.WriteByte('\n')
		}
	}
	return b.String()
}
