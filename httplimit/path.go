package httplimit

import (
	"fmt"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/urlform"
)

// NormalizePath returns the normal form of a path as sent in a request line. It is safe to forward: servers
// read it as the path that the rules have matched.
//
//   - Escapes of letters, digits and - . _ ~ are decoded. All others stay, with upper-case digits:
//     %2F is not a slash, here and at the upstream server.
//   - Characters that must be escaped are escaped.
//   - Several slashes become one; `.` and `..` are resolved, never above the root.
//   - A leading slash is added. A trailing slash is kept.
//
// It fails for what servers read in different ways: control characters and backslashes, escaped or
// not, invalid escapes, invalid UTF-8, ? and #, and dot segments with parameters (`..;`). The result
// does not change if it is normalised again. "*" stays as it is.
func NormalizePath(path string) (string, error) {
	out, err := urlform.ForwardedPath(path)
	if err != nil {
		return "", fmt.Errorf("%w path %.64q: %w", penstock.ErrInvalid, path, err)
	}
	return out, nil
}
