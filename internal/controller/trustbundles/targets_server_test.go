package trustbundles_test

import (
	"bytes"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	pkcs12 "software.sslmate.com/src/go-pkcs12"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/controller/trustbundles"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/issuance/keystorefile"
	"github.com/certplane/certplane/internal/policy/truststore"
	"github.com/certplane/certplane/internal/run/server"
)

// certificates returns the certificates of CAs, sorted as in targets.
func certificates(cas ...ca) []*x509.Certificate {
	set := truststore.Set{}
	for _, ca := range cas {
		set.Add(ca.Certificate())
	}
	return set.Certificates()
}

func (w world) cluster(t *testing.T) *certificatesv1.ClusterTrustBundle {
	t.Helper()
	stored := &certificatesv1.ClusterTrustBundle{}
	if err := w.Get(t.Context(), client.ObjectKey{Name: w.namespace}, stored); client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	return stored
}

// All kinds of targets have the roots, also as keystores, and are kept so.
func TestTargets(t *testing.T) {
	w := newWorld(t)
	a, b := newCA(t, "a"), newCA(t, "b")
	roots := w.configMap(t, "roots", a.pem)
	w.create(t, w.bundle(t, "trust", `[{"configMap": {"name": "roots", "key": "ca.crt"}}], "target": {
		"configMap": {"formats": [{"key": "a.jks", "format": "JKS"}, {"key": "a.p12", "format": "PKCS12", "password": "secret"}]},
		"secret": {"name": "store", "key": "roots.pem", "formats": [{"key": "b.jks", "format": "JKS", "password": "other"}, {"key": "b.p12", "format": "PKCS12"}]},
		"clusterTrustBundle": {"name": "`+w.namespace+`"}}`))
	config, store := &corev1.ConfigMap{}, &corev1.Secret{}
	holds := func(cas ...ca) func() bool {
		certs := certificates(cas...)
		pem := string(pki.EncodeCertificates(certs...))
		jks := func(password string) []byte {
			data, err := keystorefile.RootsJKS(certs, password)
			if err != nil {
				t.Fatal(err)
			}
			return data
		}
		p12 := func(data []byte, password string) bool {
			decoded, err := pkcs12.DecodeTrustStore(data, password)
			return err == nil && string(pki.EncodeCertificates(decoded...)) == pem
		}
		return func() bool {
			if w.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: "trust"}, config) != nil || w.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: "store"}, store) != nil {
				return false
			}
			return len(config.Data) == 1 && config.Data["ca.crt"] == pem && len(config.BinaryData) == 2 && bytes.Equal(config.BinaryData["a.jks"], jks("changeit")) && p12(config.BinaryData["a.p12"], "secret") &&
				len(store.Data) == 3 && string(store.Data["roots.pem"]) == pem && bytes.Equal(store.Data["b.jks"], jks("other")) && p12(store.Data["b.p12"], "") &&
				w.cluster(t).Spec.TrustBundle == pem
		}
	}
	apitest.Eventually(t, "the targets have the root", holds(a))
	if got := w.await(t, "trust", "Synced"); got != "3 targets have the roots of all sources." {
		t.Error(got)
	}
	if !strings.Contains(string(config.BinaryData["a.p12"]), "\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x05\x0d") { // PBES2
		t.Error("the profile is not Modern2023")
	}
	bundle := &v1alpha1.TrustBundle{}
	w.get(t, bundle, w.namespace, "trust")
	if !metav1.IsControlledBy(store, bundle) || store.Annotations["certplane.dev/roots-digest"] != bundle.Status.Digest || len(w.cluster(t).OwnerReferences) > 0 {
		t.Errorf("the Secret has %+v, the ClusterTrustBundle %+v", store.ObjectMeta, w.cluster(t).ObjectMeta)
	}

	// Targets that are right are not written again, although each encoding of a keystore differs.
	versions := config.ResourceVersion + store.ResourceVersion + w.cluster(t).ResourceVersion
	w.change(t, "trust", func(b *v1alpha1.TrustBundle) { b.Spec.Overlap = &metav1.Duration{Duration: time.Hour} })
	w.await(t, "trust", "Synced")
	if apitest.Eventually(t, "they are read", holds(a)); versions != config.ResourceVersion+store.ResourceVersion+w.cluster(t).ResourceVersion {
		t.Error("targets are written again")
	}
	// A root is added, and changes of other clients are reverted.
	roots.Data["ca.crt"] += b.pem
	if err := w.Update(t.Context(), roots); err != nil {
		t.Fatal(err)
	}
	apitest.Eventually(t, "the targets have both roots", holds(a, b))
	for _, change := range []func() error{
		func() error {
			store.Data["b.p12"], store.Data["more"] = nil, []byte("x")
			return w.Update(t.Context(), store)
		},
		func() error {
			config.BinaryData["a.p12"] = store.Data["roots.pem"]
			return w.Update(t.Context(), config)
		},
		func() error {
			changed := w.cluster(t)
			changed.Spec.TrustBundle = a.pem
			return w.Update(t.Context(), changed)
		},
		func() error { return w.Delete(t.Context(), w.cluster(t)) },
	} {
		if err := change(); err != nil {
			t.Fatal(err)
		}
		apitest.Eventually(t, "the targets are restored", holds(a, b))
	}
	// Former targets are deleted, and all with the TrustBundle.
	w.change(t, "trust", func(b *v1alpha1.TrustBundle) { b.Spec.Target.Secret = nil })
	apitest.Eventually(t, "the Secret is gone", func() bool {
		return apierrors.IsNotFound(w.Get(t.Context(), client.ObjectKeyFromObject(store), store))
	})
	w.await(t, "trust", "Synced")
	if err := w.Delete(t.Context(), bundle); err != nil {
		t.Fatal(err)
	}
	apitest.Eventually(t, "the targets are gone", func() bool {
		return w.cluster(t).Name == "" && apierrors.IsNotFound(w.Get(t.Context(), client.ObjectKeyFromObject(config), config))
	})
}

// Users of a namespace write a ClusterTrustBundle only if they may do so themselves. One of others
// is never overwritten.
func TestClusterTargetRights(t *testing.T) {
	w := newWorld(t)
	root, user := newCA(t, "root"), "ann-"+w.namespace
	w.create(t, &rbacv1.RoleBinding{ObjectMeta: w.named("ann"), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "certplane-trust-edit"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}}})
	ann, err := client.New(w.As(t, user), client.Options{Scheme: w.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	spec := `[{"inLine": ` + quoted(root.pem) + `}], "target": {"clusterTrustBundle": {"name": "` + w.namespace + `"}}`
	refused := func(verb string, write func() error) {
		t.Helper()
		want := fmt.Sprintf(`spec.target.clusterTrustBundle needs the verb %q on clustertrustbundles %q of certificates.k8s.io`, verb, w.namespace)
		apitest.Eventually(t, "the write is refused", func() bool { // roles take a moment
			err := write()
			return apierrors.IsForbidden(err) && strings.Contains(err.Error(), want)
		})
	}
	refused("create", func() error { return ann.Create(t.Context(), w.bundle(t, "trust", spec)) })
	w.Grant(t, user, apitest.Allow("create", "clustertrustbundles", w.namespace))
	refused("update", func() error { return ann.Create(t.Context(), w.bundle(t, "trust", spec)) })

	// Neither the field nor the sources of an existing one, but labels.
	w.create(t, w.bundle(t, "plain", `[{"inLine": `+quoted(root.pem)+`}]`))
	w.create(t, w.bundle(t, "trust", spec))
	w.await(t, "trust", "Synced")
	bundle := &v1alpha1.TrustBundle{}
	patched := func(name, patch string) func() error {
		return func() error {
			bundle.Namespace, bundle.Name = w.namespace, name
			return ann.Patch(t.Context(), bundle.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(patch)))
		}
	}
	refused("update", patched("plain", `{"spec": {"target": {"clusterTrustBundle": {"name": "`+w.namespace+`"}}}}`))
	refused("update", patched("trust", `{"spec": {"sources": [{"inLine": `+quoted(newCA(t, "evil").pem)+`}]}}`))
	if err := patched("trust", `{"metadata": {"labels": {"a": "b"}}}`)(); err != nil {
		t.Errorf("a label: %v", err)
	}
	if got := subjects(w.cluster(t).Spec.TrustBundle); got != "root" {
		t.Errorf("the ClusterTrustBundle has %s", got)
	}

	// With both rights, the write is possible, but the ClusterTrustBundle is taken.
	w.Grant(t, user+"-2", apitest.Allow("create update", "clustertrustbundles", w.namespace))
	binding := &rbacv1.ClusterRoleBinding{}
	w.get(t, binding, "", "granted:"+user+"-2")
	binding.Subjects[0].Name = user
	if err := w.Update(t.Context(), binding); err != nil {
		t.Fatal(err)
	}
	apitest.Eventually(t, "ann writes", func() bool {
		return patched("plain", `{"spec": {"target": {"clusterTrustBundle": {"name": "`+w.namespace+`"}}}}`)() == nil
	})
	want := fmt.Sprintf("The ClusterTrustBundle %q exists, and this TrustBundle does not control it: delete it, or set another spec.target.clusterTrustBundle.name.", w.namespace)
	if got := w.await(t, "plain", "TargetTaken"); got != want {
		t.Error(got)
	}
	if got := w.cluster(t).Labels["certplane.dev/trust-bundle"]; got != "trust" {
		t.Errorf("the ClusterTrustBundle is of %s", got)
	}
}

// Without the check of authors, no ClusterTrustBundle is written, also not when the check comes
// later. Other targets are written although Secrets are not.
func TestTargetsOff(t *testing.T) {
	w := worldOf(t, quiet.Start(t))
	versions, err := discovery.NewDiscoveryClientForConfig(w.Admin(t))
	if err != nil {
		t.Fatal(err)
	}
	pass := func(name string, admitted bool) string {
		t.Helper()
		r := trustbundles.NewReconciler(trustbundles.Config{
			Client: w, Versions: versions.ServerResourcesForGroupVersionWithContext, Events: events.NewFakeRecorder(100), Clock: clock.RealClock{},
			Settings: trustbundles.DefaultSettings(), Admitted: admitted,
		})
		if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Namespace: w.namespace, Name: name}}); err != nil {
			t.Fatal(err)
		}
		b := &v1alpha1.TrustBundle{}
		w.get(t, b, w.namespace, name)
		return meta.FindStatusCondition(b.Status.Conditions, v1alpha1.TrustSynced).Reason
	}
	only := newCA(t, "root")
	root := `[{"inLine": ` + quoted(only.pem) + `}]`
	w.create(t, w.bundle(t, "cluster", root+`, "target": {"clusterTrustBundle": {"name": "`+w.namespace+`"}}`))
	for i, admitted := range []bool{false, true} {
		if got := pass("cluster", admitted); got != "ClusterTargetNotAdmitted" || w.cluster(t).Name != "" {
			t.Errorf("pass %d: %s, %v", i, got, w.cluster(t))
		}
	}
	w.change(t, "cluster", func(b *v1alpha1.TrustBundle) { b.Spec.Overlap = &metav1.Duration{} })
	for i, admitted := range []bool{true, false} { // the second one with the webhook turned off later
		if got := pass("cluster", admitted); got != "Synced" || w.cluster(t).Name == "" {
			t.Errorf("pass %d after a change: %s", i, got)
		}
	}
	w.create(t, w.bundle(t, "both", root+`, "target": {"configMap": {}, "secret": {}}`))
	if got := pass("both", true); got != "SecretTargetsDisabled" {
		t.Error(got)
	}
	w.awaitRoots(t, "both", only)
}

// A TrustBundle has the roots of another one, and only those that the other one has.
func TestTrustBundleAsSource(t *testing.T) {
	w := newWorld(t)
	a, b, evil := newCA(t, "a"), newCA(t, "b"), newCA(t, "evil")
	roots := w.configMap(t, "roots", a.pem)
	w.create(t, w.bundle(t, "second", `[{"trustBundle": {"name": "first"}}]`))
	if got := w.await(t, "second", "SourceNotFound"); got != `spec.sources[0]: the TrustBundle "first" does not exist.` {
		t.Error(got)
	}
	w.create(t, w.bundle(t, "first", `[{"configMap": {"name": "roots", "key": "ca.crt"}}]`))
	w.awaitRoots(t, "second", a)
	target := &corev1.ConfigMap{}
	w.get(t, target, w.namespace, "first")
	target.Data["ca.crt"] += evil.pem
	if err := w.Update(t.Context(), target); err != nil {
		t.Fatal(err)
	}
	roots.Data["ca.crt"] = b.pem
	if err := w.Update(t.Context(), roots); err != nil {
		t.Fatal(err)
	}
	w.awaitRoots(t, "second", b) // without an overlap
	// A ClusterTrustBundle among the sources of the other one is not a circle.
	c := newCA(t, "c")
	w.create(t, &certificatesv1.ClusterTrustBundle{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}, Spec: certificatesv1.ClusterTrustBundleSpec{TrustBundle: c.pem}})
	w.change(t, "first", func(b *v1alpha1.TrustBundle) {
		b.Spec.Sources = w.bundle(t, "first", `[{"clusterTrustBundle": {"name": "`+w.namespace+`"}}]`).Spec.Sources
	})
	w.awaitRoots(t, "second", c)
	stored := &v1alpha1.TrustBundle{}
	w.get(t, stored, w.namespace, "second")
	if text, err := json.Marshal(stored.Status); err != nil || strings.Contains(string(text), "evil") {
		t.Errorf("status %s, %v", text, err)
	}
}

// No TrustBundle is its own source, directly or through others. The end of a circle ends the problem.
func TestCircles(t *testing.T) {
	w := newWorld(t)
	root := `{"inLine": ` + quoted(newCA(t, "root").pem) + `}`
	err := w.Create(t.Context(), w.bundle(t, "own", `[`+root+`, {"trustBundle": {"name": "own"}}]`))
	if err == nil || !strings.Contains(err.Error(), "spec.sources: Invalid value: ") || !strings.Contains(err.Error(), "a TrustBundle cannot be its own source") {
		t.Error(err)
	}
	cluster := `{"clusterTrustBundle": {"name": "` + w.namespace + `"}}`
	w.create(t, w.bundle(t, "a", `[`+root+`, {"trustBundle": {"name": "b"}}], "target": {"configMap": {}, "clusterTrustBundle": {"name": "`+w.namespace+`"}}`))
	w.create(t, w.bundle(t, "b", `[`+root+`, {"trustBundle": {"name": "c"}}]`))
	w.create(t, w.bundle(t, "c", `[`+root+`]`))
	for _, name := range []string{"a", "b", "c"} {
		w.await(t, name, "Synced")
	}
	for _, source := range []string{`{"trustBundle": {"name": "a"}}`, cluster} {
		w.change(t, "c", func(c *v1alpha1.TrustBundle) {
			c.Spec.Sources = w.bundle(t, "c", `[`+root+`, `+source+`]`).Spec.Sources
		})
		for name, through := range map[string]string{"a": "b", "b": "c", "c": "a"} {
			want := fmt.Sprintf("spec.sources[1]: the roots of this TrustBundle come back to it through the TrustBundle %q.", through)
			if got := w.await(t, name, "SourceCircle"); got != want {
				t.Errorf("%s: %s", name, got)
			}
		}
		w.change(t, "c", func(c *v1alpha1.TrustBundle) { c.Spec.Sources = c.Spec.Sources[:1] })
		for _, name := range []string{"a", "b", "c"} {
			w.await(t, name, "Synced")
		}
	}
}

// The default CAs come from a file, which is followed.
func TestDefaultCAs(t *testing.T) {
	w := newWorld(t)
	w.create(t, w.bundle(t, "trust", `[{"defaultCAs": {}}]`))
	if got := w.await(t, "trust", "SourceNotFound"); got != "spec.sources[0]: there is no package of default CAs: the administrator can set trustManager.defaultPackage." {
		t.Error(got)
	}
	one, two, path := newCA(t, "one"), newCA(t, "two"), filepath.Join(t.TempDir(), "package.json")
	write := func(version, text string) {
		t.Helper()
		if err := os.WriteFile(path, fmt.Appendf(nil, `{"name": "test", "version": %q, "bundle": %q}`, version, text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("1", one.pem)
	w = worldOf(t, apitest.Start(t, func(c *server.Config) { c.TrustManager.DefaultPackage = path }))
	w.create(t, w.bundle(t, "trust", `[{"defaultCAs": {}}]`))
	w.awaitRoots(t, "trust", one)
	write("2", two.pem)
	w.awaitRoots(t, "trust", two)
}
