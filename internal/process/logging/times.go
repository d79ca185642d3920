package logging

import (
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/zapr"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// withTimes makes a JSON logger write the times among a line's values unchanged, in RFC
// 3339: the library would write the time of the line in place of each. Other loggers are
// returned unchanged.
func withTimes(logger logr.Logger) logr.Logger {
	sink, ok := logger.GetSink().(zapr.Underlier)
	if !ok {
		return logger
	}
	wrap := zap.WrapCore(func(core zapcore.Core) zapcore.Core { return timesCore{core} })
	// The frames of logr and zapr between a caller and zap are counted already,
	// and would be counted twice.
	lines := sink.GetUnderlying().WithOptions(wrap, zap.AddCallerSkip(-2))
	return zapr.NewLoggerWithOptions(lines, zapr.LogInfoLevel("v"), zapr.ErrorKey("err"))
}

// timesCore turns times into text.
type timesCore struct{ zapcore.Core }

// With implements zapcore.Core.
func (c timesCore) With(fields []zapcore.Field) zapcore.Core {
	return timesCore{c.Core.With(withoutTimes(fields))}
}

// Check implements zapcore.Core.
func (c timesCore) Check(entry zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(entry.Level) {
		return checked.AddCore(entry, c)
	}
	return checked
}

// Write implements zapcore.Core.
func (c timesCore) Write(entry zapcore.Entry, fields []zapcore.Field) error {
	return c.Core.Write(entry, withoutTimes(fields))
}

func withoutTimes(fields []zapcore.Field) []zapcore.Field {
	written := make([]zapcore.Field, 0, len(fields))
	for _, field := range fields {
		if field.Type == zapcore.TimeType || field.Type == zapcore.TimeFullType {
			field = zap.String(field.Key, timeOf(field).UTC().Format(time.RFC3339))
		}
		written = append(written, field)
	}
	return written
}

func timeOf(field zapcore.Field) time.Time {
	if t, ok := field.Interface.(time.Time); ok {
		return t // which is too far away for nanoseconds
	}
	return time.Unix(0, field.Integer)
}
