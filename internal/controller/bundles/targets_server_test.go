package bundles_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/api/trustmanager"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/run/server"
)

// Keystores differ with each encoding. They are not written again because of that, in many
// passes, with changed but equal sources, and after restarts; all targets have the same bytes.
func TestStableTargets(t *testing.T) {
	w := worldOf(t, apitest.Start(t))
	cert, text := newCA(t, "ca")
	w.source(t, w.name, nil, map[string]string{"one": text})
	w.bundleTo(t, trustmanager.BundleTarget{ConfigMap: template("ca.crt"), AdditionalFormats: &trustmanager.AdditionalFormats{
		JKS:    &trustmanager.JKS{KeySelector: trustmanager.KeySelector{Key: "ca.jks"}},
		PKCS12: &trustmanager.PKCS12{KeySelector: trustmanager.KeySelector{Key: "ca.p12"}, Password: ptr.To("secret"), Profile: "Modern2023"},
	}}, trustmanager.BundleSource{ConfigMap: &trustmanager.ObjectKeys{Name: w.name, Key: "one"}})
	w.await(t, "Synced")
	before := w.target(t, w.namespaces[0])
	if other := w.target(t, w.namespaces[1]); !bytes.Equal(before.BinaryData["ca.p12"], other.BinaryData["ca.p12"]) {
		t.Error("the keystore was encoded twice")
	}
	for i := range 24 {
		if i%8 == 7 {
			w.Restart(t)
			w.connect(t)
		}
		source := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: trustNamespace, Name: w.name}}
		if err := w.Patch(t.Context(), source, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"data":{"other":"%d"}}`, i))); err != nil {
			t.Fatal(err)
		}
		// The other target is restored by a pass that looks at both.
		if err := w.Delete(t.Context(), w.target(t, w.namespaces[1])); err != nil {
			t.Fatal(err)
		}
		w.awaitData(t, pemOf(cert))
		if now := w.target(t, w.namespaces[0]); now.ResourceVersion != before.ResourceVersion {
			t.Fatalf("round %d: the target was written", i)
		}
	}
}

// connect makes the client again after a restart, which changes the address.
func (w *world) connect(t *testing.T) {
	t.Helper()
	again, err := client.New(w.Admin(t), client.Options{Scheme: w.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	w.Client = again
}

// targetNamespaces and secretTargets limit the namespaces, and the Bundles that write Secrets.
func TestLimitedTargets(t *testing.T) {
	w := worldOf(t, apitest.Start(t, func(c *server.Config) {
		c.TrustManager.TargetNamespaces, c.TrustManager.SecretTargets = []string{"allowed", "missing"}, []string{"roots"}
	}))
	w.create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "allowed", Labels: map[string]string{"of": w.name}}})
	w.namespaces, w.name = append(w.namespaces, "allowed"), "roots"
	cert, text := newCA(t, "ca")
	w.bundleTo(t, trustmanager.BundleTarget{ConfigMap: template("ca.crt"), Secret: template("ca.crt")}, inLine(text))
	if got, want := w.await(t, "Synced"), "Successfully synced Bundle to allowed namespaces that match this label selector: of="+w.namespaces[0]; got != want {
		t.Errorf("message %q, want %q", got, want)
	}
	for _, namespace := range w.namespaces {
		stored := w.target(t, namespace)
		secret := &corev1.Secret{}
		err := w.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: w.name}, secret)
		if namespace != "allowed" {
			if stored != nil || !apierrors.IsNotFound(err) {
				t.Errorf("%s has the targets %v, %v", namespace, stored, secret)
			}
		} else if stored == nil || err != nil || stored.Data["ca.crt"] != pemOf(cert) || string(secret.Data["ca.crt"]) != pemOf(cert) {
			t.Errorf("allowed has the targets %v, %v: %v", stored, secret, err)
		}
	}
	w.name = "others"
	w.bundleTo(t, trustmanager.BundleTarget{Secret: template("ca.crt")}, inLine(text))
	w.await(t, "SecretTargetsDisabled")
	apitest.Eventually(t, "an Event", func() bool {
		return slices.Contains(w.events(t), "Warning SecretTargetsDisabled SyncFailed bundles")
	})
}

// A namespace that is being deleted gets no target, and does not make the Bundle fail.
func TestTerminatingNamespace(t *testing.T) {
	w := newWorld(t)
	for _, namespace := range w.namespaces {
		held := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "held", Finalizers: []string{"example.com/held"}}}
		w.create(t, held)
		t.Cleanup(func() {
			_ = w.Patch(context.Background(), held, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))
		})
	}
	terminate := func(namespace string) {
		t.Helper()
		object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
		if err := w.Delete(t.Context(), object); err != nil {
			t.Fatal(err)
		}
		apitest.Eventually(t, "the namespace is terminating", func() bool {
			err := w.Get(t.Context(), client.ObjectKeyFromObject(object), object)
			return err == nil && object.Status.Phase == corev1.NamespaceTerminating
		})
	}
	terminate(w.namespaces[0])
	one, text := newCA(t, "one")
	w.bundle(t, inLine(text))
	w.await(t, "Synced")
	if w.target(t, w.namespaces[0]) != nil {
		t.Error("a namespace that is being deleted has a target")
	}
	if got := w.target(t, w.namespaces[1]); got == nil || got.Data["ca.crt"] != pemOf(one) {
		t.Errorf("the other namespace has %v", got)
	}

	terminate(w.namespaces[1])
	apitest.Eventually(t, "the target is gone", func() bool { return w.target(t, w.namespaces[1]) == nil })
	two, more := newCA(t, "two")
	last := apitest.OwnNamespace(t, apitest.Client(t, w.Admin(t)))
	w.label(t, last, w.name)
	w.change(t, func(b *trustmanager.Bundle) { b.Spec.Sources = append(b.Spec.Sources, inLine(more)) })
	w.await(t, "Synced")
	if got := w.target(t, last); got == nil || got.Data["ca.crt"] != pemOf(one, two) {
		t.Errorf("a new namespace has %v", got)
	}
	apitest.Eventually(t, "an Event", func() bool { return len(w.events(t)) > 0 })
	if got := w.events(t); !slices.Equal(got, []string{"Normal Synced Synced bundles"}) {
		t.Errorf("Events %v", got)
	}
}
