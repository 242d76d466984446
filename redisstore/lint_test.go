package redisstore_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/penstock-io/penstock/redisstore"
)

// The files under lua/ are parts of one script, so it is the script that is linted.
func TestScriptIsClean(t *testing.T) {
	luacheck, err := exec.LookPath("luacheck")
	if err != nil {
		t.Skip("luacheck is not installed; make needs installs it where it can")
	}
	cmd := exec.Command(luacheck, "--no-color", "--codes", "--config", "../.luacheckrc", "-")
	cmd.Stdin = strings.NewReader(redisstore.ScriptText())
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s\nthe script, as it is sent:\n%s", err, out, redisstore.ScriptText())
	}
}
