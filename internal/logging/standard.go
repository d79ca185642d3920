package logging

import (
	"bytes"
	"io"
	"runtime"
	"strings"

	"k8s.io/klog/v2"
)

// talkative are libraries that write each step of theirs with Go's package log:
// that is for verbosity 1 and more.
var talkative = []string{"github.com/Venafi/vcert/"}

// standard is where Go's package log writes to.
type standard struct{ next io.Writer }

// Write implements io.Writer.
func (s standard) Write(line []byte) (int, error) {
	if !fromTalkative() {
		return s.next.Write(line)
	}
	klog.V(1).InfoS("vcert", "line", string(bytes.TrimSpace(line)))
	return len(line), nil
}

// fromTalkative reports whether a talkative library writes the current line.
func fromTalkative() bool {
	var callers [16]uintptr
	frames := runtime.CallersFrames(callers[:runtime.Callers(3, callers[:])])
	for {
		frame, more := frames.Next()
		for _, library := range talkative {
			if strings.HasPrefix(frame.Function, library) {
				return true
			}
		}
		if !more {
			return false
		}
	}
}
