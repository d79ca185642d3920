package status

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/certplane/certplane/internal/process/atomicfile"
)

// Board is the status of a running agent. It is safe for concurrent use.
type Board struct {
	path string

	mu        sync.Mutex
	host      Host
	written   bool  // the file has host
	unwritten error // why it does not
}

// NewBoard returns a board of a host whose status is also kept in a file.
// Nothing is written yet.
func NewBoard(path string, host Host) *Board { return &Board{path: path, host: host} }

// Put replaces the status of a pod.
func (b *Board) Put(pod Pod) {
	b.change(func(host *Host) {
		host.Pods = withoutPod(host.Pods, pod.Namespace, pod.Name)
		host.Pods = append(host.Pods, pod)
		slices.SortFunc(host.Pods, func(x, y Pod) int {
			return strings.Compare(x.Namespace+"/"+x.Name, y.Namespace+"/"+y.Name)
		})
	})
}

// Remove removes the status of a pod.
func (b *Board) Remove(namespace, name string) {
	b.change(func(host *Host) { host.Pods = withoutPod(host.Pods, namespace, name) })
}

// Manifests sets the error of the manifests; nil is none.
func (b *Board) Manifests(err error) {
	b.change(func(host *Host) {
		host.Manifests = ""
		if err != nil {
			host.Manifests = err.Error()
		}
	})
}

// Begin records that an agent starts. The status of an earlier agent's pods
// stays until this agent has started.
func (b *Board) Begin(node string, once bool) {
	b.change(func(host *Host) {
		server := Server{LastContact: host.Server.LastContact}
		*host = Host{Node: node, Once: once, Start: Starting, Server: server, Identity: host.Identity, Pods: host.Pods}
	})
}

// Start sets why the agent cannot start, or what its start waits for.
func (b *Board) Start(problem string) {
	b.change(func(host *Host) { host.Start = problem })
}

// Started records that the agent works. Its pods are not known yet.
func (b *Board) Started() {
	b.change(func(host *Host) { host.Start, host.Pods = "", nil })
}

// Observe sets the state of the server and the host's identity there.
func (b *Board) Observe(server Server, identity Identity, registration string) {
	b.change(func(host *Host) { host.Server, host.Identity, host.Registration = server, identity, registration })
}

// Host returns the whole status.
func (b *Board) Host() Host {
	b.mu.Lock()
	defer b.mu.Unlock()
	host := b.host
	host.Pods = slices.Clone(host.Pods)
	return host
}

func withoutPod(pods []Pod, namespace, name string) []Pod {
	return slices.DeleteFunc(slices.Clone(pods), func(p Pod) bool { return p.Namespace == namespace && p.Name == name })
}

// change writes the file if the status has changed, or could not be written before. Another
// answer of the server counts as a change once a minute.
func (b *Board) change(edit func(*Host)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	next := b.host
	edit(&next)
	same := reflect.DeepEqual(rounded(next), rounded(b.host))
	b.host = next
	if b.written && same {
		return
	}
	data, err := json.MarshalIndent(rounded(next), "", "  ")
	if err == nil {
		err = atomicfile.Write(b.path, append(data, '\n'), 0o644)
	}
	b.written, b.unwritten = err == nil, err
}

// Unwritten returns why the file does not have the status; nil if it does. Each change
// tries again.
func (b *Board) Unwritten() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.unwritten
}

func rounded(host Host) Host {
	if t := host.Server.LastContact; t != nil {
		minute := t.Truncate(time.Minute)
		host.Server.LastContact = &minute
	}
	return host
}
