package redistest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"
)

// childEnv makes this test binary start a server, print its address and wait to be killed.
const childEnv = "PENSTOCK_TEST_REDISTEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) == "" {
		os.Exit(m.Run())
	}
	s, err := Launch(context.Background())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(s.Addr)
	select {}
}

func mustCommand(t *testing.T, addr string, args ...string) string {
	t.Helper()
	reply, err := Command(addr, args...)
	if err != nil {
		t.Fatal(err)
	}
	return reply
}

func TestCommandRepliesAsText(t *testing.T) {
	t.Parallel()
	s := Start(t)
	for _, c := range []struct {
		want string
		args []string
	}{
		{"PONG", []string{"PING"}},
		{"OK", []string{"SET", "a key", "line one\r\nline two"}},
		{"line one\r\nline two", []string{"GET", "a key"}},
		{"(nil)", []string{"GET", "absent"}},
		{"", []string{"ECHO", ""}},
		{"7", []string{"INCRBY", "n", "7"}},
		{"1\n2\n3\nx\n(nil)", []string{"EVAL", "return {1, {2, {3}}, 'x', false}", "0"}},
	} {
		if got := mustCommand(t, s.Addr, c.args...); got != c.want {
			t.Errorf("%q: got %q, want %q", c.args, got, c.want)
		}
	}
	if reply, err := Command(s.Addr, "INCR", "a key"); err == nil || !strings.Contains(err.Error(), "not an integer") {
		t.Errorf("an error reply must be an error, got %q, %v", reply, err)
	}
	if _, err := Command(s.Addr); err == nil {
		t.Error("an empty command must be an error")
	}
}

func TestServerTakesArguments(t *testing.T) {
	t.Parallel()
	s := Start(t, "--maxmemory", "3mb", "--requirepass", "")
	if got := mustCommand(t, s.Addr, "CONFIG", "GET", "maxmemory"); got != "maxmemory\n3145728" {
		t.Errorf("got %q", got)
	}
}

func TestServerWithPasswordIsReady(t *testing.T) {
	t.Parallel()
	s := Start(t, "--requirepass", "sesame")
	if _, err := Command(s.Addr, "PING"); err == nil || !strings.Contains(err.Error(), "NOAUTH") {
		t.Errorf("got %v, want NOAUTH", err)
	}
}

func TestFailedLaunchShowsTheLog(t *testing.T) {
	t.Parallel()
	s, err := Launch(t.Context(), "--no-such-setting", "1")
	if err == nil {
		s.Close()
		t.Fatal("it started")
	}
	if !strings.Contains(err.Error(), "no-such-setting") {
		t.Errorf("the error does not say why: %v", err)
	}
}

func TestKillAndRestartKeepTheAddress(t *testing.T) {
	t.Parallel()
	s := Start(t)
	addr, pid := s.Addr, s.Pid()
	mustCommand(t, addr, "SET", "k", "v")
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := Command(addr, "PING"); err == nil {
		t.Error("a killed server answered")
	}
	if s.Pid() != 0 {
		t.Errorf("a killed server has pid %d", s.Pid())
	}
	if s.Pause() == nil {
		t.Error("pausing a killed server must fail")
	}
	if other, err := net.ListenPacket("udp", addr); err == nil {
		other.Close()
		t.Error("another process could claim a killed server's port")
	}
	if err := s.Restart(); err != nil {
		t.Fatal(err)
	}
	if s.Addr != addr || s.Pid() == pid || s.Pid() == 0 {
		t.Errorf("restarted as %s pid %d, was %s pid %d", s.Addr, s.Pid(), addr, pid)
	}
	if got := mustCommand(t, addr, "GET", "k"); got != "(nil)" {
		t.Errorf("a server that saves nothing kept %q", got)
	}
}

func TestPauseAndResume(t *testing.T) {
	t.Parallel()
	s := Start(t)
	if err := s.Pause(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if reply, err := command(ctx, s.Addr, "PING"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a paused server: got %q, %v", reply, err)
	}
	if err := s.Resume(); err != nil {
		t.Fatal(err)
	}
	if got := mustCommand(t, s.Addr, "PING"); got != "PONG" {
		t.Errorf("a resumed server: got %q", got)
	}
}

func TestCloseRemovesEverything(t *testing.T) {
	t.Parallel()
	s, err := Launch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Pause(); err != nil { // the hardest to end
		t.Error(err)
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
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), childEnv+"=1", "TMPDIR="+t.TempDir())
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
		t.Fatalf("read the address from the child: %v", err)
	}
	addr := strings.TrimSpace(line)
	mustCommand(t, addr, "PING")
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait()
	ctx, cancel := context.WithTimeout(t.Context(), startLimit)
	defer cancel()
	err = await(ctx, func() error {
		if _, err := command(ctx, addr, "PING"); err == nil {
			return errors.New("the server still answers")
		}
		return nil
	})
	if err != nil {
		t.Error(err)
		_, _ = Command(addr, "SHUTDOWN", "NOSAVE") // nothing else will stop it
	}
}

func TestMissingBinaryIsExplained(t *testing.T) {
	t.Setenv("PENSTOCK_TEST_REDIS_SERVER", "/nonexistent/redis-server")
	if _, err := Launch(t.Context()); err == nil || !strings.Contains(err.Error(), "PENSTOCK_TEST_REDIS_SERVER") {
		t.Errorf("got %v", err)
	}
}
