package cpukernel

import "golang.org/x/sys/unix"

// permitTiles asks Linux to let this process use the registers of tiles, which it keeps off
// until it is asked because they make each thread's saved state 8 KB larger.
func permitTiles() bool {
	const (
		requestPermission = 0x1023 // ARCH_REQ_XCOMP_PERM
		tileData          = 18     // XFEATURE_XTILEDATA
	)
	_, _, errno := unix.Syscall(unix.SYS_ARCH_PRCTL, requestPermission, tileData, 0)
	return errno == 0
}
