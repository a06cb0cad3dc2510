package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"weft/fault"
)

// processes are those of a service: one that answers, some that make videos, and the queue's
// server in this process.
type processes struct {
	url    string
	nats   *server.Server
	folder string

	mu      sync.Mutex
	running map[string]*process
	err     error // of a process that could not be started again
}

// process is one that can be killed and started again.
type process struct {
	name string
	args []string
	weft string
	log  string
	cmd  *exec.Cmd
	gone chan struct{} // closed when it has ended
}

// start starts a service with an empty folder.
func (b *serveBench) start(ctx context.Context, name string) (*processes, error) {
	dir := filepath.Join(b.dir, name)
	nats, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: filepath.Join(dir, "nats"), SyncAlways: true,
		NoLog: true, NoSigs: true})
	if err != nil {
		return nil, err
	}
	nats.Start()
	if !nats.ReadyForConnections(time.Minute) {
		return nil, fault.New(ErrProgram, nil, "the queue's server does not start")
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	p := &processes{url: "http://127.0.0.1:" + port, nats: nats, folder: dir, running: map[string]*process{}}
	common := []string{"serve", "--run", b.model, "--device", "cpu", "--data", filepath.Join(dir, "data"), "--nats", nats.ClientURL(), "--lease", "2s"}
	list := []*process{{name: "api", args: append(common[:len(common):len(common)], "--role", "api", "--addr", "127.0.0.1:"+port)}}
	for i := range b.workers {
		list = append(list, &process{name: fmt.Sprintf("worker %d", i+1), args: append(common[:len(common):len(common)], "--role", "worker", "--addr", "127.0.0.1:0")})
	}
	for _, one := range list {
		one.weft, one.log = b.weft, filepath.Join(b.dir, name+"-"+strings.ReplaceAll(one.name, " ", "-")+".log")
		p.running[one.name] = one
		if err := one.start(); err != nil {
			p.stop()
			return nil, err
		}
	}
	for range 600 {
		if resp, err := http.Get(p.url + "/readyz"); err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return p, nil
			}
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			p.stop()
			return nil, ctx.Err()
		}
	}
	p.stop()
	return nil, fault.New(ErrProgram, nil, "the service is not ready after a minute")
}

func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, err
}

func (p *process) start() error {
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	p.cmd, p.gone = exec.Command(p.weft, p.args...), make(chan struct{})
	p.cmd.Stdout, p.cmd.Stderr = log, log
	if err := p.cmd.Start(); err != nil {
		return err
	}
	cmd, gone := p.cmd, p.gone
	go func() {
		_ = cmd.Wait() // it is killed, or p.cmd.ProcessState tells
		close(gone)
	}()
	return nil
}

// killAtRandom kills a process every few seconds at a random moment and starts it again at once,
// until ctx ends.
func (p *processes) killAtRandom(ctx context.Context) (apis, workers int) {
	for {
		select {
		case <-time.After(time.Duration(1+rand.IntN(6000)) * time.Millisecond):
		case <-ctx.Done():
			return apis, workers
		}
		p.mu.Lock()
		names := make([]string, 0, len(p.running))
		for name := range p.running {
			names = append(names, name)
		}
		one := p.running[names[rand.IntN(len(names))]]
		err := one.cmd.Process.Kill()
		<-one.gone
		if err == nil {
			err = one.start()
		}
		if err != nil {
			p.err = err
			p.mu.Unlock()
			return apis, workers
		}
		p.mu.Unlock()
		if one.name == "api" {
			apis++
		} else {
			workers++
		}
	}
}

// failed is why a process could not be started again, or has ended by itself.
func (p *processes) failed() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, one := range p.running {
		select {
		case <-one.gone:
			log, _ := os.ReadFile(one.log)
			return fault.New(ErrProgram, nil, "%s has ended by itself: %s", one.name, log[max(0, len(log)-2000):])
		default:
		}
	}
	return p.err
}

// memory is what each process has resident.
func (p *processes) memory() map[string]int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := map[string]int64{}
	for name, one := range p.running {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", one.cmd.Process.Pid))
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(status)) {
			if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
				kilobytes, _ := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
				out[name] = kilobytes << 10
			}
		}
	}
	return out
}

// stop ends all processes in good order, and then the queue's server.
func (p *processes) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, one := range p.running {
		if one.cmd != nil && one.cmd.Process != nil {
			_ = one.cmd.Process.Signal(os.Interrupt)
		}
	}
	for _, one := range p.running {
		if one.gone == nil {
			continue
		}
		select {
		case <-one.gone:
		case <-time.After(20 * time.Second):
			_ = one.cmd.Process.Kill()
		}
	}
	p.nats.Shutdown()
	p.nats.WaitForShutdown()
}
