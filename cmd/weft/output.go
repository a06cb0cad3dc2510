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

// output is the stream that a command writes its answer to. All text, JSON documents
// and help go through it. It remembers the first write that failed, so that a command
// whose answer is lost does not end with success.
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

// close waits for a write that is under way and discards all later ones.
func (o *output) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
}

// writeError returns the error of the first write that failed, or nil when the whole
// answer was written.
func (o *output) writeError() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err == nil {
		return nil
	}
	return userfile.CannotWriteStream("stdout", o.err)
}

// readerLeft reports whether the program that read the answer through a pipe has closed
// it, as head does.
func (o *output) readerLeft() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return errors.Is(o.err, syscall.EPIPE)
}

// printResult writes the result of a command: v as JSON, or the text for people.
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

// say writes one line for people. The arguments may come from a file, so control
// characters and line ends in them are escaped: a tensor's name cannot start a new
// line.
func (a *app) say(format string, args ...any) {
	a.printBlock(printable.Sprintf(format, args...))
}

// printBlock writes lines that are already formatted. Their parts must have been
// escaped by printable.Sprintf.
func (a *app) printBlock(lines string) { fmt.Fprintln(printable.Writer{W: a.stdout}, lines) }

// printStderr writes a line to stderr. It escapes its arguments as say does.
func (a *app) printStderr(format string, args ...any) {
	fmt.Fprintln(a.stderr, "weft: "+printable.Sprintf(format, args...))
}

// warn prints an error that does not stop the command.
func (a *app) warn(err error) { a.printStderr("warning: %v", err) }
