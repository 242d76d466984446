package packaging

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/penstock-io/penstock/internal/child"
)

// An image is unpacked, with what its configuration says.
type image struct {
	rootfs string
	config struct {
		Entrypoint, Cmd, Env []string
		User                 string
		Labels               map[string]string
		ExposedPorts         map[string]any
		Healthcheck          struct{ Test []string }
	}
}

// buildImage builds the image from the program, as scripts/image does for releases, and unpacks it.
func buildImage(t *testing.T) *image {
	t.Helper()
	dir := t.TempDir()
	b := newBuilder(t, dir)
	env := append([]string{"BUILDAH_FLAGS=" + strings.Join(b.flags, " "), "VERSION=v0.1.0"}, source...)
	dist := filepath.Join(dir, "dist")
	binary := filepath.Join(dist, "bin", "linux_"+runtime.GOARCH, "penstock")
	if err := os.MkdirAll(filepath.Dir(binary), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(program, binary); err != nil {
		writeFile(t, binary, readFile(t, program))
	}
	out := run(t, root, env, filepath.Join(root, "scripts", "image"), dist, "localhost/penstock:test", runtime.GOARCH)
	t.Log(out)
	inspectSizes(t, out, runtime.GOARCH)
	return b.unpack("localhost/penstock:test")
}

// A builder is buildah with a storage of its own.
type builder struct {
	t       *testing.T
	program string
	flags   []string
}

// newBuilder skips the test where buildah does not work.
func newBuilder(t *testing.T, dir string) *builder {
	t.Helper()
	b := &builder{t: t, program: need(t, "buildah", "buildah")}
	if os.Getuid() != 0 {
		t.Skip("an image is unpacked and run as root")
	}
	b.flags = []string{"--storage-driver", "vfs", "--root", filepath.Join(dir, "storage"), "--runroot", filepath.Join(dir, "run")}
	probe := writeFile(t, filepath.Join(dir, "probe", "Dockerfile"), "FROM scratch\nCOPY Dockerfile /\n")
	if out, err := tryRun(t, filepath.Dir(probe), nil, b.program, append(b.flags, "bud", "--isolation", "chroot", "--tag", "localhost/probe", ".")...); err != nil {
		t.Skipf("buildah does not work on this machine: %v\n%s", err, out)
	}
	return b
}

func (b *builder) run(args ...string) string {
	b.t.Helper()
	return run(b.t, root, nil, b.program, append(slices.Clone(b.flags), args...)...)
}

func (b *builder) unpack(tag string) *image {
	t := b.t
	t.Helper()
	var inspected struct {
		Docker struct{ Config json.RawMessage }
	}
	if err := json.Unmarshal([]byte(b.run("inspect", "--type", "image", tag)), &inspected); err != nil {
		t.Fatal(err)
	}
	i := &image{}
	if err := json.Unmarshal(inspected.Docker.Config, &i.config); err != nil {
		t.Fatal(err)
	}
	container := strings.TrimSpace(b.run("from", "--pull-never", tag))
	i.rootfs = strings.TrimSpace(b.run("mount", container))
	return i
}

// A container is an image that runs: in runc, read-only, or where that does not work in a chroot.
type container struct {
	image   *image
	runc    string // "": chroot
	id, dir string
	env     []string
	cmd     *exec.Cmd
	process *child.Process
	log     string
}

// start runs the image's entry point with the arguments, on the network of this machine.
func (i *image) start(t *testing.T, env []string, args ...string) *container {
	t.Helper()
	dir := t.TempDir()
	c := &container{image: i, id: "penstock-test-" + filepath.Base(filepath.Dir(dir)) + "-" + filepath.Base(dir), dir: dir, log: filepath.Join(dir, "log")}
	c.env = append(append([]string{}, i.config.Env...), env...)
	if runc, err := exec.LookPath("runc"); err == nil && c.tryRunc(t, runc) {
		c.runc = runc
		c.writeBundle(t, append(append([]string{}, i.config.Entrypoint...), args...))
		c.cmd = exec.Command(runc, "--root", filepath.Join(dir, "state"), "run", "--bundle", dir, c.id)
	} else {
		t.Log("runc does not work on this machine; using chroot")
		c.cmd = c.chroot(append(append([]string{}, i.config.Entrypoint...), args...))
	}
	var err error
	if c.process, err = child.Start(c.cmd, c.log); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if c.runc != "" {
			_ = exec.Command(c.runc, "--root", filepath.Join(dir, "state"), "delete", "--force", c.id).Run()
		}
		c.process.Kill()
		if t.Failed() {
			t.Logf("it said:\n%s", child.LogTail(c.log))
		}
	})
	return c
}

// tryRunc tells whether runc can run the image here: inside a container it often cannot.
func (c *container) tryRunc(t *testing.T, runc string) bool {
	t.Helper()
	c.writeBundle(t, append(append([]string{}, c.image.config.Entrypoint...), "version"))
	out, err := tryRun(t, c.dir, nil, runc, "--root", filepath.Join(c.dir, "state"), "run", "--bundle", c.dir, c.id+"-try")
	return err == nil && strings.Contains(out, "penstock ")
}

// writeBundle writes what runc reads: another user, a root nobody can write to, no capabilities.
func (c *container) writeBundle(t *testing.T, args []string) {
	t.Helper()
	uid, gid := c.image.user(t)
	spec := map[string]any{
		"ociVersion": "1.0.2",
		"process": map[string]any{
			"user": map[string]any{"uid": uid, "gid": gid}, "args": args, "env": c.env, "cwd": "/", "noNewPrivileges": true, "capabilities": map[string]any{},
		},
		"root": map[string]any{"path": c.image.rootfs, "readonly": true},
		"mounts": []any{
			map[string]any{"destination": "/proc", "type": "proc", "source": "proc"},
			map[string]any{"destination": "/var/lib/penstock", "type": "tmpfs", "source": "tmpfs", "options": []string{"uid=65532", "gid=65532", "mode=0700"}},
		},
		"linux": map[string]any{"namespaces": []any{map[string]any{"type": "mount"}, map[string]any{"type": "pid"}, map[string]any{"type": "ipc"}}},
	}
	text, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(c.dir, "config.json"), string(text))
}

func (i *image) user(t *testing.T) (uid, gid int) {
	t.Helper()
	if i.config.User != "65532:65532" {
		t.Fatalf("the image runs as %q", i.config.User)
	}
	return 65532, 65532
}

func (c *container) chroot(args []string) *exec.Cmd {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Err = nil // the path is one within the root
	cmd.Path, cmd.Dir, cmd.Env = args[0], "/", c.env
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: c.image.rootfs, Credential: &syscall.Credential{Uid: 65532, Gid: 65532}}
	return cmd
}

// exec runs a command beside the entry point and returns its exit status.
func (c *container) exec(t *testing.T, args ...string) (string, int) {
	t.Helper()
	cmd := c.chroot(args)
	if c.runc != "" {
		cmd = exec.Command(c.runc, append([]string{"--root", filepath.Join(c.dir, "state"), "exec", c.id}, args...)...)
	}
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// terminate asks the entry point to end, as an engine does.
func (c *container) terminate(t *testing.T) {
	t.Helper()
	if c.runc != "" {
		run(t, c.dir, nil, c.runc, "--root", filepath.Join(c.dir, "state"), "kill", c.id, "TERM")
	} else if err := c.process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
}
