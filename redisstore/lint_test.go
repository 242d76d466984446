package redisstore_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/penstock-io/penstock/redisstore"
)

// The files under lua/ are parts of scripts, so the assembled scripts are linted.
func TestScriptIsClean(t *testing.T) {
	luacheck, err := exec.LookPath("luacheck")
	if err != nil {
		t.Skip("luacheck is not installed; make needs installs it where it can")
	}
	for script, ignored := range map[string]string{
		redisstore.ScriptText():      "",
		redisstore.BeatScriptText():  "",
		redisstore.ClearScriptText(): "",
		// Shared parts compute more than this script needs, and take arguments that they could also see as
		// upvalues.
		redisstore.AmendScriptText(): "211/_ 231 311 321/loaded 431",
	} {
		args := []string{"--no-color", "--codes", "--config", "../.luacheckrc", "-"}
		if ignored != "" {
			args = append(args, append([]string{"--ignore"}, strings.Fields(ignored)...)...)
		}
		cmd := exec.Command(luacheck, args...)
		cmd.Stdin = strings.NewReader(script)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s\nthe script, as it is sent:\n%s", err, out, script)
		}
	}
}
