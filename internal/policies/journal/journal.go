// Package journal writes the decision log of certificate policies.
package journal

import (
	"encoding/json"
	"fmt"
	"io"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/klog/v2"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/certpolicy"
	"github.com/certplane/certplane/internal/policy/decisionlog"
	"github.com/certplane/certplane/internal/process/collector"
	"github.com/certplane/certplane/internal/process/logfile"
)

// Config is what a log needs.
type Config struct {
	Settings Settings
	// Metrics, if not nil, gets the number of lines.
	Metrics prometheus.Registerer
}

// Journal is a log that is open. Nil is no log. It is safe for concurrent use.
type Journal struct {
	settings Settings
	out      io.WriteCloser
	lines    chan []byte
	counted  *prometheus.CounterVec
	ended    chan struct{}

	mu     sync.RWMutex // guards closed
	closed bool         // no more lines can be added
}

// maxWaiting is how many lines wait to be written. Further lines are lost: no
// decision waits for a disk.
const maxWaiting = 1024

// What became of lines.
const (
	resultWritten = "written"
	resultDropped = "dropped"
	resultFailed  = "failed"
)

// Open opens the log. It returns nil if the settings name no file.
func Open(cfg Config) (*Journal, error) {
	if cfg.Settings.Path == "" {
		return nil, nil
	}
	out, err := logfile.Open(logfile.Config{Path: cfg.Settings.Path, MaxSize: cfg.Settings.MaxSize, MaxBackups: cfg.Settings.MaxBackups})
	if err != nil {
		return nil, fmt.Errorf("opening policy.decisionLog.path: %w", err)
	}
	return open(cfg, out)
}

func open(cfg Config, out io.WriteCloser) (*Journal, error) {
	j := &Journal{
		settings: cfg.Settings, out: out, lines: make(chan []byte, maxWaiting), ended: make(chan struct{}),
		counted: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "certplane", Subsystem: "policy", Name: "decision_log_lines_total",
			Help: "Number of lines for the decision log, by result: written, dropped because too many waited to be written, or failed.",
		}, []string{"result"}),
	}
	if err := collector.Share(cfg.Metrics, &j.counted); err != nil {
		return nil, fmt.Errorf("registering the metrics of the decision log: %w", err)
	}
	for _, result := range []string{resultWritten, resultDropped, resultFailed} {
		j.counted.WithLabelValues(result)
	}
	go j.write()
	return j, nil
}

// Add adds a decision about in. It does not wait until the line is written, and
// drops the line if too many wait.
func (j *Journal) Add(d *v1alpha1.PolicyDecision, in *certpolicy.Input) {
	if j == nil {
		return
	}
	// What the decision is about may be modified as soon as Add has returned.
	line, err := j.line(d, in)
	if err != nil {
		klog.Background().Error(err, "Cannot encode a decision for the decision log", "kind", d.Request.Kind, "uid", d.Request.UID)
		j.counted.WithLabelValues(resultFailed).Inc()
		return
	}
	j.mu.RLock()
	defer j.mu.RUnlock()
	if j.closed {
		j.counted.WithLabelValues(resultDropped).Inc()
		return
	}
	select {
	case j.lines <- line:
	default:
		j.counted.WithLabelValues(resultDropped).Inc()
	}
}

func (j *Journal) line(d *v1alpha1.PolicyDecision, in *certpolicy.Input) ([]byte, error) {
	if j.settings.Names == NamesHashed {
		return encode(decisionlog.Hashed(d))
	}
	object, err := decisionlog.Object(&in.Request)
	if err != nil {
		return nil, err
	}
	return encode(decisionlog.Line(d, in, object, j.settings.Facts == FactsFull))
}

func encode(line *v1alpha1.LoggedDecision) ([]byte, error) {
	data, err := json.Marshal(line)
	return append(data, '\n'), err
}

// write writes lines until no more can be added. Of a row of failures, the first
// one is logged.
func (j *Journal) write() {
	defer close(j.ended)
	failing := false
	for line := range j.lines {
		_, err := j.out.Write(line)
		if err != nil {
			if !failing {
				klog.Background().Error(err, "Cannot write the decision log; decisions are not affected", "path", j.settings.Path)
			}
			j.counted.WithLabelValues(resultFailed).Inc()
		} else {
			j.counted.WithLabelValues(resultWritten).Inc()
		}
		failing = err != nil
	}
}

// Close writes what was added, and closes the file. What is added later is
// dropped.
func (j *Journal) Close() {
	if j == nil {
		return
	}
	j.mu.Lock()
	first := !j.closed
	j.closed = true
	if first {
		close(j.lines)
	}
	j.mu.Unlock()
	<-j.ended
	if !first {
		return
	}
	if err := j.out.Close(); err != nil {
		klog.Background().Error(err, "Cannot close the decision log", "path", j.settings.Path)
	}
}
