package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// build returns the binary of each platform, and that of this machine, which prints completions and man pages.
func (r *release) build() (map[platform]string, error) {
	if r.binary != "" {
		return map[platform]string{native(): r.binary}, nil
	}
	binaries := map[platform]string{}
	for _, p := range append(r.platforms, native()) {
		if binaries[p] != "" {
			continue
		}
		path, err := filepath.Abs(filepath.Join(r.out, "bin", p.os+"_"+p.arch, "penstock"))
		if err != nil {
			return nil, err
		}
		env := []string{"GOOS=" + p.os, "GOARCH=" + p.arch, "CGO_ENABLED=0", "GOFLAGS=", "GOAMD64=v1", "GOARM64=v8.0"}
		if _, err := run(r.root, env, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", r.ldflags, "-o", path, "./cmd/penstock"); err != nil {
			return nil, err
		}
		binaries[p] = path
	}
	return binaries, nil
}

// A file is one of an archive.
type file struct {
	name string
	data []byte
	mode int64
}

var shells = map[string]string{"bash": "penstock.bash", "zsh": "_penstock", "fish": "penstock.fish", "powershell": "penstock.ps1"}

// shared returns the files that archives of all platforms have. Completions and man pages are also left in the
// directory, from where packages take them.
func (r *release) shared(binaries map[platform]string) ([]file, error) {
	var files []file
	for _, name := range []string{"LICENSE", "NOTICE", "README.md", "CHANGELOG.md"} {
		data, err := os.ReadFile(filepath.Join(r.root, name))
		if err != nil {
			return nil, err
		}
		files = append(files, file{name, data, 0o644})
	}
	env := []string{"SOURCE_DATE_EPOCH=" + fmt.Sprint(r.modified.Unix())}
	for shell, name := range shells {
		script, err := run(r.root, env, binaries[native()], "completion", shell)
		if err != nil {
			return nil, err
		}
		files = append(files, file{"completions/" + name, script, 0o644})
	}
	manual, err := os.MkdirTemp("", "penstock-man-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(manual)
	if _, err := run(r.root, env, binaries[native()], "man", manual); err != nil {
		return nil, err
	}
	pages, err := os.ReadDir(manual)
	if err != nil {
		return nil, err
	}
	for _, page := range pages {
		data, err := os.ReadFile(filepath.Join(manual, page.Name()))
		if err != nil {
			return nil, err
		}
		files = append(files, file{"man/" + page.Name(), data, 0o644})
	}
	return files, r.leave(files)
}

// leave writes completions and man pages beside the archives.
func (r *release) leave(files []file) error {
	for _, f := range files {
		if !strings.Contains(f.name, "/") {
			continue
		}
		path := filepath.Join(r.out, filepath.FromSlash(f.name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, f.data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// run runs a program in a directory and returns what it prints.
func run(dir string, env []string, program string, args ...string) ([]byte, error) {
	path, err := exec.LookPath(program)
	if err != nil {
		return nil, err
	}
	if path, err = filepath.Abs(path); err != nil {
		return nil, err
	}
	c := exec.Command(path, args...)
	var stderr bytes.Buffer
	c.Dir, c.Env, c.Stderr = dir, append(os.Environ(), env...), &stderr
	out, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w: %s", program, strings.Join(args, " "), err, stderr.Bytes())
	}
	return out, nil
}
