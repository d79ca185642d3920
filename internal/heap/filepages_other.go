//go:build !linux

package heap

// releaseFilePages does nothing: only Linux says which pages are mapped.
func releaseFilePages() {}
