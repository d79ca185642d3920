package journal

import (
	"bytes"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/certpolicy"
	"github.com/certplane/certplane/internal/policy/request"
)

// file is a file whose writes wait until it is let go. Only then it can be read.
type file struct {
	bytes.Buffer
	begun, let chan struct{}
	once       sync.Once
	err        error
	closed     bool
}

func newFile() *file { return &file{begun: make(chan struct{}), let: make(chan struct{})} }

func (f *file) Write(data []byte) (int, error) {
	f.once.Do(func() { close(f.begun) })
	<-f.let
	if f.err != nil {
		return 0, f.err
	}
	return f.Buffer.Write(data)
}

func (f *file) Close() error { f.closed = true; return nil }

func decision(t *testing.T, j *Journal) {
	t.Helper()
	csr := &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "1"}}
	in := &certpolicy.Input{Request: request.FromCSR(csr)}
	j.Add(&v1alpha1.PolicyDecision{Outcome: v1alpha1.OutcomeDeny, Request: v1alpha1.DecidedRequest{Kind: in.Request.Kind, Name: "web"}}, in)
}

func start(t *testing.T, f *file) (*Journal, *prometheus.Registry) {
	t.Helper()
	registry := prometheus.NewRegistry()
	settings := DefaultSettings()
	settings.Path = "decisions.log"
	j, err := open(Config{Settings: settings, Metrics: registry}, f)
	if err != nil {
		t.Fatal(err)
	}
	return j, registry
}

func wantCounts(t *testing.T, registry *prometheus.Registry, dropped, failed, written string) {
	t.Helper()
	want := `# HELP certplane_policy_decision_log_lines_total Number of lines for the decision log, by result: written, dropped because too many waited to be written, or failed.
# TYPE certplane_policy_decision_log_lines_total counter
certplane_policy_decision_log_lines_total{result="dropped"} ` + dropped + `
certplane_policy_decision_log_lines_total{result="failed"} ` + failed + `
certplane_policy_decision_log_lines_total{result="written"} ` + written + "\n"
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}

// A disk that does not answer holds up no decision.
func TestFull(t *testing.T) {
	f := newFile()
	j, registry := start(t, f)
	decision(t, j)
	<-f.begun // the first line is being written: it does not wait any more
	for range maxWaiting + 3 {
		decision(t, j)
	}
	close(f.let)
	j.Close()
	decision(t, j)
	j.Close()
	wantCounts(t, registry, "4", "0", "1025")
	if n := strings.Count(f.String(), "\n"); n != maxWaiting+1 || !f.closed {
		t.Errorf("%d lines are written, closed: %t", n, f.closed)
	}
}

func TestFailingFile(t *testing.T) {
	f := newFile()
	f.err = errors.New("no space left on device")
	close(f.let)
	j, registry := start(t, f)
	decision(t, j)
	decision(t, j)
	j.Close()
	wantCounts(t, registry, "0", "2", "0")
}

func TestOff(t *testing.T) {
	j, err := Open(Config{Settings: DefaultSettings()})
	if j != nil || err != nil {
		t.Fatalf("got %v, %v", j, err)
	}
	decision(t, j)
	j.Close()
}

func TestSettings(t *testing.T) {
	for reason, tt := range map[string]struct {
		change func(*Settings)
		want   string
	}{
		"the defaults":     {func(*Settings) {}, ""},
		"negative size":    {func(s *Settings) { s.MaxSize = -1 }, "policy.decisionLog.maxSize: -1 must not be negative"},
		"negative backups": {func(s *Settings) { s.MaxBackups = -1 }, "policy.decisionLog.maxBackups: -1 must not be negative"},
		"unknown facts":    {func(s *Settings) { s.Facts = "Some" }, `policy.decisionLog.facts: "Some" must be Full or None`},
		"unknown names":    {func(s *Settings) { s.Names = "None" }, `policy.decisionLog.names: "None" must be Full or Hashed`},
	} {
		settings, got := DefaultSettings(), ""
		tt.change(&settings)
		if err := settings.Validate(); err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%s: got %q, want %q", reason, got, tt.want)
		}
	}
}
