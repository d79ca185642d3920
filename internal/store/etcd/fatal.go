package etcd

import (
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"

	"go.uber.org/zap/zapcore"
)

// fatalHook turns etcd's "log and exit the process" into an error that the
// owner of the process can report. It is safe for concurrent use.
type fatalHook struct {
	errs chan error
	done atomic.Bool
}

func newFatalHook() *fatalHook {
	return &fatalHook{errs: make(chan error, 1)}
}

// OnWrite is called by zap after it wrote a fatal or panic entry. It ends the
// calling goroutine: etcd's code behind a fatal entry must not run.
func (h *fatalHook) OnWrite(entry *zapcore.CheckedEntry, fields []zapcore.Field) {
	if !h.done.Swap(true) {
		h.errs <- entryError(entry.Message, fields)
	}
	runtime.Goexit()
}

func (h *fatalHook) fired() bool { return h.done.Load() }

// entryError joins a log message with the error among its fields.
func entryError(message string, fields []zapcore.Field) error {
	for _, field := range fields {
		if err, ok := field.Interface.(error); ok {
			return fmt.Errorf("%s: %w", message, err)
		}
	}
	return errors.New(message)
}
