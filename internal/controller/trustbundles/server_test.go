package trustbundles_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/run/controllermanager"
)

var shared = &apitest.Shared{}

func TestMain(m *testing.M) { apitest.Main(m, shared, quiet) }

// world is a namespace of a server.
type world struct {
	*apitest.Server
	client.Client
	namespace string
}

func newWorld(t *testing.T) world { return worldOf(t, shared.Start(t)) }

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
	return world{s, api, apitest.OwnNamespace(t, apitest.Client(t, s.Admin(t)))}
}

func (w world) create(t *testing.T, object client.Object) {
	t.Helper()
	if err := w.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Delete(context.Background(), object) })
}

func (w world) named(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: w.namespace, Name: name}
}

// ca is a CA and its certificate in PEM.
type ca struct {
	*pki.Authority
	pem string
}

func newCA(t *testing.T, name string) ca { return newCAFor(t, name, 100*time.Hour, time.Now()) }

func newCAFor(t *testing.T, name string, lifetime time.Duration, since time.Time) ca {
	t.Helper()
	root, err := pki.NewRoot(pki.UnrecordedSigning, name, apitest.NewKey(t), lifetime, since)
	if err != nil {
		t.Fatal(err)
	}
	return ca{root, string(pki.EncodeCertificates(root.Certificate()))}
}

// bundle returns a TrustBundle with a ConfigMap as target. spec is YAML's subset JSON of its
// sources, which can be followed by other fields.
func (w world) bundle(t *testing.T, name, spec string) *v1alpha1.TrustBundle {
	t.Helper()
	b := &v1alpha1.TrustBundle{ObjectMeta: w.named(name)}
	if err := json.Unmarshal([]byte(`{"sources": `+spec+`}`), &b.Spec); err != nil {
		t.Fatal(err)
	}
	return b
}

func (w world) get(t *testing.T, object client.Object, namespace, name string) {
	t.Helper()
	if err := w.Get(t.Context(), types.NamespacedName{Namespace: namespace, Name: name}, object); err != nil {
		t.Fatal(err)
	}
}

// await waits for a reason of the condition Synced, and returns its message.
func (w world) await(t *testing.T, name, reason string) string {
	t.Helper()
	b := &v1alpha1.TrustBundle{}
	var c *metav1.Condition
	defer func() {
		if t.Failed() {
			t.Logf("%s: %+v", name, c)
		}
	}()
	apitest.Eventually(t, name+" is "+reason, func() bool {
		w.get(t, b, w.namespace, name)
		c = meta.FindStatusCondition(b.Status.Conditions, v1alpha1.TrustSynced)
		return c != nil && c.Reason == reason && c.ObservedGeneration == b.Generation
	})
	return c.Message
}

// awaitRoots waits until a ConfigMap contains exactly these CAs.
func (w world) awaitRoots(t *testing.T, name string, cas ...ca) {
	t.Helper()
	got := ""
	defer func() {
		if t.Failed() {
			t.Logf("%s has %s", name, got)
		}
	}()
	apitest.Eventually(t, name+" has the roots", func() bool {
		stored := &corev1.ConfigMap{}
		if err := w.Get(t.Context(), types.NamespacedName{Namespace: w.namespace, Name: name}, stored); client.IgnoreNotFound(err) != nil {
			t.Fatal(err)
		}
		got = subjects(stored.Data["ca.crt"])
		return got == names(cas...)
	})
}

func names(cas ...ca) string {
	var all []string
	for _, ca := range cas {
		all = append(all, ca.Certificate().Subject.CommonName)
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

func subjects(text string) string {
	certs, _ := pki.ParseCertificates([]byte(text))
	var all []string
	for _, cert := range certs {
		all = append(all, cert.Subject.CommonName)
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

func (w world) configMap(t *testing.T, name, text string) *corev1.ConfigMap {
	t.Helper()
	stored := &corev1.ConfigMap{ObjectMeta: w.named(name), Data: map[string]string{"ca.crt": text}}
	stored.Labels = map[string]string{"roots": "yes"}
	w.create(t, stored)
	return stored
}

func (w world) secret(t *testing.T, name, text string) *corev1.Secret {
	t.Helper()
	stored := &corev1.Secret{ObjectMeta: w.named(name), Data: map[string][]byte{"ca.crt": []byte(text)}}
	w.create(t, stored)
	return stored
}

func quoted(text string) string {
	data, _ := json.Marshal(text)
	return string(data)
}

// All kinds of sources are joined, and followed.
func TestSources(t *testing.T) {
	w := newWorld(t)
	cm, selected, sec, in, ctb, signs, issuing := newCA(t, "cm"), newCA(t, "selected"), newCA(t, "sec"), newCA(t, "in"), newCA(t, "ctb"), newCA(t, "signs"), newCA(t, "issuing")
	stored := w.configMap(t, "roots", "# comment\n"+cm.pem)
	w.configMap(t, "more", selected.pem)
	w.secret(t, "sec", sec.pem)
	cluster := &certificatesv1.ClusterTrustBundle{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}, Spec: certificatesv1.ClusterTrustBundleSpec{TrustBundle: ctb.pem}}
	w.create(t, cluster)
	signerName := w.namespace + ".example.com/web"
	w.create(t, &certificatesv1.ClusterTrustBundle{
		ObjectMeta: metav1.ObjectMeta{Name: strings.ReplaceAll(signerName, "/", ":") + ":1"},
		Spec:       certificatesv1.ClusterTrustBundleSpec{SignerName: signerName, TrustBundle: signs.pem},
	})
	key, err := pki.EncodePrivateKey(apitest.NewKey(t))
	if err != nil {
		t.Fatal(err)
	}
	w.create(t, &corev1.Secret{ObjectMeta: w.named("ca"), Data: map[string][]byte{"tls.crt": []byte(issuing.pem), "tls.key": key}})
	issuer := &cmv1.Issuer{ObjectMeta: w.named("ca")}
	issuer.Spec.CA = &cmv1.CAIssuer{SecretName: "ca"}
	w.create(t, issuer)
	w.create(t, w.bundle(t, "all", fmt.Sprintf(`[
		{"configMap": {"name": "roots", "key": "ca.crt"}}, {"configMap": {"selector": {"matchLabels": {"roots": "yes"}}, "allKeys": true}},
		{"secret": {"name": "sec", "key": "ca.crt"}}, {"inLine": %s}, {"clusterTrustBundle": {"name": %q}},
		{"signer": {"name": %q}}, {"issuer": {"name": "ca"}}]`, quoted(in.pem), w.namespace, signerName)))
	w.awaitRoots(t, "all", cm, selected, sec, in, ctb, signs, issuing)
	if got, want := w.await(t, "all", "Synced"), `The ConfigMap "all" has the roots of all sources.`; got != want {
		t.Errorf("message %q", got)
	}

	b := &v1alpha1.TrustBundle{}
	w.get(t, b, w.namespace, "all")
	target := &corev1.ConfigMap{}
	w.get(t, target, w.namespace, "all")
	if b.Status.RootCount != 7 || len(b.Status.Roots) != 7 || b.Status.Digest == "" || target.Annotations["certplane.dev/roots-digest"] != b.Status.Digest ||
		target.Labels["certplane.dev/trust-bundle"] != "all" || !metav1.IsControlledBy(target, b) {
		t.Errorf("status %+v, target %+v", b.Status, target.ObjectMeta)
	}
	if !slices.IsSortedFunc(b.Status.Roots, func(a, b v1alpha1.TrustRoot) int { return strings.Compare(a.Fingerprint, b.Fingerprint) }) {
		t.Error("the roots are not sorted")
	}

	// A changed source, and a changed target.
	next := newCA(t, "next")
	stored.Data["ca.crt"] = next.pem
	if err := w.Update(t.Context(), stored); err != nil {
		t.Fatal(err)
	}
	w.awaitRoots(t, "all", next, selected, sec, in, ctb, signs, issuing)
	w.get(t, target, w.namespace, "all")
	target.Data["ca.crt"], target.Data["other"] = "", "x"
	if err := w.Update(t.Context(), target); err != nil {
		t.Fatal(err)
	}
	w.awaitRoots(t, "all", next, selected, sec, in, ctb, signs, issuing)
	if err := w.Delete(t.Context(), target); err != nil {
		t.Fatal(err)
	}
	w.awaitRoots(t, "all", next, selected, sec, in, ctb, signs, issuing)
	// Another target: the former one goes.
	w.change(t, "all", func(b *v1alpha1.TrustBundle) { b.Spec.Target.ConfigMap.Name = "elsewhere" })
	w.awaitRoots(t, "elsewhere", next, selected, sec, in, ctb, signs, issuing)
	apitest.Eventually(t, "the former target is gone", func() bool {
		return apierrors.IsNotFound(w.Get(t.Context(), types.NamespacedName{Namespace: w.namespace, Name: "all"}, target))
	})
}

// change changes a TrustBundle.
func (w world) change(t *testing.T, name string, change func(*v1alpha1.TrustBundle)) {
	t.Helper()
	apitest.Eventually(t, name+" is changed", func() bool {
		b := &v1alpha1.TrustBundle{}
		w.get(t, b, w.namespace, name)
		change(b)
		err := w.Update(t.Context(), b)
		if err != nil && !apierrors.IsConflict(err) {
			t.Fatal(err)
		}
		return err == nil
	})
}
