// Command dist writes what a release is made of: binaries, archives with completions and man pages, software bills of
// materials, checksums and a provenance statement. The same commit and Go version give the same bytes.
//
// Usage, from the root of the repository: go -C tools run ./dist -root .. -out ../dist
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"time"
)

// A platform is what a binary runs on.
type platform struct{ os, arch string }

func (p platform) String() string { return p.os + "/" + p.arch }

// A release is what is built, and where it goes.
type release struct {
	root, out string
	binary    string // built already, for the platform of this machine; "": none
	platforms []platform

	ldflags               string
	version, commit, date string
	modified              time.Time // of the commit: all files of all archives are that old
}

func main() {
	r, err := fromFlags(os.Args[1:])
	if err == nil {
		err = r.write()
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "dist: %v\n", err)
		os.Exit(1)
	}
}

func fromFlags(args []string) (*release, error) {
	r := &release{}
	flags := flag.NewFlagSet("dist", flag.ContinueOnError)
	flags.StringVar(&r.root, "root", ".", "root of the repository")
	flags.StringVar(&r.out, "out", "dist", "directory to write to; what is there goes away")
	flags.StringVar(&r.binary, "binary", "", "binary to pack instead of building one; only with one platform, that of this machine")
	version := flags.String("version", "", "version; default: what git describes")
	platforms := flags.String("platforms", "linux/amd64,linux/arm64,darwin/amd64,darwin/arm64", "platforms with commas between them")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	for name := range strings.SplitSeq(*platforms, ",") {
		os, arch, ok := strings.Cut(name, "/")
		if !ok {
			return nil, fmt.Errorf("platform %q is not OS/ARCH", name)
		}
		r.platforms = append(r.platforms, platform{os, arch})
	}
	if r.binary != "" && (len(r.platforms) != 1 || r.platforms[0] != native()) {
		return nil, fmt.Errorf("-binary is for -platforms %v only", native())
	}
	return r, r.identify(*version)
}

func native() platform { return platform{runtime.GOOS, runtime.GOARCH} }

// identify finds out what is built. scripts/ldflags is the one place that knows.
func (r *release) identify(version string) error {
	args := []string{}
	if version != "" {
		args = append(args, version)
	}
	out, err := run(r.root, nil, filepath.Join(r.root, "scripts", "ldflags"), args...)
	if err != nil {
		return err
	}
	r.ldflags = strings.TrimSpace(string(out))
	for name, value := range map[string]*string{"version": &r.version, "commit": &r.commit, "date": &r.date} {
		found := regexp.MustCompile(`buildinfo\.` + name + `=(\S+)`).FindStringSubmatch(r.ldflags)
		if found == nil {
			return fmt.Errorf("scripts/ldflags does not know the %s: a release is built from a git clone", name)
		}
		*value = found[1]
	}
	r.modified, err = time.Parse(time.RFC3339, r.date)
	return err
}

// number is the version as names of files have it.
func (r *release) number() string { return strings.TrimPrefix(r.version, "v") }

func (r *release) name(p platform) string {
	return fmt.Sprintf("penstock_%s_%s_%s", r.number(), p.os, p.arch)
}

func (r *release) write() error {
	if err := os.RemoveAll(r.out); err != nil {
		return err
	}
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return err
	}
	binaries, err := r.build()
	if err != nil {
		return err
	}
	shared, err := r.shared(binaries)
	if err != nil {
		return err
	}
	for _, p := range r.platforms {
		err := errors.Join(r.archive(p, binaries[p], shared), r.binarySBOM(p, binaries[p]))
		if err != nil {
			return fmt.Errorf("%v: %w", p, err)
		}
	}
	return errors.Join(r.consoleSBOM(), r.seal())
}
