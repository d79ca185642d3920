//go:build !linux

package gcpace

// releaseFilePages does nothing: only Linux reports the mapped pages.
func releaseFilePages() {}
