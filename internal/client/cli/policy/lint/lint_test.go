package lint_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/certplane/certplane/internal/client/cli/policy/answer"
	"github.com/certplane/certplane/internal/client/cli/policy/lint"
)

var now = time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC)

const (
	policy    = "apiVersion: certplane.dev/v1alpha1\nkind: CertificatePolicy\nmetadata: {name: p}\nspec: {effect: Limit, match: {signers: [\"*\"]}}\n"
	exception = "---\napiVersion: certplane.dev/v1alpha1\nkind: CertificatePolicyException\nmetadata: {name: x}\nspec:\n  policies: [p]\n  items: [certificate.keys]\n  match: {signers: [\"*\"], namespaces: {names: [a]}}\n  reason: r\n  notAfter: %s\n"
)

func TestRun(t *testing.T) {
	tests := []struct {
		reason, text string
		want         string // of the output
		no           bool
		failed       string
	}{
		{reason: "all is well", text: policy, want: "1 policy and 0 exceptions: 0 errors, 0 warnings\n"},
		{reason: "other objects", text: policy + "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n", want: "0 warnings; 1 object of other kinds\n"},
		{reason: "an exception", text: policy + fmt.Sprintf(exception, "2027-01-01T00:00:00Z"), want: "1 policy and 1 exception: 0 errors, 0 warnings\n"},
		{reason: "an exception that has ended", text: policy + fmt.Sprintf(exception, "2026-11-22T09:00:00Z"), want: "p.yaml:14: warning: spec.notAfter: the exception has expired\n"},
		{reason: "an exception that ends too late", text: policy + fmt.Sprintf(exception, "2027-02-20T09:00:01Z"), no: true, want: "p.yaml:14: error: spec.notAfter: must be at most 90 days ahead\n"},
		{reason: "a test", text: policy + "---\napiVersion: certplane.dev/v1alpha1\nkind: PolicyTest\npolicies: [p.yaml]\ncase: []\n", no: true, want: "p.yaml:9: error: unknown field \"case\": did you mean cases?\n"},
		{reason: "a control character", text: policy + "\"a\\x1bb\": 1\n", no: true, want: "p.yaml:5: error: "},
		{reason: "no policies", text: "apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n", failed: "found no policies in "},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "p.yaml")
			if err := os.WriteFile(file, []byte(tt.text), 0o600); err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			err := lint.Run(lint.Config{Paths: []string{file}, Now: now, Stdout: &out})
			if answer.IsNo(err) != tt.no || (err != nil && !tt.no) != (tt.failed != "") || tt.failed != "" && !strings.Contains(err.Error(), tt.failed) {
				t.Errorf("error %v", err)
			}
			if !strings.Contains(out.String(), tt.want) || strings.Contains(out.String(), "\x1b") {
				t.Errorf("output\n%swant\n%s", out.String(), tt.want)
			}
		})
	}
}

func TestJSON(t *testing.T) {
	file := filepath.Join(t.TempDir(), "p.yaml")
	if err := os.WriteFile(file, []byte(policy+"x: 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := lint.Run(lint.Config{Paths: []string{file}, Now: now, Output: "json", Stdout: &out}); !answer.IsNo(err) {
		t.Error(err)
	}
	var report lint.Report
	if err := json.Unmarshal(out.Bytes(), &report); err != nil || len(report.Findings) != 1 || report.Findings[0].Line != 5 || report.Findings[0].File != file {
		t.Errorf("%v %+v", err, report)
	}
}
