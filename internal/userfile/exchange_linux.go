package userfile

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// exchange swaps two names at one stroke. The error is errors.ErrUnsupported where
// the file system cannot.
func exchange(a, b string) error {
	err := unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
	if err == unix.EINVAL || err == unix.ENOSYS || err == unix.EOPNOTSUPP {
		return fmt.Errorf("%w: %w", errors.ErrUnsupported, err)
	}
	return err
}
