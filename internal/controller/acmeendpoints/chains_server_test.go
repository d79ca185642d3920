package acmeendpoints_test

import (
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/controller/acmeendpoints"
)

// An endpoint says whether the roots that its profiles prefer are published, and refuses
// what cannot be known.
func TestPreferredRoots(t *testing.T) {
	w := run(t, acmeendpoints.Server{ExternalURL: url})
	e := w.Endpoint
	conditions := func() []metav1.Condition { return e.Status.Conditions }
	says(w, e, conditions, v1alpha1.Ready, metav1.ConditionTrue, "Ready")
	apitest.Eventually(t, "the root of the signer is known", func() bool {
		w.Change(e, func() {})
		return len(e.Status.Roots) == 1
	})
	name, since := e.Status.Roots[0].CommonName, e.Status.Roots[0].Published
	w.Change(e, func() {
		e.Spec.Profiles[0].Chains = []v1alpha1.AcmeChain{{Root: name}, {Root: "no such root"}}
	})
	says(w, e, conditions, "ChainsPublished", metav1.ConditionFalse, "RootUnknown")
	w.Change(e, func() { e.Spec.Profiles[0].Chains = e.Spec.Profiles[0].Chains[:1] })
	says(w, e, conditions, "ChainsPublished", metav1.ConditionTrue, "Published")
	if !e.Status.Roots[0].Published.Equal(&since) {
		t.Errorf("the root is published since %s, and was since %s", e.Status.Roots[0].Published, since)
	}

	refused := e.DeepCopy()
	refused.Spec.Profiles[0].Signer, refused.Spec.Profiles[0].Issuer = nil, &v1alpha1.AcmeIssuer{Group: "cert-manager.io", Kind: "Issuer", Name: "mesh"}
	refused.Spec.Profiles[0].Overlap = &metav1.Duration{Duration: time.Hour}
	if err := w.Objects.Update(t.Context(), refused); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "overlap needs a signer") {
		t.Errorf("an overlap of an issuer: %v", err)
	}
}
