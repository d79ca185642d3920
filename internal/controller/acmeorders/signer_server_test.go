package acmeorders_test

import (
	"strings"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/apitest/acmetest"
	"github.com/certplane/certplane/internal/policy/request"
)

// A Signer sees the order that proves a request, and nothing that the request says of
// itself: one with the labels and the content of another gets nothing.
func TestSignersSeeOrders(t *testing.T) {
	w := acmetest.New(t, shared.Start(t))
	w.AutoApprove()
	s := &v1alpha1.Signer{ObjectMeta: metav1.ObjectMeta{Name: w.Namespace}}
	w.Change(s, func() {
		s.Spec.Profile.Rules = []v1alpha1.ProfileRule{{
			Expression: v1alpha1.CEL(`has(acme.endpoint) && acme.endpoint == "` + w.Namespace + `" && acme.account == "` + w.Account.Name + `" && acme.identifiers.all(i, i.origin == "Preauthorized")`),
			Message:    "an order has to prove the names",
		}}
	})
	apitest.Eventually(t, "the signer is open with its rule", func() bool {
		ready := w.Objects.Get(t.Context(), client.ObjectKeyFromObject(s), s) == nil
		c := meta.FindStatusCondition(s.Status.Conditions, v1alpha1.Ready)
		return ready && c != nil && c.Status == metav1.ConditionTrue && c.ObservedGeneration == s.Generation
	})
	proven, foreign := w.Order(w.Preauthorized("a")), w.OrderOf(w.NewAccount(), w.Preauthorized("b"))
	w.Finalize(proven)
	if proven = w.Ended(proven); proven.Status.State != v1alpha1.AcmeOrderValid {
		t.Fatalf("the order is %+v", proven.Status)
	}
	w.Finalize(foreign)
	if foreign = w.Ended(foreign); foreign.Status.State != v1alpha1.AcmeOrderInvalid || !strings.Contains(foreign.Status.Error.Detail, "an order has to prove the names") {
		t.Errorf("the order of another account is %+v", foreign.Status)
	}
	own := requestOf(w, proven)
	who := request.ServiceAccount(w.Namespace, acmetest.ServiceAccount)
	as := apitest.Client(t, w.Server.As(t, who.Username, who.Groups...))
	copied := apitest.Create(t, as, &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "acme-" + acmetest.ID(), Labels: own.Labels, Annotations: own.Annotations},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request: own.Spec.Request, SignerName: own.Spec.SignerName, Usages: own.Spec.Usages, ExpirationSeconds: own.Spec.ExpirationSeconds,
		},
	})
	decide(w, copied, certificatesv1.CertificateApproved, "Reviewed", "fine")
	apitest.Eventually(t, "the copy is refused", func() bool {
		if err := w.Objects.Get(t.Context(), client.ObjectKeyFromObject(copied), copied); err != nil {
			t.Fatal(err)
		}
		if len(copied.Status.Certificate) > 0 {
			t.Fatal("the copy has a certificate")
		}
		for _, c := range copied.Status.Conditions {
			if c.Type == certificatesv1.CertificateFailed {
				return strings.Contains(c.Message, "an order has to prove the names")
			}
		}
		return false
	})
}
