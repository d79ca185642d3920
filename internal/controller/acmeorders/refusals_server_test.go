package acmeorders_test

import (
	"strings"
	"testing"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/rfc8555"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/apitest/acmetest"
	"github.com/certplane/certplane/internal/policy/request"
	"github.com/certplane/certplane/internal/rights"
)

// requestOf waits for the CertificateSigningRequest of an order.
func requestOf(w *acmetest.World, o *v1alpha1.AcmeOrder) *certificatesv1.CertificateSigningRequest {
	w.Helper()
	csr := &certificatesv1.CertificateSigningRequest{}
	w.Until(o, "names its request", func(o *v1alpha1.AcmeOrder) bool { return o.Status.Request != nil && o.Status.Request.UID != "" })
	if err := w.Objects.Get(w.Context(), client.ObjectKey{Name: "acme-" + o.Name}, csr); err != nil {
		w.Fatal(err)
	}
	return csr
}

func decide(w *acmetest.World, csr *certificatesv1.CertificateSigningRequest, kind certificatesv1.RequestConditionType, reason, message string) {
	w.Helper()
	csr.Status.Conditions = append(csr.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{Type: kind, Status: corev1.ConditionTrue, Reason: reason, Message: message})
	if err := w.Objects.SubResource("approval").Update(w.Context(), csr); err != nil {
		w.Fatal(err)
	}
}

// invalid waits for the problem of an order.
func invalid(w *acmetest.World, o *v1alpha1.AcmeOrder, kind, detail string) {
	w.Helper()
	o = w.Ended(o)
	if p := o.Status.Error; o.Status.State != v1alpha1.AcmeOrderInvalid || p == nil || p.Type != kind || !strings.Contains(p.Detail, detail) {
		w.Errorf("the order is %q with the problem %+v, want %s: %s", o.Status.State, p, kind, detail)
	}
}

// noRequest reports a request that an order must not have.
func noRequest(w *acmetest.World, o *v1alpha1.AcmeOrder) {
	w.Helper()
	err := w.Objects.Get(w.Context(), client.ObjectKey{Name: "acme-" + o.Name}, &certificatesv1.CertificateSigningRequest{})
	if !apierrors.IsNotFound(err) {
		w.Errorf("the order has a request: %v", err)
	}
}

// People decide about requests of ServiceAccounts without the right to autoapprove.
func TestPeopleDecide(t *testing.T) {
	w := acmetest.New(t, shared.Start(t))
	denied, approved, deleted := w.Order(w.Preauthorized("a")), w.Order(w.Preauthorized("b")), w.Order(w.Preauthorized("c"))
	for _, o := range []*v1alpha1.AcmeOrder{denied, approved, deleted} {
		w.Finalize(o)
	}
	decide(w, requestOf(w, denied), certificatesv1.CertificateDenied, "NotOurs", "ask the owner of the name")
	decide(w, requestOf(w, approved), certificatesv1.CertificateApproved, "Reviewed", "fine")
	if err := w.Objects.Delete(t.Context(), requestOf(w, deleted)); err != nil {
		t.Fatal(err)
	}
	invalid(w, denied, rfc8555.ProblemUnauthorized, "denied: NotOurs: ask the owner of the name")
	invalid(w, deleted, rfc8555.ProblemServerInternal, "deleted or expired")
	if o := w.Ended(approved); o.Status.State != v1alpha1.AcmeOrderValid || o.Status.Approval == nil {
		t.Errorf("the approved order is %+v", o.Status)
	}
}

// What the signer refuses ends the order, with the signer's reason.
func TestSignerRefuses(t *testing.T) {
	w := acmetest.New(t, shared.Start(t))
	w.AutoApprove()
	s := &v1alpha1.Signer{ObjectMeta: metav1.ObjectMeta{Name: w.Namespace}}
	w.Change(s, func() {
		s.Spec.Profile.Rules = []v1alpha1.ProfileRule{{Expression: "false", Message: "not today", Reason: "ClosedToday"}}
	})
	apitest.Eventually(t, "the signer has the rule", func() bool {
		return w.Objects.Get(t.Context(), client.ObjectKey{Name: w.Namespace}, s) == nil && s.Status.ObservedGeneration == s.Generation
	})
	o := w.Order(w.Preauthorized("a"))
	w.Finalize(o)
	invalid(w, o, rfc8555.ProblemBadCSR, "not today") // RFC 8555 section 7.4: unauthorized is about the account
}

// Orders whose request cannot be made end, and none is made.
func TestNoRequest(t *testing.T) {
	for _, tc := range []struct {
		reason       string
		change       func(w *acmetest.World)
		kind, detail string
	}{
		{"the account is revoked", func(w *acmetest.World) {
			w.Change(w.Account, func() { w.Account.Spec.Decision = v1alpha1.AcmeDecisionRevoked })
		}, rfc8555.ProblemUnauthorized, "account revoked"},
		{"the external key is revoked", func(w *acmetest.World) {
			w.Change(w.Key, func() { w.Key.Spec.Revoked = true })
		}, rfc8555.ProblemUnauthorized, "account revoked"},
		{"the profile is gone", func(w *acmetest.World) {
			w.Change(w.Endpoint, func() { w.Endpoint.Spec.Profiles[0].Name = "other" })
		}, rfc8555.ProblemInvalidProfile, "server"},
		{"nobody may act as the ServiceAccount", func(w *acmetest.World) {
			w.Disallow(&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: "tokens"}}, request.ServiceAccount(rights.ServeNamespace, rights.ServeACMEOrders.Account),
				authorizationv1.ResourceAttributes{Verb: "create", Resource: "serviceaccounts", Subresource: "token", Namespace: w.Namespace, Name: acmetest.ServiceAccount})
		}, rfc8555.ProblemUnauthorized, "token"},
		{"the ServiceAccount is gone", func(w *acmetest.World) {
			remove(w, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: acmetest.ServiceAccount}})
		}, rfc8555.ProblemUnauthorized, "ServiceAccount is gone"},
		{"the ServiceAccount may make no requests", func(w *acmetest.World) {
			w.Disallow(&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: w.Namespace + "-use"}}, request.ServiceAccount(w.Namespace, acmetest.ServiceAccount),
				authorizationv1.ResourceAttributes{Verb: "create", Group: "certificates.k8s.io", Resource: "certificatesigningrequests"})
		}, rfc8555.ProblemUnauthorized, "forbidden"},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			w := acmetest.New(t, shared.Start(t))
			w.AutoApprove()
			o := w.Order(w.Preauthorized("a"))
			tc.change(w)
			w.Finalize(o)
			invalid(w, o, tc.kind, tc.detail)
			noRequest(w, o)
		})
	}
}

func remove(w *acmetest.World, o client.Object) {
	w.Helper()
	if err := w.Objects.Delete(w.Context(), o); err != nil {
		w.Fatal(err)
	}
}

// A request of the order's name that somebody else has made is not taken for that of
// the order.
func TestForeignRequest(t *testing.T) {
	w := acmetest.New(t, shared.Start(t))
	w.AutoApprove()
	o := w.Order(w.Preauthorized("a"))
	foreign := apitest.NewCSR(t, "acme-"+o.Name, w.SignerName, subjectOf(o), apitest.NewKey(t))
	foreign.Labels = map[string]string{v1alpha1.AcmeOrderLabel: o.Name, v1alpha1.AcmeAccountLabel: w.Account.Name, v1alpha1.AcmeEndpointLabel: w.Namespace}
	foreign.Annotations = map[string]string{v1alpha1.AcmeOrderAnnotation: o.Namespace + "/" + o.Name}
	w.Create(foreign)
	w.Finalize(o)
	invalid(w, o, rfc8555.ProblemServerInternal, "another request")
	if err := w.Objects.Get(t.Context(), client.ObjectKeyFromObject(foreign), foreign); err != nil || len(foreign.Status.Conditions) > 0 {
		t.Errorf("the foreign request: %+v, %v", foreign.Status, err)
	}
}

// An order whose profile has an issuer becomes a CertificateRequest that the order
// owns, made by the ServiceAccount.
func TestIssuer(t *testing.T) {
	w := acmetest.New(t, shared.Start(t), func(e *v1alpha1.AcmeEndpoint, _ *v1alpha1.AcmeExternalKey) {
		e.Spec.Profiles[0].Signer = nil
		e.Spec.Profiles[0].Issuer = &v1alpha1.AcmeIssuer{Group: "cert-manager.io", Kind: "Issuer", Name: "ca"}
	})
	makeCA(w)
	o := w.Order(w.Preauthorized("a"))
	w.Finalize(o)
	if o = w.Ended(o); o.Status.State != v1alpha1.AcmeOrderValid {
		t.Fatalf("the order is %+v", o.Status)
	}
	cr := &cmv1.CertificateRequest{}
	if err := w.Objects.Get(t.Context(), client.ObjectKey{Namespace: w.Namespace, Name: "acme-" + o.Name}, cr); err != nil {
		t.Fatal(err)
	}
	if cr.UID != o.Status.Request.UID || cr.Spec.Username != "system:serviceaccount:"+w.Namespace+":web" || !metav1.IsControlledBy(cr, o) {
		t.Errorf("the request is %+v", cr)
	}
}
