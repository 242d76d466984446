package pgtest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// childEnv makes this test binary start a server, print its URL and wait to be killed.
const childEnv = "PENSTOCK_TEST_PGTEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) == "" {
		os.Exit(m.Run())
	}
	s, err := Launch(context.Background())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(s.URL)
	select {}
}

// query runs SQL that returns one text.
func query(t *testing.T, url, sql string) (text string, err error) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		return "", err
	}
	defer conn.Close(t.Context())
	err = conn.QueryRow(t.Context(), sql).Scan(&text)
	return text, err
}

func mustQuery(t *testing.T, url, sql string) string {
	t.Helper()
	text, err := query(t, url, sql)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return text
}

func TestServerTakesSettings(t *testing.T) {
	t.Parallel()
	s := Start(t, "max_connections=7", "fsync=on")
	for setting, want := range map[string]string{"max_connections": "7", "fsync": "on", "server_encoding": "UTF8"} {
		if got := mustQuery(t, s.URL, "SHOW "+setting); got != want {
			t.Errorf("%s is %q, want %q", setting, got, want)
		}
	}
}

func TestDatabasesAreSeparate(t *testing.T) {
	t.Parallel()
	s := Start(t)
	var urls [2]string
	for i := range urls {
		var err error
		if urls[i], err = s.Database(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for _, url := range urls { // two tables of one name would clash in one database
		conn, err := pgx.Connect(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Exec(t.Context(), "CREATE TABLE a ()"); err != nil {
			t.Error(err)
		}
		conn.Close(t.Context())
	}
}

func TestRestartKeepsTheData(t *testing.T) {
	t.Parallel()
	s := Start(t)
	for how, end := range map[string]func() error{"killed": s.Kill, "stopped": s.Stop} {
		conn, err := pgx.Connect(t.Context(), s.URL)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Exec(t.Context(), "CREATE TABLE "+how+" AS SELECT 'kept' AS v"); err != nil {
			t.Fatal(err)
		}
		pid := s.Pid()
		if err := end(); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Exec(t.Context(), "SELECT 1"); err == nil {
			t.Errorf("a %s server answered", how)
		}
		conn.Close(t.Context())
		if s.Pid() != 0 {
			t.Errorf("a %s server has pid %d", how, s.Pid())
		}
		if err := s.Restart(); err != nil {
			t.Fatal(err)
		}
		if s.Pid() == pid || s.Pid() == 0 {
			t.Errorf("restarted as pid %d, was %d", s.Pid(), pid)
		}
		if got := mustQuery(t, s.URL, "SELECT v FROM "+how); got != "kept" {
			t.Errorf("got %q", got)
		}
	}
}

func TestRestartOfARunningServer(t *testing.T) {
	t.Parallel()
	s := Start(t)
	for range 3 {
		if err := s.Restart(); err != nil {
			t.Fatal(err)
		}
		mustQuery(t, s.URL, "SELECT 'up'")
	}
}

func TestFailedLaunchShowsTheLog(t *testing.T) {
	t.Parallel()
	s, err := Launch(t.Context(), "no_such_setting=1")
	if err == nil {
		s.Close()
		t.Fatal("it started")
	}
	if !strings.Contains(err.Error(), "no_such_setting") {
		t.Errorf("the error does not say why: %v", err)
	}
}

func TestCloseRemovesEverything(t *testing.T) {
	t.Parallel()
	s, err := Launch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(s.dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("its directory is still there: %v", err)
	}
	if s.Restart() == nil {
		t.Error("a closed server restarted")
	}
}

func TestServerDiesWithItsParent(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux kills a child with its parent")
	}
	// Not t.TempDir: the user that a server runs as, if root starts it, has no access to that.
	dir, err := os.MkdirTemp("", "penstock-pgtest-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), childEnv+"=1", "TMPDIR="+dir)
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("read the URL from the child: %v", err)
	}
	url := strings.TrimSpace(line)
	mustQuery(t, url, "SELECT 'up'")
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait()
	for {
		if _, err := query(t, url, "SELECT 'up'"); err != nil {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func TestMissingBinaryIsExplained(t *testing.T) {
	t.Setenv(binDirEnv, "/nonexistent")
	if _, err := Launch(t.Context()); err == nil || !strings.Contains(err.Error(), binDirEnv) {
		t.Errorf("got %v", err)
	}
}
