//go:build unix

package xla

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"weft/dtype"
)

func init() {
	children["stopped"] = func() {
		c, err := NewCPU(2)
		fatal(err)
		c.SetLimit(2 * time.Second)
		x, err := c.Compile(context.Background(), []byte(slowProgram(2, 5_000_000)), CompileOptions{Replicas: 2})
		fatal(err)
		var args [][]*Buffer
		for id := range 2 {
			b, err := c.Put(make([]byte, 4), dtype.F32, []int{1}, id)
			fatal(err)
			args = append(args, []*Buffer{b})
		}
		_, done, err := x.Execute(context.Background(), args)
		fatal(err)
		start := time.Now()
		p, err := os.FindProcess(os.Getpid())
		fatal(err)
		fatal(p.Signal(syscall.SIGSTOP))
		err = done.Wait(context.Background())
		fmt.Println("stood still for more than the limit:", time.Since(start) > 3*time.Second)
		fatal(err)
	}
}

// TestStopped: time that the process was stopped does not count against a call.
func TestStopped(t *testing.T) {
	engine(t)
	if testing.Short() || runtime.GOOS != "linux" {
		t.Skip("takes 4 s; needs /proc")
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "WEFT_XLA_CHILD=stopped")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for range 1000 { // until it is stopped
		stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", cmd.Process.Pid))
		if _, after, _ := strings.Cut(string(stat), ") "); strings.HasPrefix(after, "T") {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	time.Sleep(4 * time.Second)
	if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil || !strings.Contains(out.String(), "the limit: true") {
		t.Errorf("%v\n%s", err, out.String())
	}
}
