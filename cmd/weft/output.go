package main

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"

	"weft/internal/jsondoc"
	"weft/internal/printable"
	"weft/internal/userfile"
)

// output is the stream that a command answers on. All text, documents and help go
// through it: it remembers the first write that failed, so that no command whose
// answer is lost ends as if it had been read.
type output struct {
	mu     sync.Mutex
	w      *os.File
	err    error
	closed bool // the command has been left behind: nobody wants the rest
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed || o.err != nil {
		return len(b), nil // said once, at the end
	}
	_, o.err = o.w.Write(b)
	return len(b), nil
}

// close lets a write that is under way end and drops all that come.
func (o *output) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
}

// writeError is why a part of the answer was not taken, nil where all was.
func (o *output) writeError() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err == nil {
		return nil
	}
	return userfile.CannotWriteStream("stdout", o.err)
}

// readerLeft says that whoever read the answer through a pipe has closed it, as
// head does.
func (o *output) readerLeft() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return errors.Is(o.err, syscall.EPIPE)
}

// printResult writes the result: v as JSON, or text for people.
func (a *app) printResult(v any, text func()) error {
	if a.json {
		if a.documented.Swap(true) {
			return nil // there is one alone
		}
		return jsondoc.Write(a.stdout, v)
	}
	a.progress.stopBars()
	text()
	return nil
}

// say writes one line for people. What is put into the format may come from a
// file, so it is shown harmless, line ends too: a tensor's name makes no line.
func (a *app) say(format string, args ...any) {
	a.printBlock(printable.Sprintf(format, args...))
}

// printBlock writes lines that are laid out already, whose parts say or
// printable.Sprintf has made.
func (a *app) printBlock(lines string) { fmt.Fprintln(printable.Writer{W: a.stdout}, lines) }

// printStderr writes a line to stderr, shown harmless as say does.
func (a *app) printStderr(format string, args ...any) {
	fmt.Fprintln(a.stderr, "weft: "+printable.Sprintf(format, args...))
}

// warn is told of what went wrong without stopping a command.
func (a *app) warn(err error) { a.printStderr("warning: %v", err) }
