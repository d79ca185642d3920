// Package status reports the state of a host's volumes to people.
package status

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Host is the whole status of a host. It holds no secrets.
type Host struct {
	Node string `json:"node"`
	// Once reports that the agent ends when all files exist.
	Once bool `json:"once,omitempty"`
	// Start is why the agent could not start, or what its start waits for.
	Start string `json:"start,omitempty"`
	// Server is where the API is, and whether it answers.
	Server Server `json:"server"`
	// Identity is the certificate that the agent authenticates with.
	Identity Identity `json:"identity"`
	// Registration is why this host is not registered as a node.
	Registration string `json:"registration,omitempty"`
	// Manifests is the problem of the folder of manifests.
	Manifests string `json:"manifests,omitempty"`
	Pods      []Pod  `json:"pods"`
}

// Server is the outcome of the last calls to the API.
type Server struct {
	URL string `json:"url,omitempty"`
	// LastContact is when the server last answered, to the minute.
	LastContact *time.Time `json:"lastContact,omitempty"`
	// Error is why the last call failed, Since when the failures began.
	Error string     `json:"error,omitempty"`
	Since *time.Time `json:"since,omitempty"`
}

// Identity is the host's own certificate.
type Identity struct {
	User     string     `json:"user,omitempty"`
	NotAfter *time.Time `json:"notAfter,omitempty"`
}

// Pod is the status of a manifest.
type Pod struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	File      string `json:"file"`
	// Error is why the pod is not registered.
	Error string `json:"error,omitempty"`
	// Waiting reports that Error is expected to resolve itself.
	Waiting bool     `json:"waiting,omitempty"`
	Volumes []Volume `json:"volumes"`
}

// Volume is the status of a projected volume.
type Volume struct {
	Name string `json:"name"`
	Dir  string `json:"dir"`
	// Error is why the folder is not up to date.
	Error   string   `json:"error,omitempty"`
	Sources []Source `json:"sources"`
	// Actions are the failed actions after a refresh, which are tried again.
	Actions []Action `json:"actions,omitempty"`
}

// Action is an action that has to be run after a refresh.
type Action struct {
	Name    string    `json:"name"`
	Error   string    `json:"error"`
	RetryAt time.Time `json:"retryAt"`
}

// problems returns the problems of the volume, except those of its sources.
func (v Volume) problems() []string {
	var all []string
	if v.Error != "" {
		all = append(all, v.Error)
	}
	for _, action := range v.Actions {
		all = append(all, action.Error)
	}
	return all
}

// Source is the status of a source of a volume's files.
type Source struct {
	// Kind is the field in the manifest, Name what the field refers to.
	Kind string `json:"kind"`
	Name string `json:"name"`
	// Path is the path of the first file.
	Path string `json:"path,omitempty"`
	// Files are the paths of the files that were written.
	Files []string `json:"files,omitempty"`
	// Ready reports that the files exist, up to date or not.
	Ready bool `json:"ready"`
	// State is the state of a certificate.
	State     string     `json:"state,omitempty"`
	NotAfter  *time.Time `json:"notAfter,omitempty"`
	RefreshAt *time.Time `json:"refreshAt,omitempty"`
	// Lists are the revocation lists in the file.
	Lists []List `json:"lists,omitempty"`
	Error string `json:"error,omitempty"`
	// Waiting reports that Error is expected to resolve itself.
	Waiting bool `json:"waiting,omitempty"`
}

// List is a revocation list.
type List struct {
	// CA is the name of the CA.
	CA         string    `json:"ca"`
	Number     string    `json:"number"`
	ThisUpdate time.Time `json:"thisUpdate"`
	NextUpdate time.Time `json:"nextUpdate"`
}

// Lost returns the first file of the source that was written and does not exist any more;
// empty if there is none. A file in a folder that the user may not enter counts as existing.
func (v Volume) Lost(s Source) string {
	for _, name := range s.Files {
		path := filepath.Join(v.Dir, filepath.FromSlash(name))
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return path
		}
	}
	return ""
}

// AsOnDisk returns the status with the sources as missing whose files do not exist any more.
func (h Host) AsOnDisk() Host {
	h.Pods = slices.Clone(h.Pods)
	for i := range h.Pods {
		volumes := slices.Clone(h.Pods[i].Volumes)
		for j, v := range volumes {
			volumes[j].Sources = slices.Clone(v.Sources)
			for k, s := range v.Sources {
				if path := v.Lost(s); path != "" {
					s.Ready, s.State, s.Waiting, s.Error = false, "", false, path+" does not exist"
					volumes[j].Sources[k] = s
				}
			}
		}
		h.Pods[i].Volumes = volumes
	}
	return h
}

// Ready reports whether all files of the pod exist.
func (p Pod) Ready() bool { return p.Missing() == "" }

// Missing returns what is missing, and why; empty if nothing is.
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
		for _, problem := range v.problems() {
			if written {
				missing = append(missing, v.Name+": "+problem)
			}
		}
	}
	if p.Error != "" && (len(missing) > 0 || len(p.Volumes) == 0) {
		missing = append(missing, p.Error)
	}
	return strings.Join(missing, "; ")
}

// Read returns the status that an agent has written.
func Read(path string) (Host, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Host{}, fmt.Errorf("no status at %s: has an agent run with this folder?", path)
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
