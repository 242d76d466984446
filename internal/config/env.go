package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/penstock-io/penstock/internal/spelling"
)

// commandVariables are read by commands and are not keys of the configuration.
var commandVariables = []string{"PENSTOCK_CONFIG", "PENSTOCK_SERVER", "PENSTOCK_ADMIN_SERVER", "PENSTOCK_TOKEN", envoyEnvVariable}

// serviceLink matches variables that Kubernetes sets for services called penstock-something, for example
// PENSTOCK_REDIS_SERVICE_HOST=10.0.0.7 and PENSTOCK_REDIS_PORT=tcp://10.0.0.7:6379.
var serviceLink = regexp.MustCompile(`^PENSTOCK_\w+_(SERVICE_HOST=|SERVICE_PORT(_\w+)?=|PORT=\w+://|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?=)`)

// isForeignVariable reports whether a line of the environment was set by other software.
func isForeignVariable(line string) bool {
	for _, prefix := range []string{"PENSTOCK_SERVICE_", "PENSTOCK_PORT=", "PENSTOCK_PORT_", "PENSTOCK_TEST_"} {
		if strings.HasPrefix(line, prefix) {
			return true
		}
	}
	return serviceLink.MatchString(line)
}

// UnknownVariables returns an error for each PENSTOCK_… variable that nothing reads, because a misspelt one
// would silently leave the default. It does not print values, which may be secrets.
func UnknownVariables(env []string) (errs []error) {
	known := slices.Clone(commandVariables)
	for path := range newLoader().settings {
		known = append(known, variable(path))
	}
	slices.Sort(known)
	for _, line := range env {
		name, _, _ := strings.Cut(line, "=")
		if !strings.HasPrefix(name, "PENSTOCK_") || isForeignVariable(line) || slices.Contains(known, name) {
			continue
		}
		if meant := spelling.Closest(name, known); meant != "" {
			errs = append(errs, fmt.Errorf("unknown environment variable %q, did you mean %s?", name, meant))
			continue
		}
		errs = append(errs, fmt.Errorf("unknown environment variable %.128q: unset it, or see docs/reference/configuration.md for all names", name))
	}
	return errs
}

// Getenv returns the value of a variable from a list in the form of os.Environ, or "" if it is not set.
func Getenv(env []string, name string) string {
	for _, line := range slices.Backward(env) {
		if value, ok := strings.CutPrefix(line, name+"="); ok {
			return value
		}
	}
	return ""
}
