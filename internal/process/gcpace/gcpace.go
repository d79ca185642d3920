// Package gcpace trades memory for processor time while there is work, and gives
// it back at rest.
package gcpace

import (
	"context"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	// maxSlack is how much garbage may accumulate under load before it is
	// collected, if there is enough memory. More than twice as much may accumulate
	// only where much more is live. A collection costs about as much as
	// there is live memory, so the more garbage each one finds, the fewer
	// collections there are. But live memory is scattered among the garbage, so
	// that not all of it can be released: twice as much saves 2 % of the CPU and
	// costs 100 MB that are never released.
	maxSlack = 128 << 20
	// share is the part of the memory that slack may use: an eighth.
	share = 8
	// busy is the rate of allocation, in bytes a second, from which the process
	// counts as loaded. An idle server allocates less than a tenth of it.
	busy = 16 << 20
	// pause is how often the rate is measured.
	pause = time.Second
	// calm is how many quiet pauses in a row end the load.
	calm = 3
	// defaultPercent is Go's own GOGC.
	defaultPercent = 100
	// A start leaves live memory scattered among its garbage, and pages with live
	// memory on them cannot be released. So, until the process has started,
	// garbage is collected before it has grown to more than this share of the live
	// memory, in percent.
	startPercent = 50
)

// Run sets the pace of this process's garbage collector until ctx ends. It must
// be called when the process begins to start; started is closed when the
// process has started. Run does nothing if the user has set a pace by GOGC or
// GOMEMLIMIT.
func Run(ctx context.Context, started <-chan struct{}) {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	defer debug.SetGCPercent(debug.SetGCPercent(startPercent))
	select {
	case <-ctx.Done():
		return
	case <-started:
	}
	debug.SetGCPercent(defaultPercent)
	release()
	ticker := time.NewTicker(pause)
	defer ticker.Stop()
	sample, last := newSample(), initialPace()
	sample.read()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		allocated, live := sample.read()
		next := last.next(allocated, live)
		if next.percent != last.percent {
			debug.SetGCPercent(next.percent)
		}
		if last.loaded && !next.loaded {
			release()
		}
		last = next
	}
}

// release returns unused memory to the system.
func release() {
	debug.FreeOSMemory()
	releaseFilePages()
}

// pace is the garbage collector's setting, and for how long allocation is
// quiet.
type pace struct {
	slack   uint64 // never changes
	percent int
	loaded  bool
	quiet   int
}

// initialPace is the pace after the start. Controllers read what is stored after the API
// is ready: that counts as load, and its memory and file pages are released as well.
func initialPace() pace { return pace{slack: slack(), percent: defaultPercent, loaded: true} }

// next returns the pace after a second in which this many bytes were allocated,
// with this many bytes live. A pace that is nearly right is kept: each change
// stops the program for a moment.
func (p pace) next(allocated, live uint64) pace {
	live = max(live, 1)
	// Live memory of a burst, such as large requests under way, does not live long: garbage
	// that grows with it makes the process too large.
	most := min(live, 2*p.slack+live/4)
	if allocated < busy {
		if p.quiet++; p.quiet >= calm {
			p.percent, p.loaded = int(100*most/live), false
		}
		return p
	}
	p.quiet, p.loaded = 0, true
	wanted := int(100 * max(p.slack, most) / live)
	if off := wanted - p.percent; 5*max(off, -off) > p.percent {
		p.percent = wanted
	}
	return p
}

// sample reads the counters of the runtime.
type sample struct {
	counters  []metrics.Sample
	allocated uint64 // since the process began
}

func newSample() *sample {
	return &sample{counters: []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}, {Name: "/gc/heap/live:bytes"}}}
}

// read returns how much was allocated since the last call, and how much was
// live after the last collection.
func (s *sample) read() (allocated, live uint64) {
	metrics.Read(s.counters)
	total := s.counters[0].Value.Uint64()
	allocated, s.allocated = total-s.allocated, total
	return allocated, s.counters[1].Value.Uint64()
}

// slack returns a share of the memory available to this process: the machine's memory, or
// the limit of the process's control groups.
func slack() uint64 {
	memory := uint64(math.MaxUint64)
	if data, err := os.ReadFile("/proc/meminfo"); err == nil {
		memory = totalMemory(string(data), memory)
	}
	if groups, err := os.ReadFile("/proc/self/cgroup"); err == nil {
		memory = limitOfGroups(os.DirFS("/sys/fs/cgroup"), string(groups), memory)
	}
	return min(maxSlack, memory/share)
}

// limitOfGroups returns the smallest limit of the control groups of a process and of their
// parent groups, or otherwise if that is less. root is where they are mounted; groups is the
// text of /proc/self/cgroup (cgroups(7)). systemd sets the limit of a unit in the unit's own
// group. In a container, the paths may be the host's; then only the root exists, which is
// the container's group.
func limitOfGroups(root fs.FS, groups string, otherwise uint64) uint64 {
	limit := otherwise
	for line := range strings.Lines(groups) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) != 3 {
			continue
		}
		var mounts []string // below root
		file := "memory.max"
		switch controllers := strings.Split(fields[1], ","); {
		case fields[1] == "": // version 2, alone or beside version 1
			mounts = []string{".", "unified"}
		case slices.Contains(controllers, "memory"):
			mounts, file = []string{"memory"}, "memory.limit_in_bytes"
		}
		for _, mount := range mounts {
			for group := path.Join("/", fields[2]); ; group = path.Dir(group) {
				if data, err := fs.ReadFile(root, path.Join(mount, group, file)); err == nil {
					limit = min(limit, groupMemory(string(data), limit))
				}
				if group == "/" {
					break
				}
			}
		}
	}
	return limit
}

// totalMemory reads proc_meminfo(5). It returns otherwise if that fails.
func totalMemory(meminfo string, otherwise uint64) uint64 {
	var kilobytes uint64
	if _, err := fmt.Sscanf(meminfo, "MemTotal: %d kB", &kilobytes); err != nil {
		return otherwise
	}
	return kilobytes << 10
}

// groupMemory reads a limit in bytes, which can be "max".
func groupMemory(limit string, otherwise uint64) uint64 {
	bytes, err := strconv.ParseUint(strings.TrimSpace(limit), 10, 64)
	if err != nil {
		return otherwise
	}
	return bytes
}
