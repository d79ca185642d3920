package approving_test

import (
	"strings"
	"testing"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/api/approverpolicy"
	api "github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/run/server"
)

const component = "cert-manager-certificaterequests-approver"

func connect(t *testing.T, w *apitest.Server) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, api.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	admin, err := client.New(w.Admin(t), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return admin
}

func create(t *testing.T, admin client.Client, name string, ref cmmeta.IssuerReference) *cmv1.CertificateRequest {
	t.Helper()
	csr, err := pki.NewRequest(pki.Subject{CommonName: name}, apitest.NewKey(t))
	if err != nil {
		t.Fatal(err)
	}
	cr := &cmv1.CertificateRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       cmv1.CertificateRequestSpec{IssuerRef: ref, Request: csr},
	}
	if err := admin.Create(t.Context(), cr); err != nil {
		t.Fatal(err)
	}
	return cr
}

// Every request that the approver may approve is approved, whether its issuer
// exists or not. An Event says why others are not.
func TestApprover(t *testing.T) {
	admin := connect(t, apitest.Start(t))
	for _, kind := range []string{"", cmv1.IssuerKind, cmv1.ClusterIssuerKind} {
		cr := create(t, admin, "of-"+strings.ToLower(kind)+"x", cmmeta.IssuerReference{Name: "later", Kind: kind})
		apitest.Eventually(t, cr.Name+" is approved", func() bool {
			if err := admin.Get(t.Context(), client.ObjectKeyFromObject(cr), cr); err != nil {
				t.Fatal(err)
			}
			return api.RequestIs(cr, cmv1.CertificateRequestConditionApproved)
		})
		approved := api.RequestCondition(cr, cmv1.CertificateRequestConditionApproved)
		if approved.Reason != "cert-manager.io" || approved.Message != "Certificate request has been approved by cert-manager.io" {
			t.Errorf("%+v", approved)
		}
	}
	outside := create(t, admin, "outside", cmmeta.IssuerReference{Name: "x", Kind: "Remote", Group: "example.com"})
	apitest.Eventually(t, "an Event tells why it is not approved", func() bool {
		list := &eventsv1.EventList{}
		if err := admin.List(t.Context(), list); err != nil {
			t.Fatal(err)
		}
		for _, e := range list.Items {
			if e.Regarding.Name == "outside" && e.ReportingController == component && e.Reason == "ApprovalForbidden" {
				return strings.Contains(e.Note, "referenced signer resource does not exist")
			}
		}
		return false
	})
	if err := admin.Get(t.Context(), client.ObjectKeyFromObject(outside), outside); err != nil || len(outside.Status.Conditions) > 0 {
		t.Errorf("%+v, %v", outside.Status, err)
	}
}

// approver-policy beside the approver is reported on its Lease, once for each
// process of it that holds it.
func TestOtherApprover(t *testing.T) {
	admin := connect(t, apitest.Start(t))
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: approverpolicy.LeaseName}}
	lease.Spec.LeaseDurationSeconds = new(int32(15))
	if err := admin.Create(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	for _, holder := range []string{"pod-1_a", "pod-2_b"} {
		lease.Spec.HolderIdentity, lease.Spec.RenewTime = &holder, &metav1.MicroTime{Time: time.Now()}
		if err := admin.Update(t.Context(), lease); err != nil {
			t.Fatal(err)
		}
		pod, _, _ := strings.Cut(holder, "_")
		apitest.Eventually(t, "an Event tells of "+pod, func() bool {
			list := &eventsv1.EventList{}
			if err := admin.List(t.Context(), list, client.InNamespace("default")); err != nil {
				t.Fatal(err)
			}
			told := 0
			for _, e := range list.Items {
				if e.Regarding.Kind == "Lease" && e.Regarding.UID == lease.UID && e.Reason == "OtherApprover" && e.Type == "Warning" &&
					e.ReportingController == component && e.Related != nil && e.Related.Kind == "Pod" && e.Related.Name == pod {
					told++
				}
			}
			return told == 1
		})
	}
}

// If CAs are reviewed, requests for them wait for a person and report that. All
// others are approved as usual.
func TestReviewCAs(t *testing.T) {
	admin := connect(t, apitest.Start(t, func(cfg *server.Config) { cfg.CertManager.ReviewCAs = true }))
	changes := map[string]func(*cmv1.CertificateRequestSpec){
		"is-ca":     func(s *cmv1.CertificateRequestSpec) { s.IsCA, s.Usages = true, []cmv1.KeyUsage{"cert sign"} },
		"cert-sign": func(s *cmv1.CertificateRequestSpec) { s.Usages = []cmv1.KeyUsage{"signing", "cert sign"} },
		"web":       func(*cmv1.CertificateRequestSpec) {},
	}
	for name, change := range changes {
		csr, err := pki.NewRequest(pki.Subject{CommonName: name}, apitest.NewKey(t))
		if err != nil {
			t.Fatal(err)
		}
		cr := &cmv1.CertificateRequest{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
			Spec:       cmv1.CertificateRequestSpec{IssuerRef: cmmeta.IssuerReference{Name: "later"}, Request: csr},
		}
		change(&cr.Spec)
		if err := admin.Create(t.Context(), cr); err != nil {
			t.Fatal(err)
		}
	}
	decided := func(name string) bool {
		cr := &cmv1.CertificateRequest{}
		if err := admin.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: name}, cr); err != nil {
			t.Fatal(err)
		}
		return api.RequestCondition(cr, cmv1.CertificateRequestConditionApproved) != nil
	}
	apitest.Eventually(t, "what is no CA is approved", func() bool { return decided("web") })
	apitest.Eventually(t, "the others say who decides", func() bool {
		list := &eventsv1.EventList{}
		if err := admin.List(t.Context(), list, client.InNamespace("default")); err != nil {
			t.Fatal(err)
		}
		told := map[string]bool{}
		for _, event := range list.Items {
			if event.Reason == "ReviewRequired" && strings.Contains(event.Note, "certplane approve -n default "+event.Regarding.Name) {
				told[event.Regarding.Name] = true
			}
		}
		return told["is-ca"] && told["cert-sign"] && !told["web"]
	})
	for _, name := range []string{"is-ca", "cert-sign"} {
		if decided(name) {
			t.Errorf("%s is approved", name)
		}
	}
}
