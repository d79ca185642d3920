package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// server is the program under measurement, in a process of its own.
type server struct {
	process    *exec.Cmd
	dir        string
	kubeconfig string
	startup    time.Duration
}

// startServer returns when the server says that it is ready.
func startServer(ctx context.Context, program string) (*server, error) {
	dir, err := os.MkdirTemp("", "certplane-bench-")
	if err != nil {
		return nil, err
	}
	data := filepath.Join(dir, "data")
	process := exec.CommandContext(ctx, program, "serve", "--data-dir", data, "--listen", "127.0.0.1:0")
	process.Stderr = os.Stderr
	process.Cancel = func() error { return process.Process.Signal(os.Interrupt) }
	stdout, err := process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	begin := time.Now()
	if err := process.Start(); err != nil {
		return nil, err
	}
	s := &server{process: process, dir: dir, kubeconfig: filepath.Join(data, "admin.kubeconfig")}
	out := bufio.NewReader(stdout)
	if _, err := out.ReadString('\n'); err != nil {
		return nil, errors.Join(fmt.Errorf("the server did not start: %w", err), s.stop())
	}
	s.startup = time.Since(begin)
	go io.Copy(io.Discard, out)
	return s, nil
}

func (s *server) stop() error {
	defer os.RemoveAll(s.dir)
	if err := s.process.Process.Signal(os.Interrupt); err != nil {
		return err
	}
	return s.process.Wait()
}

// reportMemory prints the resident memory of the server, from proc(5).
func (s *server) reportMemory(when string) error {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.process.Process.Pid))
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(status)) {
		var kilobytes int
		if n, _ := fmt.Sscanf(line, "VmRSS: %d kB", &kilobytes); n == 1 {
			fmt.Printf("memory %s: %.0f MB resident\n", when, float64(kilobytes)/1024)
			return nil
		}
	}
	return errors.New("no resident memory in /proc: bench needs Linux")
}
