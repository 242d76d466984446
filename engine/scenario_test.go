package engine_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/penstock-io/penstock/engine"
	"github.com/penstock-io/penstock/internal/redistest"
)

// scenarios reads testdata: rules, and a script of requests with their answers.
func scenarios(t *testing.T) map[string][]txtar.File {
	t.Helper()
	paths, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatal("no scenarios: ", err)
	}
	all := map[string][]txtar.File{}
	for _, path := range paths {
		archive, err := txtar.ParseFile(path)
		if err != nil {
			t.Fatal(err)
		}
		all[strings.TrimSuffix(filepath.Base(path), ".txtar")] = archive.Files
	}
	return all
}

func TestScenariosInMemory(t *testing.T) {
	for name, files := range scenarios(t) {
		t.Run(name, func(t *testing.T) {
			for _, diff := range run(t, files, engine.Options{}) {
				t.Error(diff)
			}
		})
	}
}

func TestScenariosInRedis(t *testing.T) {
	server := redistest.Start(t)
	for name, files := range scenarios(t) {
		t.Run(name, func(t *testing.T) {
			for _, diff := range run(t, files, engine.Options{Store: newRedis(t, server, name+":")}) {
				t.Error(diff)
			}
		})
	}
}
