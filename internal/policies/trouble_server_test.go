package policies_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/run/server"
)

// patienceForFacts is how long requests wait for facts: longer than a busy machine takes
// until one is there.
const patienceForFacts = 15 * time.Second

// Requests wait for facts, but only for a while; a policy that cannot be evaluated holds up
// those that it is about, and no others.
func TestWaitingForWhatIsMissing(t *testing.T) {
	f := startAlone(t, func(c *server.Config) { c.Policy.Patience.Duration = patienceForFacts })
	t.Run("addresses of a node", func(t *testing.T) { (&fixture{t, f.server, f.objects, f.api}).testAddresses() })
	t.Run("a policy that is not valid", func(t *testing.T) { (&fixture{t, f.server, f.objects, f.api}).testInvalid() })
}

// ofNode makes a request as a node.
func (f *fixture) ofNode(node, signer string) *csr {
	f.Helper()
	f.server.Grant(f, "system:node:"+node, apitest.Allow("create", "certificatesigningrequests"))
	as := apitest.Client(f, f.server.As(f, "system:node:"+node))
	return apitest.Create(f, as, apitest.NewCSR(f, "of-"+node, signer, pki.Subject{CommonName: "web-" + node}, apitest.NewKey(f)))
}

func (f *fixture) testAddresses() {
	const signer = "example.com/addresses"
	f.policy("addresses", func(s *v1alpha1.CertificatePolicySpec) {
		s.Match.Signers, s.Rules = []string{signer}, []v1alpha1.PolicyRule{{Name: "inside", Expression: "node.ips.exists(ip, ip.startsWith('10.'))"}}
	})
	early := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "early"}}
	f.create(early)
	waiting := func(r *csr) *csr {
		if text := f.event(r.Name, "WaitingForFacts"); !strings.Contains(text, "addresses") {
			f.Errorf("%s: the Event says %q", r.Name, text)
		}
		return r
	}
	waits := waiting(f.ofNode("early", signer))
	stored := client.MergeFrom(early.DeepCopy()) // a controller writes the status, too
	early.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.1"}}
	if err := f.objects.Status().Patch(f.Context(), early, stored); err != nil {
		f.Fatal(err)
	}
	if approved := f.condition(waits, "Approved"); approved.LastUpdateTime.Sub(waits.CreationTimestamp.Time) >= patienceForFacts {
		f.Errorf("it is approved at the end of its time, %v", approved.LastUpdateTime)
	}
	if denied := f.condition(waiting(f.ofNode("never", signer)), "Denied"); denied.Reason != "FactMissing" {
		f.Errorf("denied with %s: %s", denied.Reason, denied.Message)
	}
}

func (f *fixture) testInvalid() {
	const signer = "example.com/broken"
	f.policy("sound", func(s *v1alpha1.CertificatePolicySpec) { s.Match.Signers = []string{signer, "example.com/whole"} })
	f.server.Store(f, "/registry/certplane.dev/certificatepolicies/broken", `{"apiVersion":"certplane.dev/v1alpha1","kind":"CertificatePolicy",
		"metadata":{"name":"broken","uid":"broken","generation":1},"spec":{"effect":"Limit","match":{"signers":["`+signer+`"]},"rules":[{"name":"r","expression":"nonsense("}]}}`)
	if text := f.event("broken", "PolicyInvalid"); !strings.Contains(text, "rules[") {
		f.Errorf("the Event says %q", text)
	}
	broken := &v1alpha1.CertificatePolicy{}
	apitest.Eventually(f, "its status says so", func() bool {
		return f.objects.Get(f.Context(), client.ObjectKey{Name: "broken"}, broken) == nil && meta.IsStatusConditionFalse(broken.Status.Conditions, "Ready")
	})
	f.metric(`certplane_policy_ready{policy="broken"} 0`)
	held := apitest.Create(f, f.api, apitest.NewCSR(f, "web-held", signer, pki.Subject{CommonName: "web-held"}, apitest.NewKey(f)))
	whole := apitest.Create(f, f.api, apitest.NewCSR(f, "web-whole", "example.com/whole", pki.Subject{CommonName: "web-whole"}, apitest.NewKey(f)))
	f.condition(whole, "Approved")
	if text := f.event(held.Name, "PolicyUnavailable"); !strings.Contains(text, "broken") {
		f.Errorf("the Event says %q", text)
	}
	_, err := f.api.CertificatesV1().CertificateSigningRequests().UpdateApproval(f.Context(), held.Name, apitest.With(held, "Approved"), metav1.UpdateOptions{})
	if !apierrors.IsForbidden(err) && !apierrors.IsServiceUnavailable(err) || !strings.Contains(fmt.Sprint(err), "broken") {
		f.Errorf("an approval: %v", err)
	}
}
