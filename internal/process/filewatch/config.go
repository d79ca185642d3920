package filewatch

import (
	"context"
	"time"

	"k8s.io/klog/v2"
)

// ConfigEvery is how often a configuration is read to see whether it changed: a
// change is used within a second, after two looks.
const ConfigEvery = time.Second / 2

// Config is a configuration file whose changes are logged and counted.
type Config struct {
	// Path is that of the file.
	Path string
	// What names the file's content in the log, as in "authentication
	// configuration".
	What string
	// Apply uses a new content, under the terms of Files.Use.
	Apply func(ctx context.Context, content []byte) error
	// Succeeded and Failed count for the metrics. A failure that stays the same
	// counts once.
	Succeeded func(content []byte)
	Failed    func()
}

// Files returns the file alone, to be followed.
func (c Config) Files() *Files {
	return &Files{Files: []File{{Path: c.Path, What: "reading the configuration"}}, Use: c.use, Report: c.report}
}

func (c Config) use(ctx context.Context, contents Contents) error {
	content := contents.Data[0]
	if err := c.Apply(ctx, content); err != nil {
		return err
	}
	c.Succeeded(content)
	klog.FromContext(ctx).Info("A configuration has changed", "what", c.What, "file", c.Path)
	return nil
}

func (c Config) report(ctx context.Context, failure error) {
	if failure == nil {
		return
	}
	c.Failed()
	klog.FromContext(ctx).Error(failure, "A changed configuration is not used", "what", c.What, "file", c.Path)
}
