// Package vcertlog keeps what vcert writes with Go's package log out of logs that
// are not verbose.
package vcertlog

import (
	"bytes"
	"io"
	"log"
	"runtime"
	"strings"

	"k8s.io/klog/v2"
)

// Quiet has the lines of vcert logged with the verbosity 1 and more only. It is
// called after the log has been set up.
func Quiet() { log.SetOutput(writer{log.Writer(), "github.com/Venafi/vcert/"}) }

// writer is where Go's package log writes to.
type writer struct {
	next io.Writer
	// library is the start of the names of the library's functions.
	library string
}

// Write implements io.Writer.
func (w writer) Write(line []byte) (int, error) {
	if !w.fromLibrary() {
		return w.next.Write(line)
	}
	klog.V(1).InfoS("vcert", "line", string(bytes.TrimSpace(line)))
	return len(line), nil
}

// fromLibrary reports whether the library writes the current line.
func (w writer) fromLibrary() bool {
	var callers [16]uintptr
	frames := runtime.CallersFrames(callers[:runtime.Callers(3, callers[:])])
	for {
		frame, more := frames.Next()
		if strings.HasPrefix(frame.Function, w.library) {
			return true
		}
		if !more {
			return false
		}
	}
}
