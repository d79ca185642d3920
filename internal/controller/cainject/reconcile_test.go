package cainject_test

import (
	"bytes"
	"context"
	"crypto/x509"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/controller/cainject"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/run/server"
)

// quiet is a server without controllers.
var quiet = &apitest.Shared{Options: []func(*server.Config){func(c *server.Config) { c.Controllers = []string{} }}}

// byHand is a target that is reconciled by hand.
type byHand struct {
	world
	config    cainject.Config
	clock     *clocktesting.FakePassiveClock
	events    *events.FakeRecorder
	writes    int
	before    func() // called before each write
	reconcile func(ctx context.Context, kind, name string) (reconcile.Result, error)
	hook      *admissionregistrationv1.ValidatingWebhookConfiguration
}

// newByHand returns a target whose source is the Secret "ca" with these CAs.
func newByHand(t *testing.T, cas ...*x509.Certificate) *byHand {
	t.Helper()
	b := &byHand{world: worldOf(t, quiet.Start(t)), clock: clocktesting.NewFakePassiveClock(time.Now()), events: events.NewFakeRecorder(100)}
	base, err := client.NewWithWatch(b.Admin(t), client.Options{Scheme: b.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	counted := interceptor.NewClient(base, interceptor.Funcs{
		Apply: func(ctx context.Context, api client.WithWatch, object runtime.ApplyConfiguration, options ...client.ApplyOption) error {
			b.writes++
			if b.before != nil {
				b.before()
			}
			return api.Apply(ctx, object, options...)
		},
	})
	b.config = cainject.Config{Client: counted, Settings: cainject.DefaultSettings(), Events: b.events, Clock: b.clock}
	b.reconcile = cainject.NewReconciler(b.config)
	b.secret(t, "ca", pki.EncodeCertificates(cas...), allowed, "true")
	b.hook = b.validating("hook", "cert-manager.io/inject-ca-from-secret", b.namespace+"/ca")
	return b
}

func (b *byHand) now(t *testing.T) reconcile.Result {
	t.Helper()
	result, err := b.reconcile(t.Context(), "ValidatingWebhookConfiguration", b.hook.Name)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Get(t.Context(), client.ObjectKeyFromObject(b.hook), b.hook); err != nil {
		t.Fatal(err)
	}
	return result
}

// reset writes the bundles of the target as another client.
func (b *byHand) reset(t *testing.T, manager string, bundle []byte) {
	t.Helper()
	for i := range b.hook.Webhooks {
		b.hook.Webhooks[i].ClientConfig.CABundle = bundle
	}
	if err := b.Update(t.Context(), b.hook, client.FieldOwner(manager)); err != nil {
		t.Fatal(err)
	}
}

func (b *byHand) said() string {
	select {
	case text := <-b.events.Events:
		return text
	default:
		return ""
	}
}

func has(hook *admissionregistrationv1.ValidatingWebhookConfiguration, cas ...*x509.Certificate) bool {
	for _, bundle := range bundles(hook) {
		if !bytes.Equal(bundle, pki.EncodeCertificates(cas...)) {
			return false
		}
	}
	return true
}

// What cert-manager has injected is not written again. Fields that an old version has updated
// become applied ones with the first change.
func TestTakeOver(t *testing.T) {
	one, two := newCA(t, "one"), newCA(t, "two")
	b := newByHand(t, one)
	b.create(t, b.hook)
	commented := append([]byte("# from a file\n"), pki.EncodeCertificates(one)...)
	b.reset(t, cainject.Component, commented)
	before := b.hook.ResourceVersion
	b.now(t)
	if b.hook.ResourceVersion != before || b.writes != 0 || b.said() != "" {
		t.Errorf("%d writes of what is right", b.writes)
	}
	b.hook.Webhooks[1].ClientConfig.CABundle = pki.EncodeCertificates(one, two) // stays as it is
	if err := b.Update(t.Context(), b.hook, client.FieldOwner(cainject.Component)); err != nil {
		t.Fatal(err)
	}
	patch := client.RawPatch(types.MergePatchType, []byte(`{"data":{"ca.crt":"`+encoded(two)+`"}}`))
	if err := b.Patch(t.Context(), b.secretNamed("ca"), patch); err != nil {
		t.Fatal(err)
	}
	b.now(t)
	if !has(b.hook, one, two) || b.writes != 1 {
		t.Errorf("%d writes, %s", b.writes, b.hook.Webhooks[0].ClientConfig.CABundle)
	}
	for _, entry := range b.hook.ManagedFields {
		if entry.Manager == cainject.Component && entry.Operation != metav1.ManagedFieldsOperationApply {
			t.Errorf("fields are still updated ones: %+v", entry)
		}
	}
	b.now(t)
	if b.writes != 1 {
		t.Errorf("%d writes", b.writes)
	}
	b.clock.SetTime(one.NotAfter.Add(time.Second))
	b.now(t)
	if b.writes != 1 {
		t.Error("written although all certificates of the source have expired")
	}
}

// A field that another client resets again and again is restored once a minute.
func TestContested(t *testing.T) {
	ca, other := newCA(t, "ca"), newCA(t, "other")
	b := newByHand(t, ca)
	b.create(t, b.hook)
	b.now(t)
	for i := range 6 {
		b.reset(t, "argocd", pki.EncodeCertificates(other))
		if result := b.now(t); result.RequeueAfter != 0 || !has(b.hook, other, ca) {
			t.Fatalf("reset %d: %+v", i, result)
		}
	}
	for text := b.said(); text != ""; text = b.said() {
		if !strings.HasPrefix(text, "Normal CAInjected") {
			t.Errorf("%s", text)
		}
	}
	for range 3 { // each for a minute
		b.reset(t, "argocd", pki.EncodeCertificates(other))
		writes := b.writes
		if result := b.now(t); result.RequeueAfter != time.Minute || b.writes != writes {
			t.Errorf("one more: %+v, %d writes more", result, b.writes-writes)
		}
		b.clock.SetTime(b.clock.Now().Add(time.Minute))
		if b.now(t); b.writes != writes+1 || !has(b.hook, other, ca) {
			t.Errorf("a minute later: %d writes more", b.writes-writes)
		}
	}
	if text := b.said(); !strings.HasPrefix(text, "Warning CAInjectionContested The field manager argocd resets") {
		t.Errorf("%q", text)
	}
	if text := b.said(); text != "" {
		t.Errorf("one Event more: %s", text)
	}
	b.clock.SetTime(b.clock.Now().Add(20 * time.Minute))
	b.reset(t, "argocd", pki.EncodeCertificates(other))
	if result := b.now(t); result.RequeueAfter != 0 || !has(b.hook, other, ca) || !strings.HasPrefix(b.said(), "Normal CAInjected") {
		t.Errorf("after a while: %+v", result)
	}
}

// A webhook that is removed between the read and the write does not come back.
func TestChangedMeanwhile(t *testing.T) {
	ca := newCA(t, "ca")
	b := newByHand(t, ca)
	b.create(t, b.hook)
	b.before = func() {
		b.before = nil
		if err := b.Patch(t.Context(), b.hook, client.RawPatch(types.JSONPatchType, []byte(`[{"op":"remove","path":"/webhooks/1"}]`))); err != nil {
			t.Fatal(err)
		}
	}
	if result := b.now(t); result.RequeueAfter != time.Second || b.said() != "" {
		t.Errorf("%+v", result)
	}
	b.now(t)
	if len(b.hook.Webhooks) != 1 || !has(b.hook, ca) {
		t.Errorf("%+v", b.hook.Webhooks)
	}
}

// A write that the API refuses has one Event, and is tried again after a while.
func TestRefused(t *testing.T) {
	b := newByHand(t, newCA(t, "ca"))
	b.create(t, b.hook)
	refusing := interceptor.NewClient(b.config.Client.(client.WithWatch), interceptor.Funcs{
		Apply: func(_ context.Context, _ client.WithWatch, object runtime.ApplyConfiguration, _ ...client.ApplyOption) error {
			return apierrors.NewInvalid(schema.GroupKind{Kind: "ValidatingWebhookConfiguration"}, b.hook.Name, nil)
		},
	})
	b.config.Client = refusing
	b.reconcile = cainject.NewReconciler(b.config)
	for i, want := range []string{"Warning CAInjectionRefused The API has refused to write the CA: ", ""} {
		if result := b.now(t); result.RequeueAfter != 10*time.Minute {
			t.Errorf("%+v", result)
		}
		if text := b.said(); !strings.HasPrefix(text, want) || want == "" && text != "" {
			t.Errorf("%d: %q", i, text)
		}
	}
}

// The settings exclude sources, and a source that is gone keeps the field.
func TestExcluded(t *testing.T) {
	ca := newCA(t, "ca")
	b := newByHand(t, ca)
	b.create(t, b.hook)
	excluding := b.config
	excluding.Settings.Namespace = "elsewhere"
	b.reconcile = cainject.NewReconciler(excluding)
	b.now(t)
	if text := b.said(); b.writes != 0 || !strings.HasPrefix(text, "Warning CASourceNotAllowed The configuration of the controller (caInjector) excludes sources in the namespace "+b.namespace) {
		t.Errorf("%d writes, %q", b.writes, text)
	}
	b.reconcile = cainject.NewReconciler(b.config)
	b.now(t)
	if err := b.Delete(t.Context(), b.secretNamed("ca")); err != nil {
		t.Fatal(err)
	}
	b.now(t)
	if !has(b.hook, ca) || b.writes != 1 {
		t.Errorf("%d writes", b.writes)
	}
}

// A kind that the API does not have is not an error.
func TestNoKind(t *testing.T) {
	b := newByHand(t, newCA(t, "ca"))
	if result, err := b.reconcile(t.Context(), "APIService", "v1.example.com"); err != nil || !result.IsZero() {
		t.Errorf("%+v, %v", result, err)
	}
}
