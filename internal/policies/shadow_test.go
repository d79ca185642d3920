package policies

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/request"
)

// Of a thousand requests, those are counted whose outcome would be another one with
// the policy in the shadow, each once, however often it is decided about; nobody else
// notices the policy.
func TestDifferencesAreCounted(t *testing.T) {
	const number = 1000
	f := open(t)
	inForce := policy("web", func(s *v1alpha1.CertificatePolicySpec) {
		s.Effect = v1alpha1.PolicyAllow
		s.Certificate = &v1alpha1.CertificateConditions{
			Names:  &v1alpha1.NameConditions{DNS: &v1alpha1.DNSConditions{Zones: []string{"example.com"}}},
			Usages: &v1alpha1.UsageConditions{Allowed: []string{"digital signature"}},
		}
	})
	next := policy("web-next", func(s *v1alpha1.CertificatePolicySpec) {
		*s = *inForce.Spec.DeepCopy()
		s.Mode, s.Replaces, s.Certificate.Names.DNS.Zones = v1alpha1.PolicyShadow, "web", []string{"shop.example.com", "example.org"}
	})
	f.use(inForce, next)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	var contents [][]byte
	for _, name := range []string{"www.shop.example.com", "www.example.com", "www.example.org", "www.example.net"} {
		csr, err := pki.NewRequest(pki.Subject{DNSNames: []string{name}}, key)
		if err != nil {
			t.Fatal(err)
		}
		contents = append(contents, csr)
	}
	differs := map[string]int64{}
	for n := range number {
		content := []int{0, 0, 1, 2, 2, 2, 3}[n%7]
		r := request.FromCSR(&certificatesv1.CertificateSigningRequest{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("r-", n), UID: types.UID(fmt.Sprint(n)), CreationTimestamp: metav1.NewTime(began)},
			Spec: certificatesv1.CertificateSigningRequestSpec{SignerName: "example.com/web", Username: "alice", Request: contents[content],
				Usages: []certificatesv1.KeyUsage{"digital signature"}},
		})
		was := []v1alpha1.DecisionOutcome{v1alpha1.OutcomeApprove, v1alpha1.OutcomeApprove, v1alpha1.OutcomeDeny, v1alpha1.OutcomeDeny}[content]
		would := []v1alpha1.DecisionOutcome{v1alpha1.OutcomeApprove, v1alpha1.OutcomeDeny, v1alpha1.OutcomeApprove, v1alpha1.OutcomeDeny}[content]
		differs[fmt.Sprintf("%s %s", was, would)]++
		for range 1 + n%3 {
			if action := f.Next(t.Context(), r, nil); action.Decision == nil || action.Decision.Outcome != was {
				t.Fatalf("request %d: %+v, want %s", n, action, was)
			}
		}
	}
	_, shadow := f.Recorder().Counts("web-next", 1)
	if want := differs["Approve Deny"] + differs["Deny Approve"]; shadow == nil || shadow.Evaluated != number || shadow.Differences != want || len(shadow.Samples) != maxSamples {
		t.Errorf("the status is %+v, want %d differences", shadow, want)
	}
	var lines []string
	for _, pair := range [][2]string{{"Approve", "Approve"}, {"Approve", "Deny"}, {"Deny", "Approve"}, {"Deny", "Deny"}} {
		lines = append(lines, fmt.Sprintf(`shadow_total{policy="web-next",was="%s",would="%s"} %d`, pair[0], pair[1], differs[pair[0]+" "+pair[1]]))
	}
	f.want("shadow_total", lines...)
}

// The metrics of decisions, with their labels: what policies and signers are called,
// and never a value of a request.
func TestNamesOfMetrics(t *testing.T) {
	f := open(t)
	one := func(names ...string) prometheus.Labels {
		labels := prometheus.Labels{}
		for _, name := range names {
			labels[name] = "x"
		}
		return labels
	}
	m := f.recorder.metrics
	m.decisions.With(one("stage", "kind", "signer", "outcome"))
	m.violations.With(one("policy", "at"))
	m.shadow.With(one("policy", "was", "would"))
	m.duration.With(one("stage"))
	m.errors.With(one("policy"))
	m.ready.With(one("policy"))
	m.waiting.With(one("policy"))
	m.votes.With(one("policy", "result"))
	m.overrides.With(one("policy"))
	m.expires.With(one("exception"))
	m.quotas.With(one("policy", "quota"))
	all, err := f.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	for _, family := range all {
		got[family.GetName()] = true
	}
	want := map[string]bool{}
	for _, name := range []string{
		"decisions_total", "violations_total", "shadow_total", "duration_seconds", "errors_total", "ready", "waiting", "votes_total",
		"overrides_total", "exception_expires_seconds", "quota_refused_total", "set_age_seconds",
	} {
		want["certplane_policy_"+name] = true
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
}
