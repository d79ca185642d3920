package main

import (
	"errors"
	"path/filepath"
	"time"
)

// measuring is a load that is under way.
type measuring struct {
	system *system
	began  time.Time
	own    time.Duration
	// cpu is the CPU time of each process before.
	cpu []time.Duration
}

// consumption is what a load has taken.
type consumption struct {
	took time.Duration
	// serverCPU is user and system time of all processes, byProcess of each;
	// clientCPU is that of this process.
	serverCPU, clientCPU time.Duration
	byProcess            map[string]time.Duration
	// memoryMB is resident memory at the end, peakMB the most until then.
	memoryMB, peakMB float64
}

func startMeasuring(s *system) (*measuring, error) {
	m := &measuring{system: s}
	for _, p := range s.processes {
		u, err := p.usage()
		if err != nil {
			return nil, errors.Join(err, p.alive())
		}
		m.cpu = append(m.cpu, u.cpu)
	}
	var err error
	m.own, err = ownCPU()
	m.began = time.Now()
	return m, err
}

// finish returns what was taken since the start. The processes must be the same.
func (m *measuring) finish() (consumption, error) {
	c := consumption{took: time.Since(m.began), byProcess: map[string]time.Duration{}}
	for i, p := range m.system.processes {
		u, err := p.usage()
		if err != nil {
			return consumption{}, errors.Join(err, p.alive())
		}
		c.serverCPU += u.cpu - m.cpu[i]
		c.byProcess[filepath.Base(p.cmd.Path)] = u.cpu - m.cpu[i]
		c.memoryMB += u.residentMB
		c.peakMB += u.peakMB
	}
	own, err := ownCPU()
	c.clientCPU = own - m.own
	return c, err
}

// add adds what a round has taken to its result.
func (r *loadResult) add(c consumption) {
	r.MemoryMB = c.memoryMB
	if r.Issued == 0 {
		return
	}
	r.ServerCPUMilliseconds, r.ClientCPUMilliseconds = each(c.serverCPU, r.Issued), each(c.clientCPU, r.Issued)
	if len(c.byProcess) < 2 {
		return
	}
	r.ProcessCPUMilliseconds = map[string]float64{}
	for name, cpu := range c.byProcess {
		r.ProcessCPUMilliseconds[name] = each(cpu, r.Issued)
	}
}

// each returns the milliseconds for each of n certificates.
func each(d time.Duration, n int) float64 { return milliseconds(d) / float64(max(1, n)) }
