package explain

import (
	"context"
	"errors"
	"testing"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/certplane/certplane/internal/api/certmanager"
)

// cached is an API whose objects are in memory, as in a controller. Its caller
// has all permissions.
type cached struct{ client.Reader }

func (cached) Resource(_ context.Context, kind schema.GroupKind) (certmanager.Resource, error) {
	if kind != (schema.GroupKind{Group: certmanager.Group, Kind: cmv1.IssuerKind}) {
		return certmanager.Resource{}, certmanager.ErrNoResource
	}
	return certmanager.Resource{Version: "v1", Name: "issuers", Namespaced: true}, nil
}

func (cached) May(context.Context, authorizationv1.SubjectAccessReviewSpec) (bool, error) {
	return true, nil
}

func (cached) MayI(context.Context, authorizationv1.ResourceAttributes) (bool, error) {
	return true, nil
}

// A cache with the indexes that Reader names is enough for an explanation.
func TestCache(t *testing.T) {
	kinds := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, certmanager.AddToScheme} {
		if err := add(kinds); err != nil {
			t.Fatal(err)
		}
	}
	web := &cmv1.Certificate{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "uid-web"},
		Spec:       cmv1.CertificateSpec{SecretName: "web-tls", IssuerRef: cmmeta.IssuerReference{Name: "own"}},
	}
	certmanager.SetCertificateCondition(web, cmv1.CertificateConditionReady, cmmeta.ConditionTrue, "Ready", "is up to date", metav1.NewTime(now))
	event := func(uid types.UID, note string) *eventsv1.Event {
		return &eventsv1.Event{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: string(uid)}, Regarding: corev1.ObjectReference{UID: uid}, Note: note,
		}
	}
	objects := fake.NewClientBuilder().WithScheme(kinds).WithObjects(
		web, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-tls"}},
		&cmv1.ClusterIssuer{ObjectMeta: metav1.ObjectMeta{Name: "own"}},
		event(web.UID, "issued"), event("uid-other", "not this one"),
	).WithIndex(&eventsv1.Event{}, "regarding.uid", func(o client.Object) []string {
		return []string{string(o.(*eventsv1.Event).Regarding.UID)}
	}).Build()

	f, err := GatherCertificate(t.Context(), cached{objects}, Query{Namespace: "shop", Name: "web", Now: now}, true)
	if err != nil {
		t.Fatal(err)
	}
	if f.Issuer.Exists != No || f.Issuer.near == nil || f.SecretExists != Yes || len(f.Events.List) != 1 || f.Events.List[0].Note != "issued" {
		t.Errorf("issuer %+v, Secret %s, events %+v", f.Issuer, f.SecretExists, f.Events)
	}
	if e := f.Explain(); e.Verdict != "web is ready" || e.State != CertificateReady {
		t.Errorf("%s: %s", e.State, e.Verdict)
	}
	_, err = IssuedCertificate(t.Context(), cached{objects}, Query{Namespace: "shop", Name: "none"})
	var absent *NotFoundError
	if !errors.As(err, &absent) || absent.KindMissing {
		t.Errorf("error %v", err)
	}
}
