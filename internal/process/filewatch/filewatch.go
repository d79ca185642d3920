// Package filewatch applies the contents of files as they change while the program
// runs.
package filewatch

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"time"

	"k8s.io/utils/clock"
)

// File is one of the files that are followed.
type File struct {
	// Path is that of the file. If it is empty, the file has no content.
	Path string
	// What begins the message of an error in reading it, as in "reading CA key".
	What string
}

// Digest identifies contents. The zero value stands for no content.
type Digest [sha256.Size]byte

// Contents are what some files held at one time.
type Contents struct {
	// Data are in the order of the files. They are cleared once Use returns,
	// because one of them may be a private key.
	Data   [][]byte
	Digest Digest
}

// Files are files that belong together, such as a certificate and its key.
// Their contents are used when they are the same at two looks: at the first
// look, a file may be in the middle of being written. If contents cannot be
// used, the former ones stay in use. The methods of Files must be called one at
// a time.
type Files struct {
	Files []File
	// Use applies new contents. If it fails, it must have changed nothing, and is
	// called at each look until it succeeds or the contents change.
	Use func(ctx context.Context, contents Contents) error
	// Report, if it is set, is called with the reason why the contents of the
	// files are not in use, whenever that reason changes, and with nil once they
	// are in use.
	Report func(ctx context.Context, failure error)
	// AtOnce has contents used at the first look. It is for callers that look when
	// they need the files, and whose Use detects incomplete contents.
	AtOnce bool

	seen, used Digest
	failure    error // the last reported error
}

// Open uses the contents of the files for the first time. If that fails, the
// Files cannot be used.
func (f *Files) Open(ctx context.Context) error {
	contents, err := f.read()
	defer contents.clear()
	if err == nil {
		err = f.Use(ctx, contents)
	}
	if err == nil {
		f.seen, f.used = contents.Digest, contents.Digest
	}
	return err
}

// InUse records that data, in the order of the files, are in use already.
func (f *Files) InUse(data ...[]byte) {
	f.used = digest(data, nil)
	f.seen = f.used
}

// Run looks at the files at this interval, until ctx ends.
func (f *Files) Run(ctx context.Context, clock clock.WithTicker, every time.Duration) {
	ticker := clock.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
			f.Look(ctx)
		}
	}
}

// Look uses the contents of the files if they are new. If it cannot, it returns the reason,
// if that is known.
func (f *Files) Look(ctx context.Context) error {
	contents, err := f.read()
	defer contents.clear()
	settled := f.AtOnce || contents.Digest == f.seen
	f.seen = contents.Digest
	if !settled {
		return f.failure
	}
	if err == nil && contents.Digest != f.used {
		err = f.Use(ctx, contents)
	}
	if err == nil {
		f.used = contents.Digest
	}
	f.Failed(ctx, err)
	return err
}

// Failed reports a failure, or nil, if it differs from the last one. A failure
// after ctx has ended is ignored.
func (f *Files) Failed(ctx context.Context, failure error) {
	if ctx.Err() != nil || sameText(failure, f.failure) {
		return
	}
	f.failure = failure
	if f.Report != nil {
		f.Report(ctx, failure)
	}
}

func sameText(a, b error) bool {
	return a == nil && b == nil || a != nil && b != nil && a.Error() == b.Error()
}

// read returns the contents. They have a digest also if there is an error.
func (f *Files) read() (Contents, error) {
	data := make([][]byte, len(f.Files))
	var err error
	for i, file := range f.Files {
		if file.Path == "" {
			continue
		}
		if data[i], err = os.ReadFile(file.Path); err != nil {
			err = fmt.Errorf("%s: %w", file.What, err)
			break
		}
	}
	return Contents{Data: data, Digest: digest(data, err)}, err
}

func digest(data [][]byte, err error) Digest {
	parts := sha256.New()
	for _, part := range data {
		sum := sha256.Sum256(part)
		parts.Write(sum[:])
	}
	fmt.Fprint(parts, err)
	return Digest(parts.Sum(nil))
}

func (c Contents) clear() {
	for _, part := range c.Data {
		clear(part)
	}
}
