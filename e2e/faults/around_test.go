package faults

import (
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/penstock-io/penstock/internal/child"
	"github.com/penstock-io/penstock/internal/pgtest"
	"github.com/penstock-io/penstock/internal/redistest"
)

const day = 24 * time.Hour

var otherFaults = []fault{
	{name: "a node killed; its callers go to another", lives: 1, balanced: true, arrange: onServer(func(s *faultStage, _ *redistest.Server) {
		s.nodes[0].process.Kill()
		s.hold()
	})},
	{name: "the rules' database killed", lives: 1, arrange: withoutDatabase},
	{name: "Redis' clock an hour ahead", lives: 1, arrange: onClock(time.Hour)},
	{name: "Redis' clock an hour back", lives: 1, arrange: onClock(-time.Hour)},
	{name: "Redis' clock ahead by more than the window", lives: 2, arrange: onClock(40 * day)},
	{name: "Redis' clock back by more than the window", lives: 1, arrange: onClock(-40 * day)},
}

// withoutDatabase kills the PostgreSQL that rules come from.
func withoutDatabase(t *testing.T) faultSetup {
	postgres, redis := pgtest.Start(t), redistest.Start(t)
	database, err := postgres.Database(t.Context())
	must(t, err)
	return faultSetup{
		store: onRedis("single", redis.Addr),
		rules: func(text string) string {
			file := filepath.Join(t.TempDir(), "rules.yaml")
			must(t, os.WriteFile(file, []byte(text), 0o600))
			apply := exec.Command(program, "rules", "apply", file, "--database", database, "--author", "faults", "-m", "a test")
			apply.Dir = t.TempDir()
			if out, err := child.Run(apply); err != nil {
				t.Fatalf("%v: %v\n%s", apply, err, out)
			}
			return "rules: {database: '" + database + "', poll_interval: 100ms}"
		},
		inject: func(s *faultStage) {
			must(t, postgres.Kill())
			s.hold()
			must(t, postgres.Restart())
		},
	}
}

// onClock steps the clock of a Redis that runs, and leaves it so.
func onClock(by time.Duration) func(*testing.T) faultSetup {
	return func(t *testing.T) faultSetup {
		step := preloadClock(t)
		redis := redistest.Start(t)
		return faultSetup{store: onRedis("single", redis.Addr), inject: func(s *faultStage) {
			before := s.ask(redis.Addr, "TIME")
			step(by)
			if after := s.ask(redis.Addr, "TIME"); (by < 0) != (after < before) {
				t.Errorf("the clock said %q before a step of %v, and %q after", before, by, after)
			}
			s.hold()
		}}
	}
}

// preloadClock makes the servers that the test starts next read a clock that it can move.
func preloadClock(t *testing.T) (step func(time.Duration)) {
	compiler, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("moving a server's clock takes gcc, which is not installed")
	}
	library, offset := filepath.Join(t.TempDir(), "clock.so"), filepath.Join(t.TempDir(), "offset")
	if out, err := exec.Command(compiler, "-shared", "-fPIC", "-O1", "-o", library, "testdata/clock.c", "-ldl").CombinedOutput(); err != nil {
		t.Fatalf("compile the clock: %v\n%s", err, out)
	}
	step = func(by time.Duration) {
		file, err := os.OpenFile(offset, os.O_CREATE|os.O_WRONLY, 0o600)
		must(t, err)
		_, err = file.Write(binary.NativeEndian.AppendUint64(nil, uint64(by.Microseconds())))
		must(t, err)
		must(t, file.Close())
	}
	step(0)
	t.Setenv("LD_PRELOAD", library)
	t.Setenv("PENSTOCK_TEST_CLOCK", offset)
	return step
}
