package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// consumption is the time and the resources that a load has taken.
type consumption struct {
	took time.Duration
	// serverCPU is user and system time of all processes, byProcess of each; clientCPU is
	// the time of this process.
	serverCPU, clientCPU time.Duration
	byProcess            map[string]time.Duration
	// allocated is 0 if the system does not report it.
	allocated allocated
	// memoryMB is resident memory at the end, peakMB the most until then.
	memoryMB, peakMB float64
}

// cost is what each item of a load, mostly a certificate, costs.
type cost struct {
	// CPU is user and system time; 0 if the server was killed.
	ServerCPUMilliseconds float64 `json:"serverCPUMilliseconds"`
	ClientCPUMilliseconds float64 `json:"clientCPUMilliseconds"`
	// ProcessCPUMilliseconds is the server's by process, if it has several.
	ProcessCPUMilliseconds map[string]float64 `json:"processCPUMilliseconds,omitempty"`
	// AllocatedKB and Allocations are memory and objects that the server allocates, whether
	// they are freed or not. They depend on other load on the machine far less than CPU.
	AllocatedKB float64 `json:"allocatedKB,omitempty"`
	Allocations float64 `json:"allocations,omitempty"`
	// MemoryMB is resident memory at the end of the load, of everything together, and PeakMB
	// the most that there was until then.
	MemoryMB float64 `json:"memoryMB"`
	PeakMB   float64 `json:"peakMB"`
}

// each returns the cost of each of n items.
func (c consumption) each(n int) cost {
	of := cost{MemoryMB: c.memoryMB, PeakMB: c.peakMB}
	if n == 0 {
		return of
	}
	each := func(d time.Duration) float64 { return milliseconds(d) / float64(n) }
	of.ServerCPUMilliseconds, of.ClientCPUMilliseconds = each(c.serverCPU), each(c.clientCPU)
	of.AllocatedKB, of.Allocations = c.allocated.bytes/1000/float64(n), c.allocated.objects/float64(n)
	if len(c.byProcess) > 1 {
		of.ProcessCPUMilliseconds = map[string]float64{}
		for name, cpu := range c.byProcess {
			of.ProcessCPUMilliseconds[name] = each(cpu)
		}
	}
	return of
}

// costColumns are the headers of the columns of a cost.
const costColumns = "server CPU ms\tclient CPU ms\tallocated KB\tallocations\tend MB\t"

func (c cost) columns() string {
	return fmt.Sprintf("%.2f\t%.2f\t%.0f\t%.0f\t%.0f\t", c.ServerCPUMilliseconds, c.ClientCPUMilliseconds, c.AllocatedKB, c.Allocations, c.MemoryMB)
}

// measure returns what a system consumes during a load.
func (s *system) measure(ctx context.Context, load func()) (consumption, error) {
	allocated, err := s.allocated(ctx)
	if err != nil {
		return consumption{}, err
	}
	before, err1 := s.usages()
	own, err2 := ownCPU()
	if err := errors.Join(err1, err2); err != nil {
		return consumption{}, err
	}
	c := consumption{byProcess: map[string]time.Duration{}}
	began := time.Now()
	load()
	c.took = time.Since(began)
	after, err1 := s.usages()
	for i, u := range after {
		c.byProcess[filepath.Base(s.processes[i].cmd.Path)] = u.cpu - before[i].cpu
		c.serverCPU += u.cpu - before[i].cpu
		c.memoryMB += u.residentMB
		c.peakMB += u.peakMB
	}
	ownAfter, err2 := ownCPU()
	c.clientCPU = ownAfter - own
	until, err3 := s.allocated(ctx)
	c.allocated.bytes, c.allocated.objects = until.bytes-allocated.bytes, until.objects-allocated.objects
	return c, errors.Join(err1, err2, err3, ctx.Err())
}

// allocated is what a process has allocated since its start.
type allocated struct{ bytes, objects float64 }

// allocated reads the metrics of a certplane. It reads nothing from other systems. The reading
// itself, 3 MB, counts as part of the load.
func (s *system) allocated(ctx context.Context) (allocated, error) {
	if !s.metrics {
		return allocated{}, nil
	}
	text, err := get(ctx, s.admin, "/metrics", nil)
	if err != nil {
		return allocated{}, fmt.Errorf("reading the metrics: %w", err)
	}
	return parseAllocated(string(text))
}

func parseAllocated(metrics string) (a allocated, err error) {
	for name, value := range map[string]*float64{"go_memstats_alloc_bytes_total": &a.bytes, "go_memstats_mallocs_total": &a.objects} {
		_, after, _ := strings.Cut(metrics, "\n"+name+" ")
		if _, err := fmt.Sscan(after, value); err != nil {
			return allocated{}, fmt.Errorf("the metrics have no %s: %w", name, err)
		}
	}
	return a, nil
}

// get reads a path of a server.
func get(ctx context.Context, cfg *rest.Config, path string, parameters map[string]string) ([]byte, error) {
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	request := client.Discovery().RESTClient().Get().AbsPath(path)
	for key, value := range parameters {
		request.Param(key, value)
	}
	return request.DoRaw(ctx)
}
