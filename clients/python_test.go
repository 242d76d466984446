package clients

import (
	"archive/zip"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/penstock-io/penstock/internal/child"
)

// python is Debian's: the frameworks are packages of Debian.
const python = "/usr/bin/python3"

// installPython builds the wheel and unpacks it, and returns an environment with it.
func installPython(t *testing.T) []string {
	t.Helper()
	if out, err := exec.Command(python, "-c", "import fastapi, starlette, flask, django, httpx, uvicorn, gunicorn, setuptools, wheel").CombinedOutput(); err != nil {
		t.Skipf("frameworks are not installed (scripts/need python-frameworks): %v\n%s", err, out)
	}
	dir := t.TempDir()
	source := filepath.Join(dir, "source") // setuptools writes beside the sources
	if err := os.CopyFS(source, os.DirFS("python")); err != nil {
		t.Fatal(err)
	}
	build := exec.Command(python, "-c", "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])", dir)
	build.Dir = source
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the wheel: %v\n%s", err, out)
	}
	wheels, err := filepath.Glob(filepath.Join(dir, "penstock-*-py3-none-any.whl"))
	if err != nil || len(wheels) != 1 {
		t.Fatalf("got wheels %v: %v", wheels, err)
	}
	site := filepath.Join(dir, "site")
	unzip(t, wheels[0], site)
	if _, err := os.Stat(filepath.Join(site, "penstock", "py.typed")); err != nil {
		t.Error(err)
	}
	tests, err := filepath.Abs("python/tests")
	if err != nil {
		t.Fatal(err)
	}
	return slices.Concat(os.Environ(), []string{"PYTHONDONTWRITEBYTECODE=1", "PYTHONPATH=" + strings.Join([]string{site, tests, filepath.Join(tests, "apps")}, ":")})
}

func unzip(t *testing.T, path, into string) {
	t.Helper()
	archive, err := zip.OpenReader(path)
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	if err := os.CopyFS(into, archive); err != nil {
		t.Fatal(err)
	}
}

func runPython(t *testing.T, env []string, args ...string) {
	t.Helper()
	c := exec.CommandContext(t.Context(), python, args...)
	c.Env = env
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("python3 %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// The package passes its own tests, and what clients of all languages pass: both clients, and the middleware in each
// framework under a server that people run it under.
func TestPython(t *testing.T) {
	t.Parallel()
	env := installPython(t)
	t.Run("units", func(t *testing.T) {
		t.Parallel()
		runPython(t, env, "-m", "unittest", "-q", "test_units")
	})
	s := readSession(t)
	t.Run("snippet of the console", func(t *testing.T) {
		t.Parallel()
		runPython(t, env, "-c", snippet(t, "Python", startNode(t, s.Rules))+"assert verdict.allowed and not verdict.error\n")
	})
	for _, kind := range []string{"sync", "async"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			runPython(t, env, "python/tests/play_session.py", kind, startNode(t, s.Rules))
		})
	}
	// Without the long version, one framework of each kind. The snippets of the page are tried with all of them.
	for name, server := range map[string][]string{
		"fastapi":   {"uvicorn", "--log-level", "warning", "--port", "PORT", "fastapi_app:app"},
		"starlette": {"uvicorn", "--log-level", "warning", "--port", "PORT", "starlette_app:app"},
		"flask":     {"gunicorn", "--workers", "2", "--bind", "127.0.0.1:PORT", "flask_app:app"},
		"django":    {"gunicorn", "--workers", "2", "--bind", "127.0.0.1:PORT", "django_app:application"},
	} {
		if os.Getenv("PENSTOCK_TEST_LONG") == "" && (name == "starlette" || name == "flask") {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := startApp(t, "", slices.Concat(env, []string{"SERVICE_URL=" + startNode(t, s.Rules)}), append([]string{python, "-m"}, server...)...)
			play(t, s, url)
			testEscapedSlash(t, url)
		})
	}
	t.Run("page", func(t *testing.T) { testPage(t, t.TempDir(), ".py", env) })
	t.Run("reporting", func(t *testing.T) {
		t.Parallel()
		testReporting(t, "python/README.md", "python", func(program string) (string, error) {
			c := exec.CommandContext(t.Context(), python, "-c", program)
			c.Env = env
			out, err := c.CombinedOutput()
			return string(out), err
		})
	})
}

// testEscapedSlash: these frameworks take %2F for a slash, so it must not be a way past the limits.
func testEscapedSlash(t *testing.T, url string) {
	t.Helper()
	for i, want := range []int{200, 200, 200, 429} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+[]string{"/api%2Fx", "/api/x"}[i%2], nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("X-User", "escaped")
		answer, err := http.DefaultTransport.RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != want {
			t.Errorf("request %d: got %d, want %d", i, answer.StatusCode, want)
		}
	}
}

// startApp starts an application in a directory, whose arguments have PORT where its port belongs, and returns its URL.
func startApp(t *testing.T, dir string, env []string, args ...string) string {
	t.Helper()
	const attempts = 5 // another process may take the port first
	for range attempts {
		if url := tryApp(t, dir, env, slices.Clone(args)); url != "" {
			return url
		}
	}
	t.Fatalf("%s does not serve", strings.Join(args, " "))
	return ""
}

// tryApp returns no URL if the application ends.
func tryApp(t *testing.T, dir string, env, args []string) (url string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	host := l.Addr().String()
	_, port, _ := net.SplitHostPort(host)
	l.Close()
	for i := range args {
		args[i] = strings.ReplaceAll(args[i], "PORT", port)
	}
	c := exec.Command(args[0], args[1:]...)
	c.Dir, c.Env = dir, slices.Concat(env, []string{"PORT=" + port})
	log := filepath.Join(t.TempDir(), "log")
	p, err := child.Start(c, log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
		_ = p.Signal(syscall.SIGTERM) // gunicorn ends its workers
		select {
		case <-p.Done():
		case <-time.After(patient):
		}
		p.Kill()
		if t.Failed() {
			t.Logf("the application said:\n%s", child.LogTail(log))
		}
	})
	for end := time.Now().Add(patient); time.Now().Before(end) && !p.Exited(); time.Sleep(20 * time.Millisecond) {
		if answer, err := http.Get("http://" + host + "/ready"); err == nil && !p.Exited() {
			_, _ = io.Copy(io.Discard, answer.Body)
			answer.Body.Close()
			return "http://" + host
		}
	}
	t.Logf("%s does not serve:\n%s", strings.Join(args, " "), child.LogTail(log))
	return ""
}
