package packaging

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/penstock-io/penstock/internal/child"
)

// Everything that the packages are made of is there, scripts are programs, and the configuration is kept on upgrades.
func TestPackageFile(t *testing.T) {
	t.Parallel()
	var file struct {
		Contents  []struct{ Src, Dst, Type string }
		Overrides map[string]struct{ Scripts map[string]string }
	}
	if err := yaml.Unmarshal([]byte(readFile(t, filepath.Join(root, "deploy/packages/nfpm.yaml"))), &file); err != nil {
		t.Fatal(err)
	}
	kept := false
	for _, c := range file.Contents {
		if _, err := os.Stat(filepath.Join(root, c.Src)); err != nil && !strings.Contains(c.Src, "${STAGE}") {
			t.Error(err)
		}
		kept = kept || c.Dst == "/etc/penstock/penstock.yaml" && c.Type == "config|noreplace"
	}
	if !kept {
		t.Error("an upgrade replaces the configuration")
	}
	for packager, o := range file.Overrides {
		for name, path := range o.Scripts {
			if out, err := tryRun(t, root, nil, "sh", "-n", path); err != nil {
				t.Errorf("%s %s: %v: %s", packager, name, err, out)
			}
		}
	}
}

// The configuration of packages and images is one that the program starts with.
func TestPackagedConfiguration(t *testing.T) {
	t.Parallel()
	out := run(t, t.TempDir(), []string{"STATE_DIRECTORY=" + t.TempDir()}, program, "serve", "--check", "--config", filepath.Join(root, "deploy/penstock.yaml"))
	if !strings.Contains(out, "ok: configuration") {
		t.Errorf("got %s", out)
	}
}

// buildPackages builds packages of a version from the program, and returns their directory.
func buildPackages(t *testing.T, version string) string {
	t.Helper()
	nfpm, err := exec.LookPath("nfpm")
	if err != nil && !long() {
		t.Skip("nfpm is not installed, and building it takes minutes: set PENSTOCK_TEST_LONG")
	}
	if os.Getuid() != 0 {
		t.Skip("packages are installed as root, into a directory")
	}
	dist := filepath.Join(t.TempDir(), "dist")
	pack(t, dist)
	binary := filepath.Join(dist, "bin", "linux_"+runtime.GOARCH, "penstock")
	writeFile(t, binary, readFile(t, program))
	if strip, err := exec.LookPath("strip"); err == nil {
		run(t, dist, nil, strip, binary)
	}
	t.Log(run(t, root, append([]string{"VERSION=" + version, "NFPM=" + nfpm}, source...), filepath.Join(root, "scripts", "packages"), dist, runtime.GOARCH))
	return dist
}

func only(t *testing.T, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(pattern)
	if err != nil || len(found) != 1 {
		t.Fatalf("%s: %v, %v", pattern, found, err)
	}
	return found[0]
}

// A deb has no errors that lintian knows of. It is installed, serves, keeps its configuration when it is upgraded, and
// leaves nothing when it is purged.
func TestDeb(t *testing.T) {
	t.Parallel()
	dpkg := need(t, "dpkg", "dpkg")
	first, second := buildPackages(t, "v0.1.0"), buildPackages(t, "v0.1.1")
	if lintian, err := exec.LookPath("lintian"); err == nil {
		if out, err := tryRun(t, root, nil, lintian, "--allow-root", "--fail-on", "error", only(t, first+"/*.deb")); err != nil || regexp.MustCompile(`(?m)^E: `).MatchString(out) {
			t.Errorf("lintian: %v\n%s", err, out)
		}
	}
	r := newDebianRoot(t)
	command := func(args ...string) { // without what this machine's dpkg is configured to leave out
		run(t, root, nil, dpkg, append([]string{"--root=" + r.dir, "--force-depends,not-root,bad-path,confold"}, args...)...)
	}
	command("--install", only(t, first+"/*.deb"))
	r.exists("usr/bin/penstock", "usr/lib/systemd/system/penstock.service", "usr/lib/sysusers.d/penstock.conf", "usr/share/bash-completion/completions/penstock")
	r.write("etc/penstock/penstock.yaml", r.read("etc/penstock/penstock.yaml")+"\n# mine\n")
	r.serve()
	command("--install", only(t, second+"/*.deb"))
	if !strings.HasSuffix(r.read("etc/penstock/penstock.yaml"), "# mine\n") {
		t.Error("the upgrade has replaced the configuration")
	}
	if !strings.Contains(r.read("var/lib/dpkg/status"), "Version: 0.1.1") {
		t.Errorf("after the upgrade:\n%s", r.read("var/lib/dpkg/status"))
	}
	r.serve()
	command("--remove", "penstock")
	r.gone("usr/bin/penstock", "usr/lib/systemd/system/penstock.service")
	r.exists("etc/penstock/penstock.yaml", "var/lib/penstock")
	command("--purge", "penstock")
	r.gone("etc/penstock", "var/lib/penstock")
}

// The same with the rpm, which leaves a changed configuration under another name.
func TestRPM(t *testing.T) {
	t.Parallel()
	rpm := need(t, "rpm", "rpm")
	first, second := buildPackages(t, "v0.1.0"), buildPackages(t, "v0.1.1")
	r := newRoot(t)
	r.mkdir("var/lib/rpm")
	command := func(args ...string) {
		run(t, root, nil, rpm, append([]string{"--root", r.dir, "--dbpath", "/var/lib/rpm"}, args...)...)
	}
	command("--initdb")
	command("--install", "--nodeps", only(t, first+"/*.rpm"))
	r.exists("usr/bin/penstock", "usr/lib/systemd/system/penstock.service", "usr/share/licenses/penstock/LICENSE")
	r.write("etc/penstock/penstock.yaml", r.read("etc/penstock/penstock.yaml")+"\n# mine\n")
	r.serve()
	command("--upgrade", "--nodeps", only(t, second+"/*.rpm"))
	if !strings.HasSuffix(r.read("etc/penstock/penstock.yaml"), "# mine\n") {
		t.Error("the upgrade has replaced the configuration")
	}
	r.serve()
	command("--erase", "penstock")
	r.gone("usr/bin/penstock", "usr/lib/systemd/system/penstock.service", "etc/penstock/penstock.yaml")
	r.exists("etc/penstock/penstock.yaml.rpmsave")
}

// A rootDir is a system with a shell and rm, which is all that the scripts of the packages need.
type rootDir struct {
	t   *testing.T
	dir string
}

var library = regexp.MustCompile(`(/\S+)\s+\(0x`)

func newRoot(t *testing.T) *rootDir {
	t.Helper()
	r := &rootDir{t, t.TempDir()}
	for target, name := range map[string]string{"bin/sh": "sh", "bin/rm": "rm"} {
		path, err := exec.LookPath(name)
		if err != nil {
			t.Fatal(err)
		}
		r.copy(path, target)
		for _, found := range library.FindAllStringSubmatch(run(t, root, nil, "ldd", path), -1) {
			r.copy(found[1], found[1])
		}
	}
	r.mkdir("tmp")
	r.mkdir("var/tmp")
	return r
}

// newDebianRoot returns a root with dpkg's records: with the time for it, a system that debootstrap installs.
func newDebianRoot(t *testing.T) *rootDir {
	t.Helper()
	if debootstrap, err := exec.LookPath("debootstrap"); err == nil && long() {
		dir := t.TempDir()
		out, err := tryRun(t, root, nil, debootstrap, "--variant=minbase", debianRelease, dir)
		if err == nil {
			return &rootDir{t, dir}
		}
		t.Logf("debootstrap does not work on this machine, so the package is installed in a smaller root: %v\n%s", err, out)
	}
	r := newRoot(t)
	for _, dir := range []string{"var/lib/dpkg/info", "var/lib/dpkg/updates", "var/lib/dpkg/triggers"} {
		r.mkdir(dir)
	}
	r.write("var/lib/dpkg/status", "")
	return r
}

// debianRelease is what debootstrap installs.
const debianRelease = "bookworm"

func (r *rootDir) path(name string) string { return filepath.Join(r.dir, name) }

func (r *rootDir) mkdir(name string) {
	r.t.Helper()
	if err := os.MkdirAll(r.path(name), 0o755); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rootDir) copy(from, to string) {
	r.t.Helper()
	writeFile(r.t, r.path(to), readFile(r.t, from))
	if err := os.Chmod(r.path(to), 0o755); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rootDir) read(name string) string { r.t.Helper(); return readFile(r.t, r.path(name)) }

func (r *rootDir) write(name, text string) { r.t.Helper(); writeFile(r.t, r.path(name), text) }

func (r *rootDir) exists(names ...string) {
	r.t.Helper()
	for _, name := range names {
		if _, err := os.Stat(r.path(name)); err != nil {
			r.t.Error(err)
		}
	}
}

func (r *rootDir) gone(names ...string) {
	r.t.Helper()
	for _, name := range names {
		if _, err := os.Stat(r.path(name)); err == nil {
			r.t.Errorf("there still is %s", name)
		}
	}
}

var execStart = regexp.MustCompile(`(?m)^ExecStart=(.+)$`)

// serve runs what the installed unit runs, as an ordinary user, until it is ready.
func (r *rootDir) serve() {
	t := r.t
	t.Helper()
	args := strings.Fields(execStart.FindStringSubmatch(r.read("usr/lib/systemd/system/penstock.service"))[1])
	r.mkdir("var/lib/penstock")
	if err := os.Chown(r.path("var/lib/penstock"), 65534, 65534); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(r.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	_ = filepath.WalkDir(r.path("var/lib/penstock"), func(path string, _ os.DirEntry, err error) error {
		return os.Chown(path, 65534, 65534)
	})
	health := freeAddress(t)
	c := exec.Command(args[0], args[1:]...)
	c.Err = nil // the path is one within the root
	c.Path, c.Dir = args[0], "/"
	c.Env = []string{
		"STATE_DIRECTORY=/var/lib/penstock", "PENSTOCK_LISTEN_HEALTH=" + health, "PENSTOCK_LISTEN_HTTP=127.0.0.1:0",
		"PENSTOCK_LISTEN_GRPC=127.0.0.1:0", "PENSTOCK_LISTEN_ADMIN=127.0.0.1:0",
	}
	c.SysProcAttr = &syscall.SysProcAttr{Chroot: r.dir, Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	log := filepath.Join(t.TempDir(), "log")
	p, err := child.Start(c, log)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Kill()
	eventually(t, "it is ready", func() bool {
		if p.Exited() {
			t.Fatalf("it ended:\n%s", child.LogTail(log))
		}
		answer, err := http.Get("http://" + health + "/readyz")
		if err != nil {
			return false
		}
		answer.Body.Close()
		return answer.StatusCode == http.StatusOK
	})
	if err := p.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-p.Done()
	if code := c.ProcessState.ExitCode(); code != 0 {
		t.Errorf("exit status %d:\n%s", code, child.LogTail(log))
	}
}
