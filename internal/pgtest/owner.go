package pgtest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// owner is the user a server runs as. The zero owner is the current user.
type owner struct {
	other    bool
	uid, gid int
}

// serverOwner returns the current user, or an unprivileged user if that is root.
func serverOwner() (owner, error) {
	if os.Geteuid() != 0 {
		return owner{}, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, uidErr := strconv.Atoi(u.Uid)
		gid, gidErr := strconv.Atoi(u.Gid)
		if err := errors.Join(uidErr, gidErr); err != nil {
			return owner{}, fmt.Errorf("look up the user %s: %w", name, err)
		}
		return owner{other: true, uid: uid, gid: gid}, nil
	}
	return owner{}, errors.New("PostgreSQL does not run as root, and there is neither a user postgres nor a user nobody")
}

// run makes a command run as the owner.
func (o owner) run(cmd *exec.Cmd) {
	cmd.Dir = "/" // the owner may have no access to the current directory
	if o.other {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(o.uid), Gid: uint32(o.gid)}}
	}
}

// give changes the owner of everything below dir.
func (o owner) give(dir string) error {
	if !o.other {
		return nil
	}
	return filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, o.uid, o.gid)
	})
}
