package bundles_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	jks "github.com/pavlo-v-chernykh/keystore-go/v4"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	pkcs12 "software.sslmate.com/src/go-pkcs12"

	"github.com/certplane/certplane/internal/api/trustmanager"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/truststore"
	"github.com/certplane/certplane/internal/run/controllermanager"
	"github.com/certplane/certplane/internal/run/server"
)

// trustNamespace is the namespace of the sources.
const trustNamespace = "cert-manager"

var shared = &apitest.Shared{Options: []func(*server.Config){func(c *server.Config) { c.TrustManager.SecretTargets = []string{"All"} }}}

func TestMain(m *testing.M) { apitest.Main(m, shared) }

// world is two namespaces of a server, which Bundles of a test select.
type world struct {
	*apitest.Server
	client.Client
	namespaces []string
	// selector selects them.
	selector *metav1.LabelSelector
	// name is a name for sources and the Bundle.
	name string
}

func newWorld(t *testing.T) world { t.Helper(); return worldOf(t, shared.Start(t)) }

func worldOf(t *testing.T, s *apitest.Server) world {
	t.Helper()
	kinds, err := controllermanager.NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	api, err := client.New(s.Admin(t), client.Options{Scheme: kinds})
	if err != nil {
		t.Fatal(err)
	}
	w := world{Server: s, Client: api}
	for range 2 {
		w.namespaces = append(w.namespaces, apitest.OwnNamespace(t, apitest.Client(t, s.Admin(t))))
	}
	w.name = w.namespaces[0]
	w.selector = &metav1.LabelSelector{MatchLabels: map[string]string{"of": w.name}}
	for _, namespace := range w.namespaces {
		w.label(t, namespace, w.name)
	}
	return w
}

// label sets the label that the selector selects.
func (w world) label(t *testing.T, namespace, value string) {
	t.Helper()
	object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if err := w.Patch(t.Context(), object, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"labels":{"of":%q}}}`, value))); err != nil {
		t.Fatal(err)
	}
}

func (w world) create(t *testing.T, object client.Object) {
	t.Helper()
	if err := w.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Delete(context.Background(), object) })
}

func newCA(t *testing.T, name string) (*x509.Certificate, string) {
	t.Helper()
	root, err := pki.NewRoot(pki.UnrecordedSigning, name, apitest.NewKey(t), time.Hour, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return root.Certificate(), string(pki.EncodeCertificates(root.Certificate()))
}

// pemOf returns certificates as a target holds them.
func pemOf(certs ...*x509.Certificate) string {
	set := truststore.Set{}
	for _, cert := range certs {
		set.Add(cert)
	}
	return string(set.PEM())
}

// bundle creates a Bundle that selects the namespaces, with a ConfigMap as its target.
func (w world) bundle(t *testing.T, sources ...trustmanager.BundleSource) *trustmanager.Bundle {
	t.Helper()
	return w.bundleTo(t, trustmanager.BundleTarget{ConfigMap: template("ca.crt")}, sources...)
}

func (w world) bundleTo(t *testing.T, to trustmanager.BundleTarget, sources ...trustmanager.BundleSource) *trustmanager.Bundle {
	t.Helper()
	to.NamespaceSelector = w.selector
	b := &trustmanager.Bundle{ObjectMeta: metav1.ObjectMeta{Name: w.name}, Spec: trustmanager.BundleSpec{Sources: sources, Target: to}}
	w.create(t, b)
	return b
}

func template(key string) *trustmanager.TargetTemplate {
	return &trustmanager.TargetTemplate{KeySelector: trustmanager.KeySelector{Key: key}}
}

func inLine(text string) trustmanager.BundleSource { return trustmanager.BundleSource{InLine: text} }

// source creates a ConfigMap in the trust namespace.
func (w world) source(t *testing.T, name string, labels, data map[string]string) {
	t.Helper()
	w.create(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: trustNamespace, Name: name, Labels: labels}, Data: data})
}

// await waits until the condition of the Bundle has a reason for its generation, and returns
// its message.
func (w world) await(t *testing.T, reason string) (message string) {
	t.Helper()
	var last *metav1.Condition
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the last condition: %v", last)
		}
	})
	apitest.Eventually(t, "Bundle has the reason "+reason, func() bool {
		b := &trustmanager.Bundle{}
		if err := w.Get(t.Context(), client.ObjectKey{Name: w.name}, b); err != nil {
			t.Fatal(err)
		}
		last = meta.FindStatusCondition(b.Status.Conditions, "Synced")
		return last != nil && last.Reason == reason && last.ObservedGeneration == b.Generation && (last.Status == metav1.ConditionTrue) == (reason == "Synced")
	})
	return last.Message
}

// target returns the target in a namespace, nil if there is none.
func (w world) target(t *testing.T, namespace string) *corev1.ConfigMap {
	t.Helper()
	object := &corev1.ConfigMap{}
	err := w.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: w.name}, object)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		t.Fatal(err)
	}
	return object
}

// awaitData waits until all namespaces have a text in the target.
func (w world) awaitData(t *testing.T, want string) {
	t.Helper()
	for _, namespace := range w.namespaces {
		apitest.Eventually(t, "the target in "+namespace, func() bool {
			object := w.target(t, namespace)
			return object != nil && object.Data["ca.crt"] == want
		})
	}
}

func (w world) events(t *testing.T) []string {
	t.Helper()
	all := &corev1.EventList{}
	if err := w.List(t.Context(), all, client.InNamespace("default"), client.MatchingFields{"involvedObject.name": w.name}); err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, e := range all.Items {
		found = append(found, strings.Join([]string{e.Type, e.Reason, e.Action, e.Source.Component}, " "))
	}
	slices.Sort(found)
	return slices.Compact(found)
}

func (w world) change(t *testing.T, change func(*trustmanager.Bundle)) {
	t.Helper()
	b := &trustmanager.Bundle{}
	if err := w.Get(t.Context(), client.ObjectKey{Name: w.name}, b); err != nil {
		t.Fatal(err)
	}
	before := b.DeepCopy()
	change(b)
	if err := w.Patch(t.Context(), b, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

func TestSources(t *testing.T) {
	w := newWorld(t)
	var certs []*x509.Certificate
	var texts []string
	for i := range 7 {
		cert, text := newCA(t, fmt.Sprint("ca", i))
		certs, texts = append(certs, cert), append(texts, text)
	}
	w.source(t, w.name, nil, map[string]string{"one": texts[0], "other": "not read"})
	w.source(t, w.name+"-all", nil, map[string]string{"one": texts[1], "two": texts[2] + texts[0]})
	w.source(t, w.name+"-selected", map[string]string{"of": w.name}, map[string]string{"one": texts[3]})
	w.create(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: trustNamespace, Name: w.name + "-binary"}, BinaryData: map[string][]byte{"one": []byte(texts[4])}})
	w.create(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: trustNamespace, Name: w.name}, Data: map[string][]byte{"one": []byte(texts[5])}})
	keys := func(of trustmanager.ObjectKeys) trustmanager.BundleSource {
		return trustmanager.BundleSource{ConfigMap: &of}
	}
	w.bundle(t,
		keys(trustmanager.ObjectKeys{Name: w.name, Key: "one"}), keys(trustmanager.ObjectKeys{Name: w.name + "-all", IncludeAllKeys: ptr.To(true)}),
		keys(trustmanager.ObjectKeys{Selector: w.selector, Key: "one"}), keys(trustmanager.ObjectKeys{Name: w.name + "-binary", Key: "one"}),
		trustmanager.BundleSource{Secret: &trustmanager.ObjectKeys{Name: w.name, Key: "one"}}, inLine(texts[6]),
		trustmanager.BundleSource{UseDefaultCAs: ptr.To(false)},
		keys(trustmanager.ObjectKeys{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"of": "nothing"}}, Key: "one"}))
	want := "Successfully synced Bundle to namespaces that match this label selector: of=" + w.name
	if got := w.await(t, "Synced"); got != want {
		t.Errorf("message %q", got)
	}
	w.awaitData(t, pemOf(certs...))
	if got := w.target(t, "default"); got != nil {
		t.Error("written to a namespace that is not selected")
	}
	apitest.Eventually(t, "an Event", func() bool { return slices.Equal(w.events(t), []string{"Normal Synced Synced bundles"}) })

	// Sources that change, appear and disappear.
	later, text := newCA(t, "later")
	w.source(t, w.name+"-later", map[string]string{"of": w.name}, map[string]string{"one": text})
	w.awaitData(t, pemOf(append(certs, later)...))
	unlabel := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: trustNamespace, Name: w.name + "-later"}}
	if err := w.Patch(t.Context(), unlabel, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"of":null}}}`))); err != nil {
		t.Fatal(err)
	}
	w.awaitData(t, pemOf(certs...))
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: trustNamespace, Name: w.name}}
	if err := w.Delete(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	want = fmt.Sprintf("Bundle source was not found: failed to get Secret cert-manager/%s: Secret %q not found", w.name, w.name)
	if got := w.await(t, "SourceNotFound"); got != want {
		t.Errorf("message %q", got)
	}
	w.awaitData(t, pemOf(certs...)) // the targets stay
}

// A private key in a source fails the Bundle and reaches no target and no message.
func TestBadSources(t *testing.T) {
	w := newWorld(t)
	_, text := newCA(t, "ca")
	key, err := pki.EncodePrivateKey(apitest.NewKey(t))
	if err != nil {
		t.Fatal(err)
	}
	w.source(t, w.name, nil, map[string]string{"key": text + string(key), "empty": "no certificate"})
	w.create(t, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: trustNamespace, Name: w.name}, Type: corev1.SecretTypeTLS,
		Data: map[string][]byte{"tls.crt": []byte(text), "tls.key": key},
	})
	w.bundle(t, inLine(text), trustmanager.BundleSource{ConfigMap: &trustmanager.ObjectKeys{Name: w.name, Key: "key"}})
	prefix := "Failed to build bundle sources: "
	for i, test := range []struct {
		source       trustmanager.BundleSource
		reason, want string
	}{
		{trustmanager.BundleSource{ConfigMap: &trustmanager.ObjectKeys{Name: w.name, Key: "key"}}, "SourceBuildError",
			prefix + `invalid PEM data in ConfigMap cert-manager/NAME at key "key": invalid PEM block in bundle: only CERTIFICATE blocks are permitted but found 'PRIVATE KEY'`},
		{trustmanager.BundleSource{ConfigMap: &trustmanager.ObjectKeys{Name: w.name, Key: "none"}}, "SourceNotFound",
			`Bundle source was not found: no data found in ConfigMap cert-manager/NAME at key "none"`},
		{trustmanager.BundleSource{ConfigMap: &trustmanager.ObjectKeys{Name: w.name, Key: "empty"}}, "SourceNotFound",
			`Bundle source was not found: couldn't find any valid certificates in bundle`},
		{trustmanager.BundleSource{Secret: &trustmanager.ObjectKeys{Name: w.name, IncludeAllKeys: ptr.To(true)}}, "SourceBuildError",
			prefix + `includeAllKeys is not supported for TLS Secrets such as cert-manager/NAME`},
		{inLine(string(key)), "SourceBuildError",
			prefix + `inline source contains invalid PEM data: invalid PEM block in bundle: only CERTIFICATE blocks are permitted but found 'PRIVATE KEY'`},
		{trustmanager.BundleSource{UseDefaultCAs: ptr.To(true)}, "SourceNotFound",
			`Bundle source was not found: no default package was specified when trust-manager was started; default CAs not available`},
	} {
		w.change(t, func(b *trustmanager.Bundle) { b.Spec.Sources = []trustmanager.BundleSource{test.source} })
		if got, want := w.await(t, test.reason), strings.ReplaceAll(test.want, "NAME", w.name); got != want {
			t.Errorf("%d: message %q, want %q", i, got, want)
		}
	}
	if w.target(t, w.namespaces[0]) != nil {
		t.Error("a Bundle that cannot be read has a target")
	}
	apitest.Eventually(t, "two kinds of Events", func() bool {
		return slices.Equal(w.events(t), []string{"Warning SourceBuildError SyncFailed bundles", "Warning SourceNotFound SyncFailed bundles"})
	})
}

// A target that another client changes is restored.
func TestRestoredTargets(t *testing.T) {
	w := newWorld(t)
	cert, text := newCA(t, "ca")
	b := w.bundle(t, inLine(text))
	w.awaitData(t, pemOf(cert))
	w.await(t, "Synced")
	at := w.namespaces[0]
	original := w.target(t, at)
	hash := sha256.Sum256([]byte(pemOf(cert)))
	if owner := metav1.GetControllerOf(original); owner == nil || owner.UID != b.UID || !*owner.BlockOwnerDeletion ||
		original.Labels["trust.cert-manager.io/bundle"] != w.name || original.Annotations["trust.cert-manager.io/hash"] != hex.EncodeToString(hash[:]) {
		t.Errorf("target %v", original.ObjectMeta)
	}
	for _, patch := range []string{
		`{"data":{"ca.crt":"x"}}`, `{"metadata":{"labels":null}}`, `{"metadata":{"annotations":null}}`, `{"metadata":{"ownerReferences":null}}`, `{"data":null}`,
	} {
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: at, Name: w.name}}
		if err := w.Patch(t.Context(), object, client.RawPatch(types.MergePatchType, []byte(patch)), client.FieldOwner("other")); err != nil {
			t.Fatal(err)
		}
		apitest.Eventually(t, "restored after "+patch, func() bool {
			now := w.target(t, at)
			return now != nil && now.Data["ca.crt"] == pemOf(cert) && now.Labels["trust.cert-manager.io/bundle"] == w.name &&
				now.Annotations["trust.cert-manager.io/hash"] == original.Annotations["trust.cert-manager.io/hash"] && metav1.IsControlledBy(now, b)
		})
	}
	if err := w.Delete(t.Context(), w.target(t, at)); err != nil {
		t.Fatal(err)
	}
	w.awaitData(t, pemOf(cert))
}

// The controller's own writes do not make it write again.
func TestEachTargetIsWrittenOnce(t *testing.T) {
	log := filepath.Join(t.TempDir(), "audit.log")
	w := worldOf(t, apitest.Start(t, func(c *server.Config) { c.Audit.Log.Path = log }))
	for range 30 {
		w.namespaces = append(w.namespaces, apitest.OwnNamespace(t, apitest.Client(t, w.Admin(t))))
		w.label(t, w.namespaces[len(w.namespaces)-1], w.name)
	}
	cert, text := newCA(t, "ca")
	w.bundle(t, inLine(text))
	w.awaitData(t, pemOf(cert))
	w.await(t, "Synced")
	// Once this one is restored, the passes for the others are over.
	if err := w.Delete(t.Context(), w.target(t, w.namespaces[0])); err != nil {
		t.Fatal(err)
	}
	w.awaitData(t, pemOf(cert))
	data, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	writes := 0
	for line := range bytes.Lines(data) {
		if bytes.Contains(line, []byte(`"stage":"ResponseComplete"`)) && bytes.Contains(line, []byte(`"verb":"patch"`)) && bytes.Contains(line, []byte("/configmaps/"+w.name+"?")) {
			writes++
		}
	}
	if want := len(w.namespaces) + 1; writes != want {
		t.Errorf("%d namespaces took %d writes, want %d", len(w.namespaces), writes, want)
	}
}

// A namespace that is no longer selected loses the target; keys of others stay.
func TestSelector(t *testing.T) {
	w := newWorld(t)
	cert, text := newCA(t, "ca")
	w.bundle(t, inLine(text))
	w.awaitData(t, pemOf(cert))
	w.await(t, "Synced")
	object := w.target(t, w.namespaces[1])
	if err := w.Patch(t.Context(), object, client.RawPatch(types.MergePatchType, []byte(`{"data":{"other":"x"}}`)), client.FieldOwner("other")); err != nil {
		t.Fatal(err)
	}
	w.change(t, func(b *trustmanager.Bundle) {
		b.Spec.Target.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"of": "elsewhere-" + w.name}}
	})
	apitest.Eventually(t, "the empty target is deleted", func() bool { return w.target(t, w.namespaces[0]) == nil })
	apitest.Eventually(t, "only the key of another client is left", func() bool {
		left := w.target(t, w.namespaces[1])
		return left != nil && len(left.Data) == 1 && left.Data["other"] == "x"
	})
	w.label(t, w.namespaces[0], "elsewhere-"+w.name)
	apitest.Eventually(t, "the namespace is selected by its new label", func() bool {
		now := w.target(t, w.namespaces[0])
		return now != nil && now.Data["ca.crt"] == pemOf(cert)
	})
}

// One namespace whose target is refused does not keep the others from a new root.
func TestRefusedTarget(t *testing.T) {
	w := newWorld(t)
	cert, text := newCA(t, "ca")
	owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespaces[0], Name: "owner"}}
	w.create(t, owner)
	w.create(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: w.namespaces[0], Name: w.name,
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID, Controller: ptr.To(true)}},
	}, Data: map[string]string{"ca.crt": "of another"}})
	w.bundle(t, inLine(text))
	message := w.await(t, "SyncConfigMapTargetFailed")
	if want := fmt.Sprintf("Failed to sync bundle ConfigMap to namespace %q: ConfigMap %q is invalid: ", w.namespaces[0], w.name); !strings.HasPrefix(message, want) || strings.Contains(message, "more)") {
		t.Errorf("message %q", message)
	}
	if got := w.target(t, w.namespaces[1]); got == nil || got.Data["ca.crt"] != pemOf(cert) {
		t.Errorf("the other namespace has %v", got)
	}
	if got := w.target(t, w.namespaces[0]); got.Data["ca.crt"] != "of another" {
		t.Error("the object of another controller was overwritten")
	}
}

func TestKeystores(t *testing.T) {
	w := newWorld(t)
	one, text := newCA(t, "one")
	two, more := newCA(t, "two")
	formats := &trustmanager.AdditionalFormats{
		JKS:    &trustmanager.JKS{KeySelector: trustmanager.KeySelector{Key: "ca.jks"}},
		PKCS12: &trustmanager.PKCS12{KeySelector: trustmanager.KeySelector{Key: "ca.p12"}, Password: ptr.To("secret"), Profile: "Modern2023"},
	}
	metadata := trustmanager.TargetMetadata{Labels: map[string]string{"team": "a"}, Annotations: map[string]string{"note": "b"}}
	configMap, secret := template("ca.crt"), template("ca.pem")
	configMap.Metadata, secret.Metadata = metadata, metadata
	w.bundleTo(t, trustmanager.BundleTarget{ConfigMap: configMap, Secret: secret, AdditionalFormats: formats}, inLine(text+more))
	w.await(t, "Synced")
	object, stored := w.target(t, w.namespaces[0]), &corev1.Secret{}
	if err := w.Get(t.Context(), client.ObjectKeyFromObject(object), stored); err != nil {
		t.Fatal(err)
	}
	if string(stored.Data["ca.pem"]) != pemOf(one, two) || !bytes.Equal(stored.Data["ca.p12"], object.BinaryData["ca.p12"]) || !bytes.Equal(stored.Data["ca.jks"], object.BinaryData["ca.jks"]) {
		t.Errorf("Secret %v", stored.Data)
	}
	for _, m := range []client.Object{object, stored} {
		if m.GetLabels()["team"] != "a" || m.GetAnnotations()["note"] != "b" {
			t.Errorf("metadata %v %v", m.GetLabels(), m.GetAnnotations())
		}
	}
	certs, err := pkcs12.DecodeTrustStore(object.BinaryData["ca.p12"], "secret")
	if err != nil || len(certs) != 2 {
		t.Errorf("PKCS#12: %d certificates, %v", len(certs), err)
	}
	read := jks.New()
	if err := read.Load(bytes.NewReader(object.BinaryData["ca.jks"]), []byte("changeit")); err != nil || len(read.Aliases()) != 2 {
		t.Errorf("JKS: %v, %v", read.Aliases(), err)
	}

	// Another source wakes the Bundle, whose result is the same: nothing is written.
	versions := func() (all []string) {
		for _, namespace := range w.namespaces {
			all = append(all, w.target(t, namespace).ResourceVersion)
		}
		return all
	}
	before := versions()
	w.change(t, func(b *trustmanager.Bundle) { b.Spec.Sources[0] = inLine(more + text) })
	w.await(t, "Synced")
	if after := versions(); !slices.Equal(before, after) {
		t.Errorf("written again: %v, %v", before, after)
	}
	w.change(t, func(b *trustmanager.Bundle) { b.Spec.Target.AdditionalFormats.PKCS12.Profile = "LegacyDES" })
	apitest.Eventually(t, "the profile has changed", func() bool {
		return !bytes.Equal(w.target(t, w.namespaces[0]).BinaryData["ca.p12"], object.BinaryData["ca.p12"])
	})
	w.change(t, func(b *trustmanager.Bundle) { b.Spec.Target.AdditionalFormats, b.Spec.Target.Secret = nil, nil })
	apitest.Eventually(t, "the keystores and the Secret are gone", func() bool {
		return len(w.target(t, w.namespaces[0]).BinaryData) == 0 && apierrors.IsNotFound(w.Get(t.Context(), client.ObjectKeyFromObject(object), stored))
	})
}

// Targets of releases up to v0.24 have a hash without the profile: they are not written again
// until the Bundle changes.
func TestFormerHash(t *testing.T) {
	w := newWorld(t)
	cert, text := newCA(t, "ca")
	formats := &trustmanager.AdditionalFormats{PKCS12: &trustmanager.PKCS12{KeySelector: trustmanager.KeySelector{Key: "ca.p12"}, Password: ptr.To(""), Profile: "LegacyDES"}}
	w.bundleTo(t, trustmanager.BundleTarget{ConfigMap: template("ca.crt"), AdditionalFormats: formats}, inLine(text))
	w.await(t, "Synced")
	digest := sha256.Sum256([]byte(pemOf(cert)))
	former := hex.EncodeToString(digest[:])
	if w.target(t, w.namespaces[0]).Annotations["trust.cert-manager.io/hash"] == former {
		t.Error("the hash does not contain the profile")
	}
	object := w.target(t, w.namespaces[0])
	if err := w.Patch(t.Context(), object, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{"trust.cert-manager.io/hash":%q}}}`, former)), client.FieldOwner("trust-manager")); err != nil {
		t.Fatal(err)
	}
	// A write to the other namespace shows that the Bundle was looked at since.
	if err := w.Delete(t.Context(), w.target(t, w.namespaces[1])); err != nil {
		t.Fatal(err)
	}
	w.awaitData(t, pemOf(cert))
	if got := w.target(t, w.namespaces[0]); got.ResourceVersion != object.ResourceVersion {
		t.Error("a target with the hash of an older release was written")
	}
	w.change(t, func(b *trustmanager.Bundle) { b.Spec.Target.AdditionalFormats.PKCS12.Profile = "Modern2023" })
	apitest.Eventually(t, "the target has the new hash", func() bool {
		return w.target(t, w.namespaces[0]).Annotations["trust.cert-manager.io/hash"] != former
	})
}

// The targets of a deleted Bundle are deleted with it.
func TestDeletion(t *testing.T) {
	w := newWorld(t)
	cert, text := newCA(t, "ca")
	b := w.bundle(t, inLine(text))
	w.awaitData(t, pemOf(cert))
	if err := w.Delete(t.Context(), b, client.PropagationPolicy(metav1.DeletePropagationForeground)); err != nil {
		t.Fatal(err)
	}
	for _, namespace := range w.namespaces {
		apitest.Eventually(t, "the target is gone", func() bool { return w.target(t, namespace) == nil })
	}
}

// The default CAs come from a file, which is followed.
func TestDefaultPackage(t *testing.T) {
	one, text := newCA(t, "one")
	two, more := newCA(t, "two")
	path := filepath.Join(t.TempDir(), "package.json")
	write := func(content string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(fmt.Sprintf(`{"name":"test","version":"1","bundle":%q}`, text))
	w := worldOf(t, apitest.Start(t, func(c *server.Config) {
		c.TrustManager.DefaultPackage, c.TrustManager.FilterNonCA, c.TrustManager.SecretTargets = path, true, []string{"other"}
	}))
	version := func() string {
		b := &trustmanager.Bundle{}
		if err := w.Get(t.Context(), client.ObjectKey{Name: w.name}, b); err != nil {
			t.Fatal(err)
		}
		return b.Status.DefaultCAVersion
	}
	w.bundle(t, trustmanager.BundleSource{UseDefaultCAs: ptr.To(true)})
	w.awaitData(t, pemOf(one))
	w.await(t, "Synced")
	digest := sha256.Sum256([]byte(text))
	if want := "test-1-" + hex.EncodeToString(digest[:8]); version() != want {
		t.Errorf("version %s, want %s", version(), want)
	}
	write(`{"name":"test","version":"2","bundle":"-----BEGIN`)
	write(fmt.Sprintf(`{"name":"test","version":"2","bundle":%q}`, text+more))
	w.awaitData(t, pemOf(one, two))
	apitest.Eventually(t, "the status has the version", func() bool { return strings.HasPrefix(version(), "test-2-") })
	w.change(t, func(b *trustmanager.Bundle) { b.Spec.Target = trustmanager.BundleTarget{Secret: template("ca.crt")} })
	if got := w.await(t, "SecretTargetsDisabled"); got != "Bundle has Secret targets but the feature is disabled" {
		t.Errorf("message %q", got)
	}
}

// The definition and the server refuse Bundles that cannot work.
func TestAdmission(t *testing.T) {
	w := newWorld(t)
	_, text := newCA(t, "ca")
	for _, test := range []struct {
		change func(*trustmanager.BundleSpec)
		want   string
	}{
		{func(s *trustmanager.BundleSpec) { s.Sources[0].UseDefaultCAs = ptr.To(true) }, "exactly one of the fields in [configMap secret inLine useDefaultCAs] must be set"},
		{func(s *trustmanager.BundleSpec) {
			s.Sources = []trustmanager.BundleSource{{Secret: &trustmanager.ObjectKeys{Name: "x", Selector: w.selector, Key: "k"}}}
		}, "exactly one of the fields in [name selector] must be set"},
		{func(s *trustmanager.BundleSpec) { s.Target.AdditionalFormats = &trustmanager.AdditionalFormats{} }, "at least one of the fields in [jks pkcs12] must be set"},
		{func(s *trustmanager.BundleSpec) {
			s.Target.ConfigMap, s.Target.NamespaceSelector = nil, w.selector
		}, "at least one of the fields in [configMap secret] must be set"},
		{func(s *trustmanager.BundleSpec) {
			s.Sources = []trustmanager.BundleSource{{UseDefaultCAs: ptr.To(false)}}
		}, fmt.Sprintf("bundles.trust.cert-manager.io %q is forbidden: spec.sources: Forbidden: must define at least one source", w.name)},
	} {
		b := &trustmanager.Bundle{ObjectMeta: metav1.ObjectMeta{Name: w.name}, Spec: trustmanager.BundleSpec{
			Sources: []trustmanager.BundleSource{inLine(text)}, Target: trustmanager.BundleTarget{ConfigMap: template("ca.crt")},
		}}
		test.change(&b.Spec)
		if err := w.Create(t.Context(), b); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("got %v, want %s", err, test.want)
		}
	}
}
