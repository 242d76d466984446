package redistest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
)

// findBinary returns the server to run: PENSTOCK_TEST_REDIS_SERVER, or redis-server on PATH or where Debian
// keeps servers.
func findBinary() (string, error) {
	if name := os.Getenv("PENSTOCK_TEST_REDIS_SERVER"); name != "" {
		path, err := exec.LookPath(name)
		if err != nil {
			return "", fmt.Errorf("find the server PENSTOCK_TEST_REDIS_SERVER names: %w", err)
		}
		return path, nil
	}
	for _, name := range []string{"redis-server", "/usr/local/sbin/redis-server", "/usr/sbin/redis-server"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("find redis-server: it is not on PATH; run `scripts/need redis-server`, " +
		"or set PENSTOCK_TEST_REDIS_SERVER to the path of a Redis or Valkey server")
}
