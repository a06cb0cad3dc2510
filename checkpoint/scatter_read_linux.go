package checkpoint

import (
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// vector is a scatter read: it reads one range of a file into many pieces of memory.
type vector struct {
	iov  []unix.Iovec
	only []byte // the piece added last: the only one if iov has one
}

func (v *vector) reset() { v.iov = v.iov[:0] }

func (v *vector) add(b []byte) {
	v.only = b
	iov := unix.Iovec{Base: unsafe.SliceData(b)}
	iov.SetLen(len(b))
	v.iov = append(v.iov, iov)
}

// read fills the pieces, which have n bytes together, from offset off.
func (v *vector) read(f *file, off, n int64) error {
	if len(v.iov) == 1 {
		return f.readAt(v.only, off)
	}
	fd := f.f.Fd()
	end := off + n
	for iov := v.iov; off < end; {
		got, _, errno := syscall.Syscall6(unix.SYS_PREADV, fd, uintptr(unsafe.Pointer(&iov[0])),
			uintptr(len(iov)), uintptr(off), uintptr(uint64(off)>>32), 0)
		switch {
		case errno == syscall.EINTR:
			continue
		case errno != 0:
			return &fsError{f.name, errno}
		case got == 0:
			return fileChanged(f.name, end)
		}
		f.read.Add(int64(got))
		off += int64(got)
		iov = dropBytes(iov, uint64(got))
	}
	runtime.KeepAlive(f)
	return nil
}

// dropBytes removes the first n bytes, which have been read, from the pieces.
func dropBytes(iov []unix.Iovec, n uint64) []unix.Iovec {
	for len(iov) > 0 && n >= uint64(iov[0].Len) {
		n -= uint64(iov[0].Len)
		iov = iov[1:]
	}
	if n > 0 {
		left := uint64(iov[0].Len) - n
		iov[0].Base = (*byte)(unsafe.Add(unsafe.Pointer(iov[0].Base), n))
		iov[0].SetLen(int(left))
	}
	return iov
}

// fsError names the file of a failed system call.
type fsError struct {
	name  string
	errno syscall.Errno
}

func (e *fsError) Error() string { return "read " + e.name + ": " + e.errno.Error() }
func (e *fsError) Unwrap() error { return e.errno }
