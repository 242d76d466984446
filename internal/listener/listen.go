package listener

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// maxPath bounds the path of a Unix socket: sun_path has 104 bytes on BSD and macOS and 108 on Linux, including a
// terminating zero.
const maxPath = 103

// UnixPath returns the path in an address of the form unix:///path/to/socket.
func UnixPath(address string) (path string, ok bool) {
	path, ok = strings.CutPrefix(address, "unix://")
	return path, ok
}

// CheckUnixPath returns why the path of a Unix socket cannot be used.
func CheckUnixPath(path string) error {
	switch {
	case !strings.HasPrefix(path, "/"):
		return fmt.Errorf("invalid path %.64q of a Unix socket: must be absolute, for example unix:///run/penstock/grpc.sock", path)
	case len(path) > maxPath:
		return fmt.Errorf("the path of a Unix socket has %d bytes, at most %d", len(path), maxPath)
	}
	return nil
}

// ParseMode parses the permissions of a socket in octal, for example 0660.
func ParseMode(text string) (fs.FileMode, error) {
	n, err := strconv.ParseUint(text, 8, 32)
	if err != nil || n > 0o777 {
		return 0, fmt.Errorf("invalid file mode %.16q: must be octal, for example 0660", text)
	}
	return fs.FileMode(n), nil
}

// Listen opens a TCP address, or a Unix socket with the given permissions, octal as in 0660. It replaces a socket
// that a process left behind, but not one with a listening process, nor any other file. Close removes the socket.
func Listen(address, mode string) (net.Listener, error) {
	path, ok := UnixPath(address)
	if !ok {
		return net.Listen("tcp", address)
	}
	if err := CheckUnixPath(path); err != nil {
		return nil, err
	}
	perm, err := ParseMode(mode)
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("unix", path)
	if errors.Is(err, syscall.EADDRINUSE) {
		if err := removeStale(path); err != nil {
			return nil, err
		}
		l, err = net.Listen("unix", path)
	}
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, perm); err != nil {
		return nil, errors.Join(fmt.Errorf("set the mode of the socket: %w", err), l.Close())
	}
	return l, nil
}

// removeStale removes a socket without a listening process.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if info.Mode()&fs.ModeSocket == 0 {
		return fmt.Errorf("%s exists and is not a socket: remove it, or choose another path", path)
	}
	switch c, err := net.Dial("unix", path); {
	case err == nil:
		c.Close()
		return fmt.Errorf("another process listens on %s", path)
	case !errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("%s exists, and whether a process listens on it is unknown: %w", path, err)
	}
	return os.Remove(path)
}
