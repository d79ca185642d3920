package agent_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/certplane/certplane/internal/agent/hook"
	"github.com/certplane/certplane/internal/agent/status"
	"github.com/certplane/certplane/internal/apitest"
)

// waits waits until the status says what the agent waits for before it starts.
func (h *host) waits(what string) {
	h.t.Helper()
	h.passing(0, "the status says: "+what, func() bool {
		told, err := status.Read(h.cfg.StatusFile())
		return err == nil && strings.Contains(told.Start, what)
	})
	h.passing(0, "the log says: "+what, func() bool { return h.logs.count(what) > 0 })
}

// An agent without a token that the server knows goes on to look for one.
func TestWaitsForToken(t *testing.T) {
	h := newHost(t, apitest.Start(t))
	h.web("serviceAccountToken: {path: token}")
	h.bootstrapped()
	file := h.cfg.BootstrapKubeconfig
	for _, secret := range h.secrets() {
		if err := h.admin.CoreV1().Secrets("kube-system").Delete(t.Context(), secret, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	apitest.Eventually(t, "the token is not known any more", func() bool {
		err := h.once(2 * time.Second)
		return err != nil && strings.Contains(err.Error(), "the server does not know the token")
	})
	h.run()
	h.waits("the server does not know the token in " + file)
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	h.waits("the file " + file + " does not exist")
	if err := os.WriteFile(file, []byte("clusters: [half"), 0o600); err != nil {
		t.Fatal(err)
	}
	h.waits("reading the bootstrap kubeconfig " + file)
	h.bootstrapped()
	if err := os.Rename(h.cfg.BootstrapKubeconfig, file); err != nil {
		t.Fatal(err)
	}
	h.eventually("the file is there", func() bool { return h.file("token") != "" })
}

// A host that could not reach the server at its first start takes the address of a new
// bootstrap kubeconfig.
func TestWaitsForServer(t *testing.T) {
	h := newHost(t, apitest.Start(t))
	h.web("serviceAccountToken: {path: token}")
	h.bootstrapped()
	right, err := os.ReadFile(h.cfg.BootstrapKubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	wrong, err := clientcmd.Load(right)
	if err != nil {
		t.Fatal(err)
	}
	for _, cluster := range wrong.Clusters {
		cluster.Server = "https://" + apitest.FreeAddress(t)
	}
	if err := clientcmd.WriteToFile(*wrong, h.cfg.BootstrapKubeconfig); err != nil {
		t.Fatal(err)
	}
	h.run()
	h.waits("connection refused")
	if err := os.WriteFile(h.cfg.BootstrapKubeconfig, right, 0o600); err != nil {
		t.Fatal(err)
	}
	h.eventually("the file is there", func() bool { return h.file("token") != "" })
}

// By a wrong clock the host's certificate has expired. The agent goes on when the clock is
// right again.
func TestWaitsForClock(t *testing.T) {
	h := newHost(t, apitest.Start(t))
	h.bootstrapped()
	if err := h.once(time.Minute); err != nil {
		t.Fatal(err)
	}
	h.cfg.BootstrapKubeconfig = ""
	h.web("serviceAccountToken: {path: token}")
	now := h.clock.Now()
	h.clock.SetTime(now.AddDate(20, 0, 0))
	h.run()
	h.waits("the certificate of this host expired at ")
	h.clock.SetTime(now)
	h.eventually("the file is there", func() bool { return h.file("token") != "" })
}

// disk is a small file system at dir, in memory.
type disk struct{ dir string }

func newDisk(t *testing.T) disk {
	t.Helper()
	d := disk{t.TempDir()}
	if err := syscall.Mount("tmpfs", d.dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("this user may not mount a file system: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(d.dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return d
}

func (d disk) filler() string { return filepath.Join(d.dir, "filler") }

// fill leaves no space, and no number for another file.
func (d disk) fill(t *testing.T) {
	t.Helper()
	if err := syscall.Mount("tmpfs", d.dir, "tmpfs", syscall.MS_REMOUNT, "size=1m,nr_inodes=32"); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(d.filler(), 0o700); err != nil {
		t.Fatal(err)
	}
	_ = os.WriteFile(filepath.Join(d.filler(), "big"), bytes.Repeat([]byte("x"), 1<<20), 0o600) // fails in the end
	for i := range 64 {
		_ = os.WriteFile(filepath.Join(d.filler(), string(rune('A'+i))), nil, 0o600)
	}
}

// A full disk ends no agent, neither at its start nor later, and does not fill the log.
func TestFullDisk(t *testing.T) {
	h := newHost(t, common.Start(t))
	d := newDisk(t)
	h.cfg.DataDir, h.cfg.VolumesDir = filepath.Join(d.dir, "data"), filepath.Join(d.dir, "volumes")
	h.web(certificate)
	ca := newSigner(t)
	d.fill(t)
	h.run()
	h.passing(0, "the log says what it waits for", func() bool { return h.logs.count("Waiting for space on the disk") > 0 })
	if err := os.RemoveAll(d.filler()); err != nil {
		t.Fatal(err)
	}
	first := h.request()
	chain := ca.issue(h, first)
	h.eventually("the certificate is there", func() bool { return h.file("chain.pem") == chain })

	d.fill(t)
	h.clock.Step(23*time.Hour + 36*time.Minute)
	// The agent's own certificate has ended, too, which stays a problem.
	full := func(what string) int { return h.logs.lines(`"Problem `+what+`"`, "no space left on device") }
	h.eventually("the full disk is in the log", func() bool { return full("found") > 0 })
	h.eventually("the pod is not ready", func() bool {
		for _, c := range h.pod().Status.Conditions {
			if c.Type == "Ready" {
				return c.Status == "False" && strings.Contains(c.Message, "no space left on device")
			}
		}
		return false
	})
	before, looks := full("found"), 0
	h.eventually("two minutes go by", func() bool { looks++; return looks > 120 })
	if n := full("found") - before; n > 3 {
		t.Errorf("%d problems are logged in two minutes of the same full disk", n)
	}
	if err := os.RemoveAll(d.filler()); err != nil {
		t.Fatal(err)
	}
	chain = ca.issue(h, h.request(first.Name))
	h.eventually("the new certificate is there", func() bool { return h.file("chain.pem") == chain })
	h.eventually("the log says that there is space", func() bool { return full("found") == full("resolved") })
}

// Files that somebody deletes are back in no time of the agent's clock, and programs are told.
func TestDeletedFiles(t *testing.T) {
	h := newHost(t, common.Start(t))
	ran := filepath.Join(t.TempDir(), "ran")
	h.cfg.AfterRefresh = []hook.Action{{Pod: h.namespace + "/web", Program: hook.Program{Command: []string{"/bin/sh", "-c", `echo ran >>"$0"`, ran}}}}
	h.web(certificate)
	h.run()
	chain := newSigner(t).issue(h, h.request())
	runs := func() int { data, _ := os.ReadFile(ran); return strings.Count(string(data), "ran") }
	h.eventually("the certificate is there", func() bool { return h.file("chain.pem") == chain && runs() == 1 })
	h.eventually("it is reported", func() bool { return h.source(0).State == "fresh" })
	for i, name := range []string{"chain.pem", "..data/key.pem", "..data"} {
		if err := os.Remove(h.path(name)); err != nil {
			t.Fatal(err)
		}
		h.passing(0, name+" is there again, and the program is told", func() bool {
			return h.file("chain.pem") == chain && h.file("key.pem") != "" && runs() == i+2
		})
	}
	// Only a look at all contents finds this.
	if err := os.WriteFile(h.path("chain.pem"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	h.passing(time.Second, "a changed file is restored, and the program is told", func() bool { return h.file("chain.pem") == chain && runs() == 5 })
	h.stop()
	if err := os.Remove(h.path("chain.pem")); err != nil {
		t.Fatal(err)
	}
	told, err := status.Read(h.cfg.StatusFile())
	if err != nil {
		t.Fatal(err)
	}
	report := status.NewReport(told.AsOnDisk(), nil, h.clock.Now())
	if want := h.path("chain.pem") + " does not exist"; len(report.Problems) != 1 || !strings.Contains(report.Problems[0], want) ||
		!strings.Contains(report.Text(h.clock.Now()), "missing") {
		t.Errorf("problems %q, want one: %s; and the report:\n%s", report.Problems, want, report.Text(h.clock.Now()))
	}
}
