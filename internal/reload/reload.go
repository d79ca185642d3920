// Package reload applies changes of a configuration file while the server
// runs.
package reload

import (
	"bytes"
	"context"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"
)

// interval is how often a file is read to see whether it changed.
const interval = time.Second

// File is one that is looked after. Its methods are called one at a time.
type File struct {
	// Path is that of the file.
	Path string
	// What names the file's content in the log, as in "authentication
	// configuration".
	What string
	// Apply makes use of a new content. One that fails has changed nothing, and
	// is called again until the file changes or it succeeds.
	Apply func(ctx context.Context, content []byte) error
	// Succeeded and Failed count for the metrics. A failure that stays the same
	// counts once.
	Succeeded func(content []byte)
	Failed    func()

	applied  []byte
	reported string // the last failure that was logged
}

// InForce tells which content is in force.
func (f *File) InForce(content []byte) { f.applied = content }

// Watch looks for changes until ctx ends.
func (f *File) Watch(ctx context.Context) { wait.UntilWithContext(ctx, f.Check, interval) }

// Check applies a changed content. One that does not work leaves the former
// one in force.
func (f *File) Check(ctx context.Context) {
	content, err := os.ReadFile(f.Path)
	if err == nil && !bytes.Equal(content, f.applied) {
		err = f.Apply(ctx, content)
		if err == nil {
			f.applied = content
			f.Succeeded(content)
			klog.FromContext(ctx).Info("A configuration has changed", "what", f.What, "file", f.Path)
		}
	}
	f.Report(ctx, err)
}

// Report logs and counts a failure once, not every time that it is seen.
func (f *File) Report(ctx context.Context, err error) {
	failure := ""
	if err != nil {
		failure = err.Error()
	}
	if failure != "" && failure != f.reported && ctx.Err() == nil {
		f.Failed()
		klog.FromContext(ctx).Error(err, "A changed configuration is not used", "what", f.What, "file", f.Path)
	}
	f.reported = failure
}
