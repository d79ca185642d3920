package issuer_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/issuer"
)

// A CRD without the status subresource is a common mistake. The controller logs
// it, and continues once the CRD is fixed.
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

// What a definition drops is not taken for written, over and over.
func TestConditionsNotKept(t *testing.T) {
	w := start(t)
	patch := client.RawPatch(types.JSONPatchType, []byte(`[{"op":"remove","path":"/spec/versions/0/schema/openAPIV3Schema/properties/status/properties/conditions"}]`))
	if err := w.admin.Patch(t.Context(), definition("Remote", "remotes", apiextensionsv1.NamespaceScoped), patch); err != nil {
		t.Fatal(err)
	}
	w.create(t, remote("probe"))
	apitest.Eventually(t, "conditions are dropped", func() bool {
		i := &Remote{ObjectMeta: metav1.ObjectMeta{Name: "probe"}}
		condition := client.RawPatch(types.MergePatchType, []byte(`{"status":{"conditions":[{"type":"Probe"}]}}`))
		return w.admin.Status().Patch(t.Context(), i, condition) == nil && len(i.Status.Conditions) == 0
	})
	log := &journal{}
	w.runWith(t, issuer.Controller{Sign: newCA(t).sign}, log.logger())
	log.wants(t, "the API does not keep status.conditions")
	if strings.Contains(log.String(), "Issuer has changed") {
		t.Errorf("it says that the condition was written:\n%s", log)
	}
}

// The controller restores the condition of an issuer when another client
// removes it, even if there is no other reason to check the issuer again.
func TestConditionTakenAway(t *testing.T) {
	w := share(t, &common)
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
	w := share(t, &common)
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

// lagging is a cache that hears of approvals and of nothing later.
type lagging struct {
	cache.Cache
	looks atomic.Int64 // at the request "web"

	mu   sync.Mutex
	last map[string]*cmv1.CertificateRequest // by name; mu guards it
}

// old makes a request what it was when it was approved.
func (l *lagging) old(cr *cmv1.CertificateRequest) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if approved := l.last[cr.Name]; approved != nil {
		approved.DeepCopyInto(cr)
	} else if api.RequestIs(cr, cmv1.CertificateRequestConditionApproved) {
		l.last[cr.Name] = cr.DeepCopy()
	}
}

func (l *lagging) Get(ctx context.Context, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
	err := l.Cache.Get(ctx, key, into, options...)
	if cr, ok := into.(*cmv1.CertificateRequest); ok && err == nil {
		l.old(cr)
		if cr.Name == "web" {
			l.looks.Add(1)
		}
	}
	return err
}

func (l *lagging) List(ctx context.Context, into client.ObjectList, options ...client.ListOption) error {
	err := l.Cache.List(ctx, into, options...)
	if list, ok := into.(*cmv1.CertificateRequestList); ok && err == nil {
		for i := range list.Items {
			l.old(&list.Items[i])
		}
	}
	return err
}

// A request is signed once, however old the cache is: otherwise the CA would
// issue another certificate that is not used.
func TestSignedOnce(t *testing.T) {
	w := share(t, &common)
	c := newCA(t)
	behind := &lagging{last: map[string]*cmv1.CertificateRequest{}}
	log := &journal{}
	w.runWith(t, issuer.Controller{Concurrency: 1, Sign: c.sign}, log.logger(), func(o *ctrl.Options) {
		o.NewCache = func(config *rest.Config, options cache.Options) (_ cache.Cache, err error) {
			behind.Cache, err = cache.New(config, options)
			return behind, err
		}
	})
	w.create(t, remote("ca"), request(t, "web", "ca", apitest.NewKey(t)))
	w.becomes(t, "web", cmv1.CertificateRequestReasonIssued)
	looks := behind.looks.Load()
	w.point(t, "ca", "https://elsewhere") // wakes what seems to wait for it
	apitest.Eventually(t, "the request is looked at again", func() bool { return behind.looks.Load() > looks })
	w.create(t, request(t, "next", "ca", apitest.NewKey(t)))
	w.becomes(t, "next", cmv1.CertificateRequestReasonIssued) // one at a time: that look is over
	if n := c.asked("web"); n != 1 {
		t.Errorf("the CA was asked %d times:\n%s", n, log)
	}
}

// A call that ignores its context does not block other calls, and the
// controller logs it.
func TestOverdue(t *testing.T) {
	w := share(t, &common)
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
