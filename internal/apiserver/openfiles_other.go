//go:build !unix

package apiserver

// maxOpenFiles returns how many files this process may have open.
func maxOpenFiles() (limit uint64, known bool) { return 0, false }
