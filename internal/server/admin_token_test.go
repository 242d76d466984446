package server

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A generated token is the same after a restart, printed once, and readable only by its owner.
func TestMadeTokenIsKept(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := startNode(t, "data_dir: "+dir)
	var greeting bytes.Buffer
	first.Greet(&greeting)
	file := filepath.Join(dir, "admin_token")
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%s: %v, %v", file, info, err)
	}
	if text := greeting.String(); !strings.Contains(text, first.token+" (shown once, kept in "+file+")") {
		t.Errorf("the first start says\n%s", text)
	}
	first.stop()
	<-first.done

	second := startNode(t, "data_dir: "+dir)
	greeting.Reset()
	second.Greet(&greeting)
	if text := greeting.String(); strings.Contains(text, first.token) || !strings.Contains(text, "token    in "+file+"\n") {
		t.Errorf("the second start says\n%s", text)
	}
	second.token = first.token
	second.statusNow()
}
