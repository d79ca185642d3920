package issuer_test

import (
	"context"
	"errors"
	"testing"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/issuer"
)

// A definition without the status subresource is the first thing to forget. The
// log says so, and the controller goes on when it is mended.
func TestKindWithoutStatus(t *testing.T) {
	w := start(t)
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := w.admin.Get(t.Context(), client.ObjectKey{Name: "remotes.test.example.com"}, crd); err != nil {
		t.Fatal(err)
	}
	status := crd.Spec.Versions[0].Subresources
	crd.Spec.Versions[0].Subresources = nil
	if err := w.admin.Update(t.Context(), crd); err != nil {
		t.Fatal(err)
	}
	hasStatus := func() bool {
		err := w.admin.Status().Patch(t.Context(), remote("ca"), client.RawPatch(types.MergePatchType, []byte("{}")))
		return err == nil
	}
	w.create(t, remote("ca"))
	apitest.Eventually(t, "there is no status", func() bool { return !hasStatus() })

	log, c := &journal{}, newCA(t)
	w.runWith(t, issuer.Controller{Sign: c.sign}, log.logger())
	w.create(t, request(t, "web", "ca", apitest.NewKey(t)))
	log.wants(t, "give its definition the status subresource")
	patch := client.RawPatch(types.JSONPatchType, []byte(`[{"op":"add","path":"/spec/versions/0/subresources","value":{"status":{}}}]`))
	if status == nil || w.admin.Patch(t.Context(), crd, patch) != nil {
		t.Fatal("the definition cannot be mended")
	}
	w.isReady(t, "ca", metav1.ConditionTrue, issuer.ReasonChecked)
	w.becomes(t, "web", cmv1.CertificateRequestReasonIssued)
}

// Whoever takes the condition of an issuer away gets it back, also where nothing
// else has it looked at again.
func TestConditionTakenAway(t *testing.T) {
	w := start(t)
	w.run(t, issuer.Controller{Sign: newCA(t).sign, Check: func(context.Context, issuer.Issuer) error {
		return issuer.Permanent(errors.New("no such host"))
	}})
	w.create(t, remote("ca"))
	w.isReady(t, "ca", metav1.ConditionFalse, issuer.ReasonFailed)
	patch := client.RawPatch(types.MergePatchType, []byte(`{"status":null}`))
	if err := w.admin.Status().Patch(t.Context(), remote("ca"), patch); err != nil {
		t.Fatal(err)
	}
	w.isReady(t, "ca", metav1.ConditionFalse, issuer.ReasonFailed)
}

// A certificate that comes while the controller stops is not lost.
func TestStops(t *testing.T) {
	w := start(t)
	c := newCA(t)
	working := make(chan bool)
	stop := w.runWith(t, issuer.Controller{Sign: func(ctx context.Context, r *issuer.Request) ([]byte, error) {
		close(working)
		<-ctx.Done()
		return c.sign(ctx, r)
	}}, (&journal{}).logger())
	w.create(t, remote("ca"), request(t, "web", "ca", apitest.NewKey(t)))
	<-working
	stop()
	w.becomes(t, "web", cmv1.CertificateRequestReasonIssued)
}

// A call that does not heed its context keeps no other from being made, and the
// log tells of it.
func TestOverdue(t *testing.T) {
	w := start(t)
	c := newCA(t)
	go_on := make(chan bool)
	log := &journal{}
	stop := w.runWith(t, issuer.Controller{Timeout: 100 * time.Millisecond, Concurrency: 2, Sign: func(ctx context.Context, r *issuer.Request) ([]byte, error) {
		if r.Object.GetName() == "stuck" {
			<-go_on
		}
		return c.sign(ctx, r)
	}}, log.logger())
	w.create(t, remote("ca"), request(t, "stuck", "ca", apitest.NewKey(t)))
	log.wants(t, "Sign does not return, though its context has ended")
	w.create(t, request(t, "web", "ca", apitest.NewKey(t)))
	w.becomes(t, "web", cmv1.CertificateRequestReasonIssued)
	close(go_on)
	w.becomes(t, "stuck", cmv1.CertificateRequestReasonIssued)
	stop()
}
