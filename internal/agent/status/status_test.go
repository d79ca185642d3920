package status

import (
	"bytes"
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
	board := NewBoard(path, "n")
	if _, err := Read(path); err == nil || !strings.Contains(err.Error(), "has an agent run") {
		t.Errorf("before there is a status: %v", err)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(board.Put(pod("web", Source{Kind: "podCertificate"})))
	must(board.Put(pod("db")))
	must(board.Put(pod("web", Source{Kind: "podCertificate", Ready: true})))
	must(board.Manifests(errors.New("bad.yaml: no")))
	want := Host{Node: "n", Manifests: "bad.yaml: no", Pods: []Pod{pod("db"), pod("web", Source{Kind: "podCertificate", Ready: true})}}
	got, err := Read(path)
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("status: %v (-want +got):\n%s", err, diff)
	}
	info, err := os.Stat(path)
	must(err)
	must(board.Put(pod("db"))) // no news
	must(board.Manifests(errors.New("bad.yaml: no")))
	if again, err := os.Stat(path); err != nil || !os.SameFile(info, again) {
		t.Error("the file is written without news")
	}
	must(board.Remove("shop", "web"))
	must(board.Manifests(nil))
	if diff := cmp.Diff(Host{Node: "n", Pods: []Pod{pod("db")}}, board.Host()); diff != "" {
		t.Errorf("after a pod has gone (-want +got):\n%s", diff)
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

func TestPrint(t *testing.T) {
	soon, past := now.Add(90*time.Minute), now.Add(-2*time.Hour)
	host := Host{Manifests: "bad.yaml: no", Pods: []Pod{
		{Namespace: "shop", Name: "web", Error: "server away", Volumes: []Volume{{Name: "tls", Error: "disk full", Sources: []Source{
			{Kind: "podCertificate", Name: "example.com/s", Ready: true, State: "expired", NotAfter: &past, RefreshAt: &soon, Error: "Denied: No:\nnot you"},
			{Kind: "clusterTrustBundle", Name: "roots", Ready: true},
			{Kind: "configMap", Name: "x"},
		}}}},
	}}
	var out bytes.Buffer
	if err := Print(&out, host, now); err != nil {
		t.Fatal(err)
	}
	want := `NAMESPACE   POD   VOLUME   SOURCE                         STATE     EXPIRES    REFRESH   LAST ERROR
shop        web   tls      podCertificate example.com/s   expired   120m ago   in 90m    Denied: No: not you
shop        web   tls      clusterTrustBundle roots       ready     -          -         -
shop        web   tls      configMap x                    missing   -          -         -

manifests: bad.yaml: no

shop/web: server away

shop/web: volume tls: disk full
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("printed (-want +got):\n%s", diff)
	}
}
