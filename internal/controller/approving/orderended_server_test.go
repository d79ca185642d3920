package approving_test

import (
	"slices"
	"testing"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/apitest/acmetest"
	"github.com/certplane/certplane/internal/policy/acmeorder"
	"github.com/certplane/certplane/internal/policy/request"
)

// The request to an issuer of an order that has ended is denied: nobody approves it
// afterwards.
func TestEndedOrder(t *testing.T) {
	w := acmetest.New(t, alone.Start(t), func(e *v1alpha1.AcmeEndpoint, _ *v1alpha1.AcmeExternalKey) {
		e.Spec.Profiles[0].Signer, e.Spec.Profiles[0].Issuer = nil, &v1alpha1.AcmeIssuer{Group: "cert-manager.io", Kind: "Issuer", Name: "mesh"}
	})
	o := named(w)
	cr, err := acmeorder.CertificateRequest(o, w.Account, &w.Endpoint.Spec.Profiles[0], time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	who := request.ServiceAccount(w.Namespace, acmetest.ServiceAccount)
	as, err := client.New(w.Server.As(t, who.Username, who.Groups...), client.Options{Scheme: w.Objects.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	if err := as.Create(t.Context(), cr); err != nil {
		t.Fatal(err)
	}
	o.Status = *acmeorder.RecordRequest(o, cr.UID, time.Now())
	w.UpdateStatus(o)
	if w.Objects.Get(t.Context(), client.ObjectKeyFromObject(cr), cr) != nil || len(cr.Status.Conditions) > 0 {
		t.Errorf("before the end: %+v", cr.Status.Conditions)
	}
	o.Status = *acmeorder.Fail(o, acmeorder.AccountGone(), nil, time.Now())
	w.UpdateStatus(o)
	apitest.Eventually(t, "the request is denied", func() bool {
		err := w.Objects.Get(t.Context(), client.ObjectKeyFromObject(cr), cr)
		return err == nil && slices.ContainsFunc(cr.Status.Conditions, func(c cmv1.CertificateRequestCondition) bool {
			return c.Type == cmv1.CertificateRequestConditionDenied && c.Reason == acmeorder.ReasonOrderEnded
		})
	})
}
