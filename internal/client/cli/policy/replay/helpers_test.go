package replay_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/client/cli/policy/replay"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/certpolicy"
	"github.com/certplane/certplane/internal/policy/decisionlog"
	"github.com/certplane/certplane/internal/policy/request"
)

var now = time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC)

// requestsOf makes requests, all with one key: signing is what takes time.
type requestsOf struct {
	tb   testing.TB
	made map[string][]byte
}

func (r *requestsOf) pem(dns ...string) []byte {
	r.tb.Helper()
	name := strings.Join(dns, " ")
	if r.made[name] != nil {
		return r.made[name]
	}
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		r.tb.Fatal(err)
	}
	pem, err := pki.NewRequest(pki.Subject{DNSNames: dns}, key)
	if err != nil {
		r.tb.Fatal(err)
	}
	r.made[name] = pem
	return pem
}

func newRequests(tb testing.TB) *requestsOf { return &requestsOf{tb, map[string][]byte{}} }

// certificateRequest is a request of day d of the month.
func (r *requestsOf) certificateRequest(name string, day int, length time.Duration, dns ...string) *cmv1.CertificateRequest {
	return &cmv1.CertificateRequest{
		TypeMeta: metav1.TypeMeta{APIVersion: "cert-manager.io/v1", Kind: "CertificateRequest"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID("uid-" + name),
			CreationTimestamp: metav1.NewTime(time.Date(2026, 11, day, 0, 0, 0, 0, time.UTC))},
		Spec: cmv1.CertificateRequestSpec{
			IssuerRef: cmmeta.IssuerReference{Name: "internal", Kind: "ClusterIssuer"}, Request: r.pem(dns...),
			Duration: &metav1.Duration{Duration: length}, Usages: []cmv1.KeyUsage{"digital signature", "server auth"}, Username: "alice",
		},
	}
}

// policy allows names in zones, for at most max.
func policy(name string, max time.Duration, zones ...string) *v1alpha1.CertificatePolicy {
	p := &v1alpha1.CertificatePolicy{Spec: v1alpha1.CertificatePolicySpec{
		Effect: v1alpha1.PolicyAllow, Match: v1alpha1.PolicyMatch{Signers: []string{"clusterissuers.cert-manager.io/internal"}},
		Certificate: &v1alpha1.CertificateConditions{
			Names:    &v1alpha1.NameConditions{DNS: &v1alpha1.DNSConditions{Zones: zones}},
			Usages:   &v1alpha1.UsageConditions{Allowed: []string{"digital signature", "server auth"}},
			Lifetime: &v1alpha1.LifetimeConditions{Max: &metav1.Duration{Duration: max}},
		},
	}}
	p.Name = name
	return p
}

func setOf(policies ...*v1alpha1.CertificatePolicy) *certpolicy.Set {
	return certpolicy.NewSet(policies, nil)
}

// logLine returns the line of a decision log about a request.
func logLine(tb testing.TB, set *certpolicy.Set, cr *cmv1.CertificateRequest, facts certpolicy.Facts, stage v1alpha1.DecisionStage) []byte {
	tb.Helper()
	in := certpolicy.Input{Stage: stage, Request: request.FromCertificateRequest(cr), Facts: facts, Time: cr.CreationTimestamp.Time}
	object, err := json.Marshal(cr)
	if err != nil {
		tb.Fatal(err)
	}
	line, err := json.Marshal(decisionlog.Line(set.Decide(in), &in, object, true))
	if err != nil {
		tb.Fatal(err)
	}
	return line
}

// replayed runs a replay, and returns its report and what it has written.
func replayed(t *testing.T, cfg replay.Config) (replay.Report, string, error) {
	t.Helper()
	cfg = withDefaults(cfg)
	var text, data, lines bytes.Buffer
	cfg.Stdout, cfg.Stderr = &lines, &text
	if !cfg.Each {
		cfg.Stdout = &text
	}
	input := cfg.Stdin
	var stdin []byte
	if input != nil {
		var b bytes.Buffer
		if _, err := b.ReadFrom(input); err != nil {
			t.Fatal(err)
		}
		stdin = b.Bytes()
		cfg.Stdin = bytes.NewReader(stdin)
	}
	err := replay.Run(context.Background(), cfg)
	written := text.String() + lines.String()
	cfg.Output, cfg.Each, cfg.Stdout, cfg.Stdin = "json", false, &data, bytes.NewReader(stdin)
	again := replay.Run(context.Background(), cfg)
	if (err == nil) != (again == nil) || err != nil && err.Error() != again.Error() {
		t.Fatalf("as text: %v; as JSON: %v", err, again)
	}
	var report replay.Report
	if data.Len() > 0 {
		if err := json.Unmarshal(data.Bytes(), &report); err != nil {
			t.Fatal(err)
		}
	}
	return report, written, err
}

func withDefaults(cfg replay.Config) replay.Config {
	if cfg.FailOn == "" {
		cfg.FailOn = replay.FailOnAny
	}
	cfg.Workers, cfg.Now = 2, func() time.Time { return now }
	return cfg
}

// groups returns the groups of a report as lines.
func groups(r replay.Report) []string {
	var lines []string
	for _, g := range r.Groups {
		line := fmt.Sprintf("%d %s→%s %s %s", g.Count, g.From, g.To, g.Policy, g.At)
		if g.Looser {
			line += " LOOSER"
		}
		lines = append(lines, line)
	}
	return lines
}
