// Package status tells people how the volumes of a host are.
package status

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/certplane/certplane/internal/atomicfile"
)

// Host is all that there is to tell. It holds no secrets.
type Host struct {
	Node string `json:"node"`
	// Manifests is what is wrong with the folder of manifests.
	Manifests string `json:"manifests,omitempty"`
	Pods      []Pod  `json:"pods"`
}

// Pod is a manifest.
type Pod struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	File      string `json:"file"`
	// Error is why the pod is not known to the server.
	Error   string   `json:"error,omitempty"`
	Volumes []Volume `json:"volumes"`
}

// Volume is a projected volume.
type Volume struct {
	Name string `json:"name"`
	Dir  string `json:"dir"`
	// Error is why the folder or the program behind it is not up to date.
	Error   string   `json:"error,omitempty"`
	Sources []Source `json:"sources"`
}

// Source is where files of a volume come from.
type Source struct {
	// Kind is the field of the manifest, Name what it asks for.
	Kind string `json:"kind"`
	Name string `json:"name"`
	// Path is that of the first file.
	Path string `json:"path,omitempty"`
	// Ready tells that the files are there, be they new or not.
	Ready bool `json:"ready"`
	// State is a certificate's.
	State     string     `json:"state,omitempty"`
	NotAfter  *time.Time `json:"notAfter,omitempty"`
	RefreshAt *time.Time `json:"refreshAt,omitempty"`
	Error     string     `json:"error,omitempty"`
}

// Ready tells whether all files of the pod are there.
func (p Pod) Ready() bool { return p.Missing() == "" }

// Missing says what is not there, and why; nothing if all is.
func (p Pod) Missing() string {
	var missing []string
	for _, v := range p.Volumes {
		written := true
		for _, s := range v.Sources {
			if !s.Ready {
				missing = append(missing, fmt.Sprintf("%s: %s %s: %s", v.Name, s.Kind, s.Name, s.Error))
			}
			written = written && s.Ready
		}
		if written && v.Error != "" {
			missing = append(missing, v.Name+": "+v.Error)
		}
	}
	if p.Error != "" && (len(missing) > 0 || len(p.Volumes) == 0) {
		missing = append(missing, p.Error)
	}
	return strings.Join(missing, "; ")
}

// Board is the status of a running agent. It is safe for concurrent use.
type Board struct {
	path string

	mu   sync.Mutex
	host Host
}

// NewBoard returns an empty board that is kept in a file, too.
func NewBoard(path, node string) *Board { return &Board{path: path, host: Host{Node: node}} }

// Put replaces what is told of a pod.
func (b *Board) Put(pod Pod) error {
	return b.change(func(host *Host) {
		host.Pods = without(host.Pods, pod.Namespace, pod.Name)
		host.Pods = append(host.Pods, pod)
		slices.SortFunc(host.Pods, func(x, y Pod) int {
			return strings.Compare(x.Namespace+"/"+x.Name, y.Namespace+"/"+y.Name)
		})
	})
}

// Remove forgets a pod.
func (b *Board) Remove(namespace, name string) error {
	return b.change(func(host *Host) { host.Pods = without(host.Pods, namespace, name) })
}

// Manifests tells what is wrong with the manifests; nil is nothing.
func (b *Board) Manifests(err error) error {
	return b.change(func(host *Host) {
		host.Manifests = ""
		if err != nil {
			host.Manifests = err.Error()
		}
	})
}

// Host returns all of it.
func (b *Board) Host() Host {
	b.mu.Lock()
	defer b.mu.Unlock()
	host := b.host
	host.Pods = slices.Clone(host.Pods)
	return host
}

func without(pods []Pod, namespace, name string) []Pod {
	return slices.DeleteFunc(slices.Clone(pods), func(p Pod) bool { return p.Namespace == namespace && p.Name == name })
}

// change writes the file if there is news.
func (b *Board) change(edit func(*Host)) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	next := b.host
	edit(&next)
	if reflect.DeepEqual(next, b.host) {
		return nil
	}
	data, err := json.MarshalIndent(next, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the status: %w", err)
	}
	if err := atomicfile.Write(b.path, append(data, '\n'), 0o644); err != nil {
		return fmt.Errorf("writing the status: %w", err)
	}
	b.host = next
	return nil
}

// Read returns what an agent has written.
func Read(path string) (Host, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Host{}, fmt.Errorf("there is no status at %s: has an agent run with this folder?", path)
	}
	if err != nil {
		return Host{}, fmt.Errorf("reading the status: %w", err)
	}
	var host Host
	if err := json.Unmarshal(data, &host); err != nil {
		return Host{}, fmt.Errorf("reading the status %s: %w", path, err)
	}
	return host, nil
}

// Print writes one line for each source, and what is wrong below.
func Print(out io.Writer, host Host, now time.Time) error {
	table := printers.GetNewTabWriter(out)
	fmt.Fprintln(table, "NAMESPACE\tPOD\tVOLUME\tSOURCE\tSTATE\tEXPIRES\tREFRESH\tLAST ERROR")
	for _, pod := range host.Pods {
		for _, v := range pod.Volumes {
			for _, s := range v.Sources {
				fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", pod.Namespace, pod.Name, v.Name,
					s.Kind+" "+s.Name, stateOf(s), in(s.NotAfter, now), in(s.RefreshAt, now), orNone(s.Error))
			}
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, problem := range problems(host) {
		fmt.Fprintln(out, "\n"+problem)
	}
	return nil
}

func problems(host Host) []string {
	var all []string
	if host.Manifests != "" {
		all = append(all, "manifests: "+host.Manifests)
	}
	for _, pod := range host.Pods {
		if pod.Error != "" {
			all = append(all, pod.Namespace+"/"+pod.Name+": "+pod.Error)
		}
		for _, v := range pod.Volumes {
			if v.Error != "" {
				all = append(all, pod.Namespace+"/"+pod.Name+": volume "+v.Name+": "+v.Error)
			}
		}
	}
	return all
}

func stateOf(s Source) string {
	switch {
	case s.State != "":
		return s.State
	case s.Ready:
		return "ready"
	}
	return "missing"
}

func in(t *time.Time, now time.Time) string {
	switch {
	case t == nil:
		return "-"
	case t.After(now):
		return "in " + duration.HumanDuration(t.Sub(now))
	}
	return duration.HumanDuration(now.Sub(*t)) + " ago"
}

func orNone(text string) string {
	if text == "" {
		return "-"
	}
	return strings.ReplaceAll(text, "\n", " ")
}
