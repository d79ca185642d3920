package status

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var now = time.Date(2030, 5, 17, 12, 0, 0, 0, time.UTC)

func pod(name string, sources ...Source) Pod {
	return Pod{Namespace: "shop", Name: name, Volumes: []Volume{{Name: "tls", Dir: "/v", Sources: sources}}}
}

func TestBoard(t *testing.T) {
	path := filepath.Join(t.TempDir(), "status.json")
	board := NewBoard(path, Host{Node: "n"})
	if _, err := Read(path); err == nil || !strings.Contains(err.Error(), "has an agent run") {
		t.Errorf("before there is a status: %v", err)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	board.Put(pod("web", Source{Kind: "podCertificate"}))
	must(board.Unwritten())
	board.Put(pod("db"))
	must(board.Unwritten())
	board.Put(pod("web", Source{Kind: "podCertificate", Ready: true}))
	must(board.Unwritten())
	board.Manifests(errors.New("bad.yaml: no"))
	must(board.Unwritten())
	want := Host{Node: "n", Manifests: "bad.yaml: no", Pods: []Pod{pod("db"), pod("web", Source{Kind: "podCertificate", Ready: true})}}
	got, err := Read(path)
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("status: %v (-want +got):\n%s", err, diff)
	}
	info, err := os.Stat(path)
	must(err)
	board.Put(pod("db")) // no change
	must(board.Unwritten())
	board.Manifests(errors.New("bad.yaml: no"))
	must(board.Unwritten())
	if again, err := os.Stat(path); err != nil || !os.SameFile(info, again) {
		t.Error("the file is written without news")
	}
	board.Remove("shop", "web")
	must(board.Unwritten())
	board.Manifests(nil)
	must(board.Unwritten())
	if diff := cmp.Diff(Host{Node: "n", Pods: []Pod{pod("db")}}, board.Host()); diff != "" {
		t.Errorf("after a pod has gone (-want +got):\n%s", diff)
	}
}

// A status that cannot be written is kept, and written when that is possible.
func TestUnwritten(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "later")
	board := NewBoard(filepath.Join(dir, "status.json"), Host{Node: "n"})
	board.Put(pod("web"))
	if err := board.Unwritten(); err == nil || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without a folder: %v", err)
	}
	if len(board.Host().Pods) != 1 {
		t.Error("what was not written is forgotten")
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	board.Put(pod("web"))
	if got, err := Read(filepath.Join(dir, "status.json")); err != nil || len(got.Pods) != 1 || board.Unwritten() != nil {
		t.Errorf("with a folder: %+v, %v, %v", got, err, board.Unwritten())
	}
}

func TestMissing(t *testing.T) {
	tests := []struct {
		reason string
		pod    Pod
		want   string
	}{
		{"all there", pod("web", Source{Ready: true}), ""},
		{"there, though the refresh fails", Pod{Error: "server away", Volumes: []Volume{{Sources: []Source{{Ready: true, Error: "denied"}}}}}, ""},
		{"not there", pod("web", Source{Kind: "podCertificate", Name: "s", Error: "not issued yet"}), "tls: podCertificate s: not issued yet"},
		{"not registered", Pod{Error: "forbidden"}, "forbidden"},
		{"not written", Pod{Volumes: []Volume{{Name: "tls", Error: "disk full", Sources: []Source{{Ready: true}}}}}, "tls: disk full"},
	}
	for _, tt := range tests {
		if got := tt.pod.Missing(); got != tt.want || tt.pod.Ready() != (tt.want == "") {
			t.Errorf("%s: missing %q, want %q", tt.reason, got, tt.want)
		}
	}
}

// A start that fails keeps the status of an earlier agent; a start that
// succeeds begins with an empty status.
func TestStart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "status.json")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	read := func() Host {
		t.Helper()
		host, err := Read(path)
		must(err)
		return host
	}
	earlier := Host{Node: "n", Server: Server{LastContact: &now}, Pods: []Pod{pod("web")}}
	board := NewBoard(path, earlier)
	board.Begin("n", false)
	must(board.Unwritten())
	board.Start("no identity")
	must(board.Unwritten())
	earlier.Start = "no identity"
	if diff := cmp.Diff(earlier, read()); diff != "" {
		t.Errorf("after a failure (-want +got):\n%s", diff)
	}
	board.Started()
	must(board.Unwritten())
	if diff := cmp.Diff(Host{Node: "n", Server: Server{LastContact: &now}}, read()); diff != "" {
		t.Errorf("after the start (-want +got):\n%s", diff)
	}
	soon, later := now.Add(59*time.Second), now.Add(time.Minute)
	board.Observe(Server{URL: "u", LastContact: &now}, Identity{}, "")
	must(board.Unwritten())
	info, err := os.Stat(path)
	must(err)
	board.Observe(Server{URL: "u", LastContact: &soon}, Identity{}, "")
	must(board.Unwritten())
	if again, err := os.Stat(path); err != nil || !os.SameFile(info, again) || !board.Host().Server.LastContact.Equal(soon) {
		t.Error("the file is written for each answer of the server")
	}
	board.Observe(Server{URL: "u", LastContact: &later}, Identity{}, "")
	must(board.Unwritten())
	if got := read().Server.LastContact; !got.Equal(later) {
		t.Errorf("the last contact is %s, want %s", got, later)
	}
}

func TestReport(t *testing.T) {
	soon, past := now.Add(90*time.Minute), now.Add(-2*time.Hour)
	no := false
	host := Host{
		Node: "edge-1", Server: Server{URL: "https://s:6443", LastContact: &past, Error: "connection refused", Since: &past},
		Identity: Identity{User: "system:node:edge-1", NotAfter: &past}, Registration: "away too",
		Manifests: "bad.yaml: no", Pods: []Pod{
			{Namespace: "shop", Name: "web", Error: "not known", Volumes: []Volume{{
				Name: "tls", Error: "disk full",
				Sources: []Source{
					{Kind: "podCertificate", Name: "example.com/s", Ready: true, State: "expired", NotAfter: &past, RefreshAt: &soon, Error: "Denied: No:\nnot you"},
					{Kind: "clusterTrustBundle", Name: "roots", Ready: true},
					{Kind: "configMap", Name: "x"},
				},
				Actions: []Action{{Name: "reload", Error: "after the refresh: killed"}},
			}}},
		},
	}
	report := NewReport(host, &no, now)
	want := `Node:       edge-1
Server:     https://s:6443, does not answer, last contact 120m ago
Identity:   system:node:edge-1, certificate expires 120m ago

NAMESPACE   POD   VOLUME   SOURCE                         STATE     EXPIRES    REFRESH   LAST ERROR
shop        web   tls      podCertificate example.com/s   expired   120m ago   in 90m    Denied: No: not you
shop        web   tls      clusterTrustBundle roots       ready     -          -         -
shop        web   tls      configMap x                    missing   -          -         -

the agent is not running: this is its last report

server https://s:6443: connection refused

identity: the certificate of system:node:edge-1 expired at 2030-05-17T10:00:00Z: give the agent a new token with --bootstrap-kubeconfig ('certplane token create' prints one)

manifests: bad.yaml: no

shop/web: not known

shop/web: volume tls: disk full

shop/web: volume tls: after the refresh: killed
`
	if diff := cmp.Diff(want, report.Text(now)); diff != "" {
		t.Errorf("printed (-want +got):\n%s", diff)
	}
	for _, tt := range []struct {
		reason  string
		host    Host
		running bool
		want    int
	}{
		{"all is well", Host{Server: Server{LastContact: &now}, Identity: Identity{NotAfter: &soon}, Pods: []Pod{pod("web", Source{Ready: true, NotAfter: &soon})}}, true, 0},
		{"an agent that was to end", Host{Once: true}, false, 0},
		{"an agent that was to stay", Host{}, false, 1},
		{"a start that failed", Host{Once: true, Start: "no"}, false, 1},
		{"a source that waits", Host{Pods: []Pod{pod("web", Source{Error: "not issued yet", Waiting: true})}}, true, 1},
		{"a source that is missing, and why and that it is over", Host{Pods: []Pod{pod("web", Source{Error: "no", NotAfter: &past})}}, true, 2},
		{"all at once", host, false, 9},
	} {
		if got := NewReport(tt.host, &tt.running, now).Problems; len(got) != tt.want {
			t.Errorf("%s: %q, want %d", tt.reason, got, tt.want)
		}
	}
}
