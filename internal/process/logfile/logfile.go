// Package logfile opens files to which lines are appended, and which are renamed
// when they are large.
package logfile

import (
	"io"
	"os"
	"path/filepath"

	"gopkg.in/natefinch/lumberjack.v2"
)

// Config sets the place of a file, and when it is renamed.
type Config struct {
	Path string
	// MaxSize is how large the file may grow, in megabytes; 0 never renames it.
	MaxSize int
	// MaxBackups is how many renamed files are kept, MaxAge for how many days; 0
	// keeps all.
	MaxBackups, MaxAge int
	// Compress packs renamed files.
	Compress bool
}

// Open creates the file now, so that an invalid path makes the start fail and not
// the first line. Only its owner can read a file that is created.
func Open(cfg Config) (io.WriteCloser, error) {
	if err := os.MkdirAll(filepath.Dir(cfg.Path), 0o700); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(cfg.Path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil || cfg.MaxSize == 0 {
		return file, err
	}
	return &lumberjack.Logger{
		Filename: cfg.Path, MaxSize: cfg.MaxSize, MaxBackups: cfg.MaxBackups, MaxAge: cfg.MaxAge, Compress: cfg.Compress,
	}, file.Close()
}
