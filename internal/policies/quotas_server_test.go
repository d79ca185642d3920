package policies_test

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	admission "github.com/certplane/certplane/internal/admission/certpolicy"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policies"
	"github.com/certplane/certplane/internal/policy/certpolicy"
	"github.com/certplane/certplane/internal/policy/quorum"
	"github.com/certplane/certplane/internal/policy/quota"
	"github.com/certplane/certplane/internal/policy/request"
	"github.com/certplane/certplane/internal/rights"
	"github.com/certplane/certplane/internal/run/server"
)

// limited makes a policy a Limit that has nothing but quotas.
func limited(quotas ...v1alpha1.PolicyQuota) func(*v1alpha1.CertificatePolicySpec) {
	return func(s *v1alpha1.CertificatePolicySpec) {
		s.Effect, s.Certificate, s.Quotas = v1alpha1.PolicyLimit, nil, quotas
	}
}

func perHour(name string, certificates int32, by v1alpha1.QuotaBy) v1alpha1.PolicyQuota {
	return v1alpha1.PolicyQuota{Name: name, Certificates: certificates, Per: metav1.Duration{Duration: time.Hour}, By: by}
}

// outcomes waits until requests are decided, and returns the messages of those
// that are denied.
func (f *fixture) outcomes(csrs ...*certificatesv1.CertificateSigningRequest) (approved int, denied []string) {
	f.Helper()
	for _, csr := range csrs {
		apitest.Eventually(f, csr.Name+" is decided", func() bool {
			current, err := f.api.CertificatesV1().CertificateSigningRequests().Get(f.Context(), csr.Name, metav1.GetOptions{})
			if err != nil {
				return false
			}
			for _, c := range current.Status.Conditions {
				switch c.Type {
				case certificatesv1.CertificateApproved:
					approved++
					return true
				case certificatesv1.CertificateDenied:
					denied = append(denied, c.Reason+": "+c.Message)
					return true
				}
			}
			return false
		})
	}
	return approved, denied
}

// A quota holds for the approver, says when it fits again, and outlives the
// server.
func TestQuotaOfApprover(t *testing.T) {
	f := start(t)
	f.policy("web", func(s *v1alpha1.CertificatePolicySpec) {
		s.Quotas = []v1alpha1.PolicyQuota{perHour("hourly", 3, v1alpha1.QuotaByPolicy)}
	})
	var all []*certificatesv1.CertificateSigningRequest
	for i := range 5 {
		all = append(all, f.csr(fmt.Sprintf("web-%d", i)))
	}
	approved, denied := f.outcomes(all...)
	if approved != 3 || len(denied) != 2 {
		t.Fatalf("%d are approved, and denied: %q", approved, denied)
	}
	text := regexp.MustCompile(`^QuotaExceeded: certificate policy web: the quota hourly of 3 certificates in 1h is used up; a request fits again at (\S+)$`)
	for _, message := range denied {
		match := text.FindStringSubmatch(message)
		if match == nil {
			t.Fatalf("the message is %q", message)
		}
		at, err := time.Parse(time.RFC3339, match[1])
		if rest := time.Until(at); err != nil || rest > time.Hour+time.Second || rest < 55*time.Minute {
			t.Errorf("it fits again in %v, %v", rest, err)
		}
	}
	f.readFromOutside(all[0], 3)
	f.restart()
	if approved, denied := f.outcomes(f.csr("web-6")); approved != 0 || !strings.Contains(denied[0], "QuotaExceeded") {
		t.Errorf("after a restart, %d are approved, and denied: %q", approved, denied)
	}
}

// readFromOutside checks what programs outside of the server know of the quota of the
// policy web.
func (f *fixture) readFromOutside(counted *certificatesv1.CertificateSigningRequest, used int32) {
	f.Helper()
	p := &v1alpha1.CertificatePolicy{}
	if err := f.objects.Get(f.Context(), client.ObjectKey{Name: "web"}, p); err != nil {
		f.Fatal(err)
	}
	r := request.FromCSR(counted)
	quotas := certpolicy.NewSet([]*v1alpha1.CertificatePolicy{p}, nil).Quotas(&r)
	for _, tt := range []struct {
		reason, namespace string
		certain           bool
		known             bool
		used              int32
	}{
		{"where the controllers are", rights.ServeNamespace, false, true, used},
		{"where no controllers are", "default", false, false, 0},
		{"where the caller says that they are", "default", true, true, 0},
	} {
		ledger := &policies.LedgerReader{API: f.objects, Certain: tt.certain, Namespaces: func(context.Context) []string { return []string{tt.namespace} }}
		uses, err := ledger.Use(f.Context(), quotas, r.UID, time.Now())
		use, known := uses[quotas[0]]
		if known != tt.known || (err == nil) != tt.known || use.Used != tt.used || use.Counted != (tt.used > 0) {
			f.Errorf("%s: %+v, %v", tt.reason, uses, err)
		}
	}
}

// restart starts the server again, with its data.
func (f *fixture) restart() {
	f.Helper()
	f.server.Restart(f.T)
	f.api = apitest.Client(f.T, f.server.Admin(f.T))
}

// replica is another process that decides by the policies of a server.
func (f *fixture) replica(clock *clocktesting.FakePassiveClock) *policies.Policies {
	f.Helper()
	p, err := policies.New(policies.Config{
		API: f.server.Admin(f.T), Settings: policies.DefaultSettings(), Namespace: rights.ServeNamespace, Defined: true, Seals: &policies.Seals{}, Clock: clock,
	})
	if err != nil {
		f.Fatal(err)
	}
	go p.Run(f.Context())
	if !p.WaitUntilKnown(f.Context()) {
		f.Fatal("the policies are not known")
	}
	return p
}

// letThrough approves a request as an administrator.
func (f *fixture) letThrough(csr *certificatesv1.CertificateSigningRequest) error {
	_, err := f.api.CertificatesV1().CertificateSigningRequests().UpdateApproval(f.Context(), csr.Name, with(csr, approval(&voter{name: "root"})), metav1.UpdateOptions{})
	return err
}

// However many approve at once in several processes, no more requests are let
// through than fit.
func TestQuotaOfSeveralProcesses(t *testing.T) {
	f := start(t, func(c *server.Config) { c.Controllers = []string{rights.PolicyStatus.Name} })
	// Two quotas, which are counted in different ConfigMaps.
	f.policy("limit", limited(perHour("all", 5, v1alpha1.QuotaByPolicy), perHour("each", 100, v1alpha1.QuotaByRequester)))
	clock := clocktesting.NewFakePassiveClock(time.Now())
	replicas := []*policies.Policies{f.replica(clock), f.replica(clock)}
	const each = 7
	var all []*certificatesv1.CertificateSigningRequest
	for i := range each * 3 {
		all = append(all, f.csr(fmt.Sprintf("r-%d", i)))
	}
	validate := func(p *policies.Policies, stored *certificatesv1.CertificateSigningRequest, dryRun bool) error {
		a := admission.OfCSR(with(stored, approval(&voter{name: "root"})), stored, "approval")
		a.User, a.DryRun, a.MayApprove = quorum.Voter{Person: quorum.Person{Username: "root"}}, dryRun, func(context.Context) error { return nil }
		if answer := admission.New(p, nil).Validate(t.Context(), a); answer.Refusal != nil {
			return answer.Refusal
		}
		return nil
	}
	for range 6 { // nothing of that counts
		if err := validate(replicas[0], all[0], true); err != nil {
			t.Fatalf("a dry run: %v", err)
		}
	}
	var group sync.WaitGroup
	errs := make([]error, len(all))
	for i, csr := range all {
		group.Go(func() {
			if i%3 == 2 {
				errs[i] = f.letThrough(csr)
				return
			}
			errs[i] = validate(replicas[i%3], csr, false)
		})
	}
	group.Wait()
	let := 0
	for i, err := range errs {
		switch {
		case err == nil:
			let++
		case !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "certificate policy limit: the quota all of 5 certificates"):
			t.Errorf("request %d: %v", i, err)
		}
	}
	if let != 5 {
		t.Errorf("%d approvals are let through, want 5", let)
	}
	for i, err := range errs { // the same approval is counted once, whoever is asked
		if err == nil {
			if err := validate(replicas[1], all[i], false); err != nil {
				t.Errorf("the same approval again: %v", err)
			}
		}
	}
	clock.SetTime(clock.Now().Add(time.Hour + 3*time.Minute))
	for i, err := range errs {
		if err == nil {
			continue
		}
		if err := validate(replicas[0], all[i], false); err != nil {
			t.Errorf("when the hour is over: %v", err)
		}
		break
	}
}

// Approvals of one tenant that fill the ledger of quotas stop no other tenant.
func TestFullQuotaLedger(t *testing.T) {
	f := start(t, func(c *server.Config) { c.Controllers = []string{rights.PolicyStatus.Name} })
	f.policy("limit", limited(perHour("each", 10_000, v1alpha1.QuotaByRequester)))
	many := f.csr("of-one-who-has-many")
	now := time.Now()
	counted, payer := quota.New(), quota.PayerOf("user "+many.Spec.Username)
	var full map[string][]byte
	for i := 0; ; i++ {
		for j := range 500 {
			counted.Count(quota.KeyOf(fmt.Sprint(i)), payer, quota.Limit{Certificates: 10_000, Per: time.Hour}, fmt.Sprint(i, "-", j), now)
		}
		data, err := counted.Encode(now)
		if err != nil {
			break
		}
		full = map[string][]byte{"approvals": data, "payers": counted.EncodePayers()}
	}
	for _, name := range policies.LedgerNames() {
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: rights.ServeNamespace, Name: name}, BinaryData: full}
		if err := f.objects.Create(f.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	p := f.replica(clocktesting.NewFakePassiveClock(now))
	validate := func(stored *certificatesv1.CertificateSigningRequest) error {
		a := admission.OfCSR(with(stored, approval(&voter{name: "root"})), stored, "approval")
		a.User, a.MayApprove = quorum.Voter{Person: quorum.Person{Username: "root"}}, func(context.Context) error { return nil }
		if refusal := admission.New(p, nil).Validate(t.Context(), a).Refusal; refusal != nil {
			return refusal
		}
		return nil
	}
	for i := range 3 {
		other := f.csr(fmt.Sprintf("of-other-%d", i))
		other.Spec.Username = fmt.Sprintf("other-%d", i)
		if err := validate(other); err != nil {
			t.Errorf("of another tenant: %v", err)
		}
	}
	var err error
	for i := 0; i < 1000 && err == nil; i++ {
		many.UID = types.UID(fmt.Sprint("more-", i))
		err = validate(many)
	}
	if err == nil || !strings.Contains(err.Error(), "has used its share") {
		t.Errorf("of the tenant that has many: %v", err)
	}
}

// What was approved past admission counts before it is signed.
func TestQuotaOfSigner(t *testing.T) {
	f := start(t, func(c *server.Config) {
		c.Controllers = append(c.Controllers, "-approve")
		c.Admission.DisabledPlugins = []string{"CertificatePolicy"}
	})
	f.policy("limit", limited(perHour("one", 1, v1alpha1.QuotaBySigner)))
	first, second := f.csr("web-1"), f.csr("web-2")
	apitest.Decide(t, f.api, first, "Approved")
	apitest.Issued(t, f.api, first)
	apitest.Decide(t, f.api, second, "Approved")
	failed := f.condition(second, certificatesv1.CertificateFailed)
	if failed.Reason != "QuotaExceeded" || !strings.Contains(failed.Message, "the quota one of 1 certificate in 1h for each Signer is used up") {
		t.Errorf("failed with %s: %s", failed.Reason, failed.Message)
	}
}

// A request for which there is no room now is stored: it may be approved later.
func TestQuotaWhenCreated(t *testing.T) {
	f := start(t, func(c *server.Config) { c.Controllers = []string{rights.PolicyStatus.Name} })
	f.policy("limit", limited(perHour("one", 1, v1alpha1.QuotaByPolicy)))
	p := f.replica(clocktesting.NewFakePassiveClock(time.Now()))
	create := func(name string) admission.Outcome {
		r := request.FromCSR(apitest.NewCSR(t, name, signerName, pki.Subject{CommonName: name}, apitest.NewKey(t)))
		r.Requester.Username = "alice"
		return admission.New(p, nil).Create(t.Context(), certificatesv1.Resource("certificatesigningrequests"), r, false)
	}
	if answer := create("a"); answer.Refusal != nil || len(answer.Warnings) > 0 {
		t.Errorf("with room: %+v", answer)
	}
	if err := f.letThrough(f.csr("b")); err != nil {
		t.Fatal(err)
	}
	p = f.replica(clocktesting.NewFakePassiveClock(time.Now()))
	answer := create("c")
	if answer.Refusal != nil || len(answer.Warnings) != 1 || !strings.Contains(answer.Warnings[0], "the quota one of 1 certificate in 1h is used up") {
		t.Errorf("without room: %+v", answer)
	}
}
