package child

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// The test's own program stands in for a parent: it runs a shell that sleeps and
// says which process that is.
func TestMain(m *testing.M) {
	if os.Getenv("CHILD_TEST_PARENT") == "1" {
		c := exec.CommandContext(context.Background(), "sh", "-c", "echo $$; exec sleep 60")
		c.Stdout = os.Stdout
		err := Run(c)
		fmt.Println(err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// runs says whether a process is there and no zombie.
func runs(pid string) bool {
	b, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	return !strings.HasPrefix(rest, "Z")
}

func waitGone(t *testing.T, pid string) {
	t.Helper()
	for range 100 {
		if !runs(pid) {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Errorf("process %s is still there", pid)
}

func TestKilledParent(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	parent := exec.Command(self)
	parent.Env = append(os.Environ(), "CHILD_TEST_PARENT=1")
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	pid := strings.TrimSpace(line)
	if !runs(pid) {
		t.Fatalf("process %s does not run", pid)
	}
	parent.Process.Kill()
	parent.Wait()
	waitGone(t, pid)
}

// A context's end takes the children of the command too.
func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	r, w := io.Pipe()
	c := exec.CommandContext(ctx, "sh", "-c", "sleep 60 & echo $!; wait")
	c.Stdout = w
	done := make(chan error, 1)
	go func() { done <- Run(c) }()
	line, err := bufio.NewReader(r).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	go io.Copy(io.Discard, r)
	select {
	case err := <-done:
		if err == nil {
			t.Error("no error")
		}
	case <-time.After(10 * time.Second):
		t.Fatal("it goes on")
	}
	waitGone(t, strings.TrimSpace(line))
}
