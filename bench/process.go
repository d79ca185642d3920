package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"k8s.io/client-go/rest"
)

// system is the measured server, made of one or more processes.
type system struct {
	name      string
	processes []*process
	// dir holds everything that the processes write.
	dir string
	// startup is from the first process's start to the readiness of all.
	startup time.Duration
	// admin is the configuration to reach the API with all rights.
	admin *rest.Config
	// metrics means that it is one process, whose API serves metrics.
	metrics bool
}

// startSystem starts a system in a new folder, or stops what it has started.
func startSystem(name string, start func(*system) error) (*system, error) {
	dir, err := os.MkdirTemp("", name+"-bench-")
	if err != nil {
		return nil, err
	}
	s := &system{name: name, dir: dir}
	if err := start(s); err != nil {
		return nil, errors.Join(err, s.stop())
	}
	return s, nil
}

// stop ends the processes, the last one first.
func (s *system) stop() error {
	var failed []error
	for i := len(s.processes) - 1; i >= 0; i-- {
		failed = append(failed, s.processes[i].stop())
	}
	return errors.Join(append(failed, os.RemoveAll(s.dir))...)
}

// start adds a process.
func (s *system) start(path string, args ...string) error {
	p, err := startProcess(s.dir, path, args...)
	if err == nil {
		s.processes = append(s.processes, p)
	}
	return err
}

// process is a program that runs until it is stopped. Its output goes to a file next to its
// data, which is shown when the program fails.
type process struct {
	cmd   *exec.Cmd
	log   *os.File
	ended chan error
}

func startProcess(dir, path string, args ...string) (*process, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	output, err := os.Create(filepath.Join(dir, filepath.Base(path)+".log"))
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(path, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, output, output
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, log: output, ended: make(chan error, 1)}
	go func() { p.ended <- cmd.Wait() }()
	return p, nil
}

// stopTimeout is how long a process may take to stop.
const stopTimeout = 30 * time.Second

func (p *process) stop() error {
	defer p.log.Close()
	if err := p.cmd.Process.Signal(os.Interrupt); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case err := <-p.ended:
		var exit *exec.ExitError
		if errors.As(err, &exit) && exit.ExitCode() < 0 {
			return nil // it has no handler for the signal
		}
		return p.explain(err)
	case <-time.After(stopTimeout):
		p.cmd.Process.Kill()
		return p.explain(fmt.Errorf("did not stop within %v", stopTimeout))
	}
}

// kill ends the process without warning.
func (p *process) kill() error {
	defer p.log.Close()
	if err := p.cmd.Process.Kill(); err != nil {
		return err
	}
	<-p.ended
	return nil
}

// alive returns nil, or why the process has ended.
func (p *process) alive() error {
	select {
	case err := <-p.ended:
		p.ended <- err
		return p.explain(errors.Join(errors.New("ended while it was needed"), err))
	default:
		return nil
	}
}

// explain adds the end of the process's output to an error.
func (p *process) explain(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w; it said:\n%s", filepath.Base(p.cmd.Path), err, p.tail())
}

// tail returns the end of the process's output.
func (p *process) tail() string {
	output, _ := os.ReadFile(p.log.Name())
	const enough = 4096
	return string(output[max(0, len(output)-enough):])
}

// output returns the end of the output of all processes.
func (s *system) output() string {
	var said strings.Builder
	for _, p := range s.processes {
		fmt.Fprintf(&said, "%s said:\n%s\n", filepath.Base(p.cmd.Path), p.tail())
	}
	return said.String()
}

// usage is the consumption of a system so far.
type usage struct {
	// cpu is user and system time.
	cpu time.Duration
	// residentMB is physical memory now; anonymousMB is the part of it that is not
	// pages of files, and peakMB is the most it ever was.
	residentMB, anonymousMB, peakMB float64
}

// usages returns the consumption of each process.
func (s *system) usages() ([]usage, error) {
	var all []usage
	for _, p := range s.processes {
		one, err := p.usage()
		if err != nil {
			return nil, errors.Join(err, p.alive())
		}
		all = append(all, one)
	}
	return all, nil
}

func (s *system) usage() (usage, error) {
	all, err := s.usages()
	var total usage
	for _, one := range all {
		total.cpu += one.cpu
		total.residentMB += one.residentMB
		total.anonymousMB += one.anonymousMB
		total.peakMB += one.peakMB
	}
	return total, err
}

// tick is the unit of times in proc(5): USER_HZ is 100 on every architecture
// that Go supports.
const tick = 10 * time.Millisecond

func (p *process) usage() (usage, error) {
	folder := fmt.Sprintf("/proc/%d/", p.cmd.Process.Pid)
	stat, err := os.ReadFile(folder + "stat")
	if err != nil {
		return usage{}, fmt.Errorf("measuring needs Linux's proc(5): %w", err)
	}
	// The second field is a name in brackets that can contain anything.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	user, err1 := strconv.Atoi(fields[11])
	kernel, err2 := strconv.Atoi(fields[12])
	status, err3 := os.ReadFile(folder + "status")
	if err := errors.Join(err1, err2, err3); err != nil {
		return usage{}, err
	}
	u := usage{cpu: time.Duration(user+kernel) * tick}
	for line := range strings.Lines(string(status)) {
		for name, field := range map[string]*float64{"VmRSS": &u.residentMB, "RssAnon": &u.anonymousMB, "VmHWM": &u.peakMB} {
			var kilobytes float64
			if n, _ := fmt.Sscanf(line, name+": %f kB", &kilobytes); n == 1 {
				*field = kilobytes / 1024
			}
		}
	}
	return u, nil
}

// ownCPU returns the CPU time of this process, the client.
func ownCPU() (time.Duration, error) {
	self := &process{cmd: &exec.Cmd{Process: &os.Process{Pid: os.Getpid()}}}
	u, err := self.usage()
	return u.cpu, err
}

// readyTimeout bounds the start of a system.
const readyTimeout = 2 * time.Minute

// await polls until holds returns true, or a process of s has ended.
func (s *system) await(ctx context.Context, what string, holds func(context.Context) bool) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	for !holds(ctx) {
		for _, p := range s.processes {
			if err := p.alive(); err != nil {
				return err
			}
		}
		if err := sleep(ctx, 20*time.Millisecond); err != nil {
			return fmt.Errorf("waiting until %s: %w", what, err)
		}
	}
	return nil
}

// peakMB is the most memory that an ended process had, in megabytes.
func peakMB(ended *os.ProcessState) float64 {
	used, ok := ended.SysUsage().(*syscall.Rusage)
	if !ok {
		return 0
	}
	return float64(used.Maxrss) / 1024 // it is in kilobytes on Linux
}
