// Package child runs other programs that end with this one: when its context
// ends, and, where the system can see to that, also when this process is killed
// without a chance to say so.
package child

import (
	"os/exec"
	"runtime"
	"time"
)

// Run is c.Run of a command made with exec.CommandContext. The command gets a
// process group of its own, all of which is killed when the context ends: a
// compiler hears nothing gentler, and a shell's children would live on.
func Run(c *exec.Cmd) error {
	endWithParent(c)
	if c.WaitDelay == 0 {
		c.WaitDelay = 5 * time.Second
	}
	done := make(chan error, 1)
	go func() {
		// The system counts the thread that started the command as its parent, and
		// Go ends threads when it likes, except one that a goroutine is locked to.
		runtime.LockOSThread()
		done <- c.Run()
	}()
	return <-done
}
