// Package ambient reads the environment of the process for credentials.
package ambient

import (
	"fmt"
	"io"
	"os"
)

// maxFile is the maximum size of a file with credentials, in bytes.
const maxFile = 1 << 20

// Host is the environment of a process.
type Host struct {
	// Getenv returns an environment variable, empty if it is not set.
	Getenv func(name string) string
	// ReadFile returns the content of a file.
	ReadFile func(path string) ([]byte, error)
}

// Process returns the environment of this process.
func Process() Host {
	return Host{Getenv: os.Getenv, ReadFile: readFile}
}

// readFile reads a file of a limited size: the path is from a variable and could
// name anything.
func readFile(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	switch {
	case err != nil:
		return nil, err
	case len(data) > maxFile:
		return nil, fmt.Errorf("%s is larger than %d bytes", path, maxFile)
	}
	return data, nil
}
