package main

import (
	"path/filepath"
	"time"
)

// measuring is a round of load that is under way.
type measuring struct {
	system *system
	before usage
	own    time.Duration
	// byProcess is the CPU time of each process before.
	byProcess []time.Duration
}

func startMeasuring(s *system) (*measuring, error) {
	m := &measuring{system: s}
	var err error
	if m.before, err = s.usage(); err != nil {
		return nil, err
	}
	for _, p := range s.processes {
		u, err := p.usage()
		if err != nil {
			return nil, err
		}
		m.byProcess = append(m.byProcess, u.cpu)
	}
	m.own, err = ownCPU()
	return m, err
}

// finish adds what the round has used to its result.
func (m *measuring) finish(to *loadResult) error {
	after, err := m.system.usage()
	if err != nil {
		return err
	}
	own, err := ownCPU()
	if err != nil {
		return err
	}
	to.MemoryMB = after.residentMB
	if to.Issued == 0 {
		return nil
	}
	each := func(d time.Duration) float64 { return milliseconds(d) / float64(to.Issued) }
	to.ServerCPUMilliseconds, to.ClientCPUMilliseconds = each(after.cpu-m.before.cpu), each(own-m.own)
	if len(m.system.processes) < 2 {
		return nil
	}
	to.ProcessCPUMilliseconds = map[string]float64{}
	for i, p := range m.system.processes {
		u, err := p.usage()
		if err != nil {
			return err
		}
		to.ProcessCPUMilliseconds[filepath.Base(p.cmd.Path)] = each(u.cpu - m.byProcess[i])
	}
	return nil
}
