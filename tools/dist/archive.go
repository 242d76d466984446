package main

import (
	"archive/tar"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// archive packs a binary and what comes with it. Owners, times, modes and order do not depend on who packs it.
func (r *release) archive(p platform, binary string, shared []file) (err error) {
	program, err := os.ReadFile(binary)
	if err != nil {
		return err
	}
	files := append([]file{{"penstock", program, 0o755}}, shared...)
	slices.SortFunc(files, func(a, b file) int { return cmp.Compare(a.name, b.name) })
	out, err := os.Create(filepath.Join(r.out, r.name(p)+".tar.gz"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	zip, err := gzip.NewWriterLevel(out, gzip.BestCompression)
	if err != nil {
		return err
	}
	pack := tar.NewWriter(zip)
	for _, f := range files {
		header := &tar.Header{
			Typeflag: tar.TypeReg, Name: r.name(p) + "/" + f.name, Size: int64(len(f.data)), Mode: f.mode,
			ModTime: r.modified, Format: tar.FormatUSTAR,
		}
		if err := pack.WriteHeader(header); err != nil {
			return err
		}
		if _, err := pack.Write(f.data); err != nil {
			return err
		}
	}
	return errors.Join(pack.Close(), zip.Close())
}

type digest struct {
	SHA256 string `json:"sha256"`
}

// A subject is a file that the provenance statement speaks of.
type subject struct {
	Name   string `json:"name"`
	Digest digest `json:"digest"`
}

// seal writes the checksums of all files, and where they come from.
func (r *release) seal() error {
	names, err := filepath.Glob(filepath.Join(r.out, "penstock_*"))
	if err != nil {
		return err
	}
	slices.Sort(names)
	var subjects []subject
	var sums strings.Builder
	for _, name := range names {
		sum, err := sha256Of(name)
		if err != nil {
			return err
		}
		subjects = append(subjects, subject{filepath.Base(name), digest{sum}})
		fmt.Fprintf(&sums, "%s  %s\n", sum, filepath.Base(name))
	}
	provenance := filepath.Join(r.out, "penstock_"+r.number()+"_provenance.json")
	if err := writeJSON(provenance, r.provenance(subjects)); err != nil {
		return err
	}
	sum, err := sha256Of(provenance)
	if err != nil {
		return err
	}
	fmt.Fprintf(&sums, "%s  %s\n", sum, filepath.Base(provenance))
	return os.WriteFile(filepath.Join(r.out, "checksums.txt"), []byte(sums.String()), 0o644)
}

const repository = "https://github.com/penstock-io/penstock"

// provenance is an in-toto statement with SLSA's predicate. It is not signed here: the release workflow attests the
// files with the identity of the workflow. It has no times, so that it can be reproduced.
func (r *release) provenance(subjects []subject) any {
	platforms := []string{}
	for _, p := range r.platforms {
		platforms = append(platforms, p.String())
	}
	return map[string]any{
		"_type":         "https://in-toto.io/Statement/v1",
		"subject":       subjects,
		"predicateType": "https://slsa.dev/provenance/v1",
		"predicate": map[string]any{
			"buildDefinition": map[string]any{
				"buildType":            repository + "/tree/main/tools/dist",
				"externalParameters":   map[string]any{"version": r.version, "platforms": platforms},
				"internalParameters":   map[string]any{"go": runtime.Version(), "ldflags": r.ldflags},
				"resolvedDependencies": []any{map[string]any{"uri": "git+" + repository, "digest": map[string]string{"gitCommit": r.commit}}},
			},
			"runDetails": map[string]any{"builder": map[string]any{"id": repository + "/blob/main/Makefile"}},
		},
	}
}

func sha256Of(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

func writeJSON(path string, value any) error {
	text, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}
