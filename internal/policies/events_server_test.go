package policies_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
)

// events returns the Events about a request, sorted, as "reason: note".
func (f *fixture) events(name string) []string {
	f.Helper()
	list, err := f.api.EventsV1().Events(metav1.NamespaceAll).List(f.Context(), metav1.ListOptions{})
	if err != nil {
		f.Fatal(err)
	}
	var texts []string
	for _, e := range list.Items {
		if e.Regarding.Name == name {
			texts = append(texts, e.Reason+": "+e.Note)
		}
	}
	slices.Sort(texts)
	return texts
}

// Each vote is reported, and who is missing when that changes.
func TestEventsOfApprovals(t *testing.T) {
	f := start(t)
	alice, bob := f.fourEyes()
	ca := apitest.Create(f, f.api, apitest.NewCSR(f, "ca-1", fourEyesSigner, pki.Subject{CommonName: "ca-1"}, apitest.NewKey(f)))
	f.condition(ca, "certplane.dev/awaiting-approval")
	want := []string{"ApprovalsMissing: certificate policy four-eyes: 0 of 2 approvals: 2 more"}
	wantEvents := func() {
		t.Helper()
		slices.Sort(want)
		apitest.Eventually(t, "all is reported", func() bool { return len(f.events(ca.Name)) >= len(want) })
		if diff := cmp.Diff(want, f.events(ca.Name)); diff != "" {
			t.Errorf("other Events: %s", diff)
		}
	}
	wantEvents()
	f.approve(alice, ca.Name)
	want = append(want, `ApprovalRecorded: alice approved, 1 of 2: "decided by a test"`, "ApprovalsMissing: certificate policy four-eyes: 1 of 2 approvals: 1 more")
	wantEvents()
	f.approve(bob, ca.Name)
	want = append(want, `ApprovalRecorded: bob approved, 2 of 2: "decided by a test"`)
	wantEvents()
}

// A denial by a person is reported as the approvals are.
func TestEventsOfDenials(t *testing.T) {
	f := start(t)
	alice, bob := f.fourEyes()
	ca := apitest.Create(f, f.api, apitest.NewCSR(f, "ca-2", fourEyesSigner, pki.Subject{CommonName: "ca-2"}, apitest.NewKey(f)))
	f.condition(ca, "certplane.dev/awaiting-approval")
	f.approve(alice, ca.Name)
	apitest.Eventually(t, "the approval is reported", func() bool { return len(f.events(ca.Name)) == 3 })
	ca, err := bob.CertificatesV1().CertificateSigningRequests().Get(t.Context(), ca.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	denied := apitest.With(ca, certificatesv1.CertificateDenied)
	if _, err := bob.CertificatesV1().CertificateSigningRequests().UpdateApproval(t.Context(), ca.Name, denied, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	apitest.Eventually(t, "the denial is reported", func() bool {
		return slices.Contains(f.events(ca.Name), "DenialRecorded: The request is denied: decided by a test")
	})
}
