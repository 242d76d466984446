package live

import (
	"bufio"
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/penstock-io/penstock/internal/racetest"
	"github.com/penstock-io/penstock/rules"
)

// writerEnv names the last good file that a child of the test writes until it is killed.
const writerEnv = "PENSTOCK_TEST_LAST_GOOD"

// longText takes a while to write.
func longText(version int64) *Text {
	data := bytes.Repeat(fmt.Appendf(nil, "# %d\n", version), 200_000)
	return NewText(version, time.Unix(version, 0), rules.File{Name: "long", Data: append(data, "rules: []\n"...)})
}

// TestLastGoodWriter is the child: it keeps version after version and prints which are on disk.
func TestLastGoodWriter(t *testing.T) {
	path := os.Getenv(writerEnv)
	if path == "" {
		return // nobody's child
	}
	g := lastGood{path: path}
	var version int64
	if old, err := g.read(); err == nil {
		version = old.Version
	}
	for { // until killed
		version++
		if err := g.write(longText(version)); err != nil {
			t.Fatal(err)
		}
		fmt.Println("kept", version)
	}
}

// A process killed while it writes leaves either the old copy or the new one.
func TestKillsLeaveAWholeCopy(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, racetest.OneGoroutine)
	kills := 40
	if os.Getenv("PENSTOCK_TEST_LONG") != "" {
		kills = 1000
	}
	g := lastGood{path: filepath.Join(t.TempDir(), "last-good")}
	for kill := range kills {
		kept := keepUntilKilled(t, g.path, 1+rand.IntN(3), rand.N(8*time.Millisecond))
		text, err := g.read()
		if err != nil {
			t.Fatalf("kill %d: %v", kill, err)
		}
		if text.Version < kept || !text.Same(longText(text.Version)) {
			t.Fatalf("kill %d: version %d is on disk, but version %d was kept", kill, text.Version, kept)
		}
	}
}

// keepUntilKilled runs a child until it has kept that many versions and a moment more, and returns the last of
// them.
func keepUntilKilled(t *testing.T, path string, versions int, moment time.Duration) (kept int64) {
	t.Helper()
	child := exec.Command(os.Args[0], "-test.run=^TestLastGoodWriter$")
	child.Env = append(os.Environ(), writerEnv+"="+path)
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	if err == nil {
		err = child.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for ; versions > 0 && lines.Scan(); versions-- {
		if _, err := fmt.Sscanf(lines.Text(), "kept %d", &kept); err != nil {
			t.Errorf("the child says %q", lines.Text())
		}
	}
	time.Sleep(moment) // into the midst of the next write
	if err := child.Process.Kill(); err != nil {
		t.Error(err)
	}
	for lines.Scan() { // what it kept before it died
		fmt.Sscanf(lines.Text(), "kept %d", &kept)
	}
	if err := child.Wait(); err == nil || versions > 0 {
		t.Fatalf("the child ended by itself: %v", err)
	}
	return kept
}
