package audit

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/server/options"
	auditlog "k8s.io/apiserver/plugin/pkg/audit/log"
	auditwebhook "k8s.io/apiserver/plugin/pkg/audit/webhook"
)

// Config is the stanza "audit".
type Config struct {
	// policyFile is a file with a Policy of audit.k8s.io/v1, which selects what
	// is recorded for which requests. It is read at start; unknown fields in it
	// are errors. Default: a built-in policy that records the user, the request
	// and the outcome, but no bodies, and omits health checks, lease renewals and
	// the server's own reads.
	PolicyFile string `json:"policyFile,omitempty"`
	// log writes the record into a file.
	Log LogConfig `json:"log"`
	// webhook sends the record to another program.
	Webhook WebhookConfig `json:"webhook"`
}

// LogConfig is the stanza "audit.log".
type LogConfig struct {
	// path is the file to append to, one event a line; "-" is standard output.
	// Only its owner can read a file that the server creates. Default: none, no
	// log. Flag: --audit-log-path.
	Path string `json:"path,omitempty"`
	// format is json (an Event of audit.k8s.io/v1) or legacy (a line of text).
	// Default: json.
	Format string `json:"format,omitempty"`
	// mode is when an event is written: blocking (before the request ends),
	// blocking-strict (the same, and a request that cannot be recorded at its
	// beginning fails) or batch (soon after; a kill loses the last events).
	// Default: blocking.
	Mode string `json:"mode,omitempty"`
	// maxSize is how large the file may grow, in megabytes, before it is
	// renamed and a new one is started. 0 never renames it. Default: 100.
	MaxSize int `json:"maxSize"`
	// maxBackups is how many renamed files are kept. 0 keeps all. Default: 100.
	MaxBackups int `json:"maxBackups"`
	// maxAge is how many days a renamed file is kept. 0 keeps it forever.
	// Default: 366.
	MaxAge int `json:"maxAge"`
	// compress packs renamed files with gzip. Default: false.
	Compress bool `json:"compress,omitempty"`
}

// WebhookConfig is the stanza "audit.webhook".
type WebhookConfig struct {
	// kubeconfig is a file in kubeconfig format with the destination of events
	// and the credentials for it. Default: none, nothing is sent.
	Kubeconfig string `json:"kubeconfig,omitempty"`
	// mode is when events are sent: batch (several at a time, soon after),
	// blocking (before the request ends) or blocking-strict (the same, and a
	// request that cannot be recorded at its beginning fails). Default: batch.
	Mode string `json:"mode,omitempty"`
	// initialBackoff is the pause before an event that could not be sent is
	// sent again; it grows with each attempt. A duration such as 10s.
	// Default: 10s.
	InitialBackoff metav1.Duration `json:"initialBackoff"`
	// batch configures the mode batch.
	Batch BatchConfig `json:"batch"`
}

// BatchConfig is the stanza "audit.webhook.batch".
type BatchConfig struct {
	// bufferSize is how many events wait to be sent. Further events are lost,
	// and counted in the metric apiserver_audit_error_total. Default: 10000.
	BufferSize int `json:"bufferSize"`
	// maxSize is how many events are sent at a time. Default: 400.
	MaxSize int `json:"maxSize"`
	// maxWait is the maximum time until an incomplete batch is sent. Default:
	// 30s.
	MaxWait metav1.Duration `json:"maxWait"`
	// maxRate is how many batches are sent per second, on average. Default: 10.
	MaxRate int `json:"maxRate"`
}

// DefaultConfig records nothing; its values apply once a path or a kubeconfig
// is set.
func DefaultConfig() Config {
	return Config{
		Log: LogConfig{
			Format: auditlog.FormatJson, Mode: options.ModeBlocking,
			MaxSize: 100, MaxBackups: 100, MaxAge: 366,
		},
		Webhook: WebhookConfig{
			Mode:           options.ModeBatch,
			InitialBackoff: metav1.Duration{Duration: auditwebhook.DefaultInitialBackoffDelay},
			Batch: BatchConfig{
				BufferSize: 10000, MaxSize: 400, MaxWait: metav1.Duration{Duration: 30 * time.Second}, MaxRate: 10,
			},
		},
	}
}

// enabled reports whether anything is recorded.
func (c Config) enabled() bool { return c.Log.Path != "" || c.Webhook.Kubeconfig != "" }

// Validate returns an error with the field of the first value that cannot work.
func (c Config) Validate() error {
	if c.PolicyFile != "" && !c.enabled() {
		return fmt.Errorf("audit.policyFile: events have no destination; set audit.log.path or audit.webhook.kubeconfig")
	}
	if err := oneOf("audit.log.format", c.Log.Format, auditlog.AllowedFormats); err != nil {
		return err
	}
	if err := oneOf("audit.log.mode", c.Log.Mode, options.AllowedModes); err != nil {
		return err
	}
	if err := oneOf("audit.webhook.mode", c.Webhook.Mode, options.AllowedModes); err != nil {
		return err
	}
	return c.validateNumbers()
}

func (c Config) validateNumbers() error {
	batch := c.Webhook.Batch
	for _, number := range []struct {
		field      string
		value, min int
	}{
		{"audit.log.maxSize", c.Log.MaxSize, 0},
		{"audit.log.maxBackups", c.Log.MaxBackups, 0},
		{"audit.log.maxAge", c.Log.MaxAge, 0},
		{"audit.webhook.batch.bufferSize", batch.BufferSize, 1},
		{"audit.webhook.batch.maxSize", batch.MaxSize, 1},
		{"audit.webhook.batch.maxRate", batch.MaxRate, 1},
	} {
		if number.value < number.min {
			return fmt.Errorf("%s: %d must be at least %d", number.field, number.value, number.min)
		}
	}
	if batch.MaxWait.Duration <= 0 {
		return fmt.Errorf("audit.webhook.batch.maxWait: %s must be more than 0", batch.MaxWait.Duration)
	}
	if c.Webhook.InitialBackoff.Duration <= 0 {
		return fmt.Errorf("audit.webhook.initialBackoff: %s must be more than 0", c.Webhook.InitialBackoff.Duration)
	}
	return nil
}

func oneOf(field, value string, known []string) error {
	if !slices.Contains(known, value) {
		return fmt.Errorf("%s: unknown value %q; known: %s", field, value, strings.Join(known, ", "))
	}
	return nil
}
