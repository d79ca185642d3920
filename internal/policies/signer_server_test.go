package policies_test

import (
	"strings"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/quorum"
	"github.com/certplane/certplane/internal/run/server"
)

// TestSignerDecidesAgain: what was approved while no signer was there is decided
// again, by the policies of today and by the votes that verify, also if it was
// written into the store past admission.
func TestSignerDecidesAgain(t *testing.T) {
	all := server.DefaultConfig().Controllers
	e := startElectorate(t, func(c *server.Config) { c.Controllers = append(c.Controllers, "-sign") })
	alice, bob := e.person(true, "alice", "pki"), e.person(true, "bob", "security")
	web := e.policy("web", func(s *v1alpha1.CertificatePolicySpec) {
		s.Match.Requesters = &v1alpha1.RequesterMatch{RequesterLists: v1alpha1.RequesterLists{Users: []string{"certplane:admin"}}}
	})
	e.policy("four-eyes", func(s *v1alpha1.CertificatePolicySpec) {
		s.Effect, s.Certificate = v1alpha1.PolicyLimit, nil
		s.Match.Kinds = []v1alpha1.RequestKind{v1alpha1.CertificateSigningRequests}
		s.Match.Requesters = &v1alpha1.RequesterMatch{RequesterLists: v1alpha1.RequesterLists{Users: []string{"dave"}}}
		s.Approval = &v1alpha1.PolicyApproval{Mode: v1alpha1.ApprovePeople, People: new(requirement(2, "1 of pki", "1 of security"))}
	})

	tightened, kept := e.csr("web-1"), e.csr("web-2")
	for _, r := range []*csr{tightened, kept} {
		if c := e.condition(r, certificatesv1.CertificateApproved); c.Reason != "PolicyApproved" {
			t.Errorf("%s is approved with %s", r.Name, c.Reason)
		}
	}
	rest := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"certificate":{"subject":{"commonName":{"patterns":["web-2","web-2-*"]}}}}}`))
	if err := e.objects.Patch(t.Context(), web, rest); err != nil {
		t.Fatal(err)
	}
	e.ready(web)

	whole := e.voted("whole", alice, bob)
	unasked := e.past("unasked", e.voted("unasked"), func(*csr) {})
	copied := e.past("copied", e.voted("copied"), func(r *csr) { r.Status.Conditions = append(r.Status.Conditions, votesIn(whole)...) })
	twice := e.past("twice", e.voted("twice", alice), func(r *csr) {
		again := votesIn(r)[0]
		again.Type = certificatesv1.RequestConditionType(quorum.VoteType(2))
		r.Status.Conditions = append(r.Status.Conditions, again)
	})
	changed := e.past("changed", e.voted("changed", alice, bob), func(r *csr) { r.Spec.Request = whole.Spec.Request })
	extended := e.past("extended", e.voted("extended", alice, bob), func(r *csr) { r.Spec.ExpirationSeconds = new(int32(3600)) })

	e.server.Config.Controllers = all
	e.restart()
	e.fixture.api = apitest.Client(t, e.server.Admin(t))
	apitest.Issued(t, e.api, kept)
	apitest.Issued(t, e.api, whole)
	for _, tc := range []struct {
		reason  string
		request *csr
		why     string
		text    string
	}{
		{"the policy has become stricter", tightened, "PolicyChanged", `approved under a policy that has changed: certificate policy web: subject.commonName "web-1"`},
		{"nobody has approved", unasked, "ApprovalsMissing", "approved past certificate policy four-eyes: 0 of 2"},
		{"approvals of another request", copied, "ApprovalsMissing", "approved past certificate policy four-eyes: 0 of 2"},
		{"one approval under two numbers", twice, "ApprovalsMissing", "approved past certificate policy four-eyes: 1 of 2"},
		{"approvals of another certificate", changed, "ApprovalsMissing", "approved past certificate policy four-eyes: 0 of 2"},
		{"approvals of another lifetime", extended, "ApprovalsMissing", "approved past certificate policy four-eyes: 0 of 2"},
	} {
		failed := e.condition(tc.request, certificatesv1.CertificateFailed)
		if failed.Reason != tc.why || !strings.HasPrefix(failed.Message, tc.text) {
			t.Errorf("%s: failed with %s: %s", tc.reason, failed.Reason, failed.Message)
		}
		current, err := e.api.CertificatesV1().CertificateSigningRequests().Get(t.Context(), tc.request.Name, metav1.GetOptions{})
		if err != nil || len(current.Status.Certificate) > 0 {
			t.Errorf("%s: there is a certificate, or %v", tc.reason, err)
		}
	}
}

// voted returns a request of dave that people have approved.
func (e *electorate) voted(name string, by ...*voter) *csr {
	e.Helper()
	dave := apitest.Client(e.T, e.server.As(e.T, "dave"))
	stored := apitest.Create(e.T, dave, apitest.NewCSR(e.T, name, signerName, pki.Subject{CommonName: name}, apitest.NewKey(e.T)))
	e.condition(stored, quorum.AwaitingApproval) // the approver has written it
	for _, one := range by {
		read, err := one.client.CertificatesV1().CertificateSigningRequests().Get(e.Context(), name, metav1.GetOptions{})
		if err != nil {
			e.Fatal(err)
		}
		if stored, err = put(e.Context(), one, "approval", with(read, approval(one)), metav1.UpdateOptions{}); err != nil {
			e.Fatal(err)
		}
	}
	return stored
}

// past writes a request into the store as approved, past admission.
func (e *electorate) past(name string, r *csr, change func(*csr)) *csr {
	e.Helper()
	r = r.DeepCopy()
	change(r)
	if !has(r.Status.Conditions, "Approved") {
		r = with(r, approval(&voter{name: "nobody"}))
	}
	for i := range r.Status.Conditions { // no update of a status may set the times of Approved
		r.Status.Conditions[i].LastUpdateTime, r.Status.Conditions[i].LastTransitionTime = r.CreationTimestamp, r.CreationTimestamp
	}
	r.ManagedFields, r.ResourceVersion = nil, ""
	e.server.Store(e.T, "/registry/certificatesigningrequests/"+name, string(encoded(e.T, r)))
	return r
}

func votesIn(r *csr) []condition {
	var votes []condition
	for _, c := range r.Status.Conditions {
		if quorum.IsVote(string(c.Type)) {
			votes = append(votes, c)
		}
	}
	return votes
}
