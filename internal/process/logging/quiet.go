package logging

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
)

// quiet is a sink that drops what libraries log about their own work, such as
// each controller that starts and each cache that is filled. It passes on their
// warnings and errors, and all that certplane itself logs.
type quiet struct {
	sink deepSink
	// keep selects from the values that every line of a logger has. Nil keeps all.
	keep func(key, value any) bool
}

// deepSink is a sink that accepts the call depth.
type deepSink interface {
	logr.LogSink
	logr.CallDepthLogSink
}

var _ deepSink = quiet{}

// lifetime is the context of the process's work.
var lifetime atomic.Pointer[context.Context]

// StopWith suppresses what libraries log about work that they cannot finish,
// from the end of ctx to the end of the process. A library that ctx stops finds
// the log quiet already: nothing has to run in between.
func StopWith(ctx context.Context) { lifetime.Store(&ctx) }

// stopping reports whether the process has begun to stop.
func stopping() bool {
	ctx := lifetime.Load()
	return ctx != nil && (*ctx).Err() != nil
}

// quieted returns the same logger without the chatter of libraries. A logger
// whose sink does not support call depths is returned unchanged.
func quieted(logger logr.Logger, keep func(key, value any) bool) logr.Logger {
	depth, ok := logger.GetSink().(logr.CallDepthLogSink)
	if !ok {
		return logger
	}
	sink, ok := depth.WithCallDepth(1).(deepSink) // 1 for the methods below
	if !ok {
		return logger
	}
	return logr.New(quiet{sink: sink, keep: keep})
}

// Init does nothing: the sink has its call depth already.
func (quiet) Init(logr.RuntimeInfo) {}

func (q quiet) Enabled(level int) bool { return q.sink.Enabled(level) }

func (q quiet) Info(level int, message string, values ...any) {
	// Contextual logging has no severity for warnings; this is how client-go
	// marks them.
	isWarning := strings.HasPrefix(message, "Warning: ") && !stopping()
	if !isWarning && fromLibrary() || isVoid(message) {
		return
	}
	q.sink.Info(level, message, values...)
}

func (q quiet) Error(err error, message string, values ...any) {
	if (stopping() || ofClient(err, message, values)) && fromLibrary() {
		return
	}
	q.sink.Error(err, message, values...)
}

func (q quiet) WithValues(values ...any) logr.LogSink {
	return q.with(q.sink.WithValues(q.kept(values)...))
}

func (q quiet) WithName(name string) logr.LogSink { return q.with(q.sink.WithName(name)) }

func (q quiet) WithCallDepth(depth int) logr.LogSink { return q.with(q.sink.WithCallDepth(depth)) }

func (q quiet) with(sink logr.LogSink) logr.LogSink {
	deep, ok := sink.(deepSink)
	if !ok {
		return sink
	}
	return quiet{sink: deep, keep: q.keep}
}

func (q quiet) kept(values []any) []any {
	if q.keep == nil || len(values)%2 != 0 {
		return values
	}
	var kept []any
	for i := 0; i < len(values); i += 2 {
		if q.keep(values[i], values[i+1]) {
			kept = append(kept, values[i], values[i+1])
		}
	}
	return kept
}

// forPeople drops values that controller-runtime adds to a line for programs: the other
// values contain the same in fewer words.
func forPeople(key, value any) bool {
	switch key {
	case "controllerGroup", "controllerKind", "reconcileID":
		return false
	case "namespace":
		return value != ""
	default:
		return true
	}
}

// quietText has klog write to out as it always does, without the chatter of
// libraries.
func quietText(out io.Writer) {
	text := textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(out)))
	klog.SetLoggerWithOptions(quieted(text, forPeople), klog.ContextualLogger(true), klog.WriteKlogBuffer(func(line []byte) {
		// Lines that are formatted already begin with the letter of their severity.
		if (bytes.HasPrefix(line, []byte("I")) || stopping()) && fromLibrary() || isVoid(string(line)) {
			return
		}
		_, _ = out.Write(line) // there is no place to log this error
	}))
}

// void are warnings that each start of a sound server logs, and that no
// operator can avoid.
var void = []string{
	// The API's machinery logs this about its own versions that it does not serve.
	"Skipping API apiextensions.k8s.io/v1beta1 because it has no resources.",
}

func isVoid(message string) bool {
	for _, known := range void {
		if strings.HasSuffix(strings.TrimSuffix(message, "\n"), known) {
			return true
		}
	}
	return false
}

// ofClient reports whether an error of a library only means that a client went away, or that
// its request took too long, of which the client was informed. Metrics count both:
// apiserver_request_terminations_total, apiserver_request_total with the code 504.
func ofClient(err error, message string, values []any) bool {
	switch message {
	case "Post-timeout activity": // with the panic of the handler, if there was one
		i := slices.Index(values, any("result"))
		return i >= 0 && i+1 < len(values) && values[i+1] == nil
	case "Failed to encode watch event", "Unhandled Error":
		return errors.Is(err, http.ErrHandlerTimeout) || err != nil && isOfClient(err.Error())
	}
	return false
}

// isOfClient reports whether the text of an error ends with one of a connection or request
// that has ended: libraries do not wrap all of them.
func isOfClient(text string) bool {
	return slices.ContainsFunc([]string{"client disconnected", "http2: stream closed", http.ErrHandlerTimeout.Error()},
		func(end string) bool { return strings.HasSuffix(text, end) })
}

// fromLibrary reports whether a library chose to log the current line. klog's
// warnings do not count as a library's, because they arrive as information if
// the log has no severities. Neither do the lines of Go's package log, which
// are mostly problems.
func fromLibrary() bool {
	var callers [32]uintptr
	frames := runtime.CallersFrames(callers[:runtime.Callers(2, callers[:])])
	for {
		frame, more := frames.Next()
		switch {
		case strings.HasPrefix(frame.Function, "k8s.io/klog/v2.Warning"), strings.HasPrefix(frame.Function, "log."):
			return false
		case !isPlumbing(frame.Function):
			return !isOurs(frame.Function)
		case !more:
			return false
		}
	}
}

// isPlumbing reports whether a function forwards log messages of other code.
func isPlumbing(function string) bool {
	for _, prefix := range []string{
		"github.com/certplane/certplane/internal/process/logging.(", // the methods above
		"github.com/certplane/certplane/internal/process/logging.quiet",
		"github.com/certplane/certplane/internal/process/logging.fromLibrary",
		"github.com/go-logr/",
		"k8s.io/component-base/logs",
		"k8s.io/klog/v2.",
		"k8s.io/klog/v2/",
		"sigs.k8s.io/controller-runtime/pkg/log.",
		"log/slog.",
	} {
		if strings.HasPrefix(function, prefix) {
			return true
		}
	}
	return false
}

func isOurs(function string) bool {
	return strings.HasPrefix(function, "github.com/certplane/certplane/") || strings.HasPrefix(function, "main.")
}
