package trustbundles_test

import (
	"encoding/pem"
	"fmt"
	"strings"
	"testing"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
)

// A TrustBundle does not tell its author what is in a Secret, except certificates.
func TestSecretsStaySecret(t *testing.T) {
	w := newWorld(t)
	root := newCA(t, "root")
	key, err := pki.EncodePrivateKey(apitest.NewKey(t))
	if err != nil {
		t.Fatal(err)
	}
	const password = "hunter2hunter2hunter2"
	block := func(label string, headers map[string]string, data []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: label, Headers: headers, Bytes: data}))
	}
	for name, content := range map[string]string{
		"key":      root.pem + string(key),
		"password": password,
		"label":    root.pem + block(password, nil, []byte(password)),
		"header":   block("CERTIFICATE", map[string]string{"Note": password}, root.Certificate().Raw),
		"block":    block("CERTIFICATE", nil, []byte(password)),
		"damaged":  root.pem + "-----BEGIN CERTIFICATE-----\n" + password,
		"request":  block("CERTIFICATE REQUEST", nil, []byte(password)),
	} {
		stored := w.secret(t, name, content)
		stored.Labels = map[string]string{"only": name}
		if err := w.Update(t.Context(), stored); err != nil {
			t.Fatal(err)
		}
		for form, source := range map[string]string{
			"named":    fmt.Sprintf(`{"secret": {"name": %q, "key": "ca.crt"}}`, name),
			"selected": fmt.Sprintf(`{"secret": {"selector": {"matchLabels": {"only": %q}}, "allKeys": true}}`, name),
		} {
			bundle := w.bundle(t, name+"-"+form, `[`+source+`]`)
			w.create(t, bundle)
			shown := name
			if form == "selected" {
				shown = "(selected)"
			}
			want := fmt.Sprintf(`spec.sources[0]: the Secret %q cannot be used: it must contain certificates in PEM, and nothing else.`, shown)
			if got := w.await(t, bundle.Name, "SourceNotUsable"); got != want {
				t.Errorf("%s: %s", bundle.Name, got)
			}
			w.get(t, bundle, w.namespace, bundle.Name)
			if text := fmt.Sprintf("%+v", bundle.Status); strings.Contains(text, password) || len(bundle.Status.Roots) > 0 {
				t.Errorf("%s: %s", bundle.Name, text)
			}
			if err := w.Get(t.Context(), client.ObjectKeyFromObject(bundle), &corev1.ConfigMap{}); !apierrors.IsNotFound(err) {
				t.Errorf("%s has a target: %v", bundle.Name, err)
			}
			if err := w.Delete(t.Context(), bundle); err != nil {
				t.Fatal(err)
			}
		}
	}
	// The Secret of an issuer gives away only its highest CA.
	w.create(t, &corev1.Secret{ObjectMeta: w.named("ca"), Data: map[string][]byte{"tls.crt": []byte(password), "tls.key": key}})
	issuer := &cmv1.Issuer{ObjectMeta: w.named("ca")}
	issuer.Spec.CA = &cmv1.CAIssuer{SecretName: "ca"}
	w.create(t, issuer)
	w.create(t, w.bundle(t, "issuer", `[{"issuer": {"name": "ca"}}]`))
	if got := w.await(t, "issuer", "SourceNotUsable"); got != `spec.sources[0]: the Issuer "ca" has no usable CA: see its status.` {
		t.Error(got)
	}
}

// Roots of sources that renewals overwrite stay for the overlap, and others go at once.
func TestOverlap(t *testing.T) {
	w := newWorld(t)
	a, b, c := newCA(t, "a"), newCA(t, "b"), newCA(t, "c")
	stored := w.secret(t, "ca", a.pem)
	config := w.configMap(t, "roots", c.pem)
	w.create(t, w.bundle(t, "trust", `[{"secret": {"name": "ca", "key": "ca.crt"}}, {"configMap": {"name": "roots", "key": "ca.crt"}}], "overlap": "24h"`))
	w.awaitRoots(t, "trust", a, c)
	w.await(t, "trust", "Synced")
	replace := func(content string) {
		t.Helper()
		stored.Data["ca.crt"] = []byte(content)
		if err := w.Update(t.Context(), stored); err != nil {
			t.Fatal(err)
		}
	}
	replace(b.pem)
	w.awaitRoots(t, "trust", a, b, c)
	until := func() *metav1.Time {
		bundle := &v1alpha1.TrustBundle{}
		w.get(t, bundle, w.namespace, "trust")
		for _, root := range bundle.Status.Roots {
			if root.Fingerprint == pki.Fingerprint(a.Certificate()) {
				return root.RetiredUntil
			}
		}
		return nil
	}
	if at := until(); at == nil || time.Until(at.Time) > 24*time.Hour || time.Until(at.Time) < 23*time.Hour {
		t.Errorf("retired until %v", at)
	}
	// The target is deleted: the retired root comes back from the status.
	if err := w.Delete(t.Context(), &corev1.ConfigMap{ObjectMeta: w.named("trust")}); err != nil {
		t.Fatal(err)
	}
	w.awaitRoots(t, "trust", a, b, c)
	// A source that cannot be used keeps its roots; those of others are followed.
	replace("no PEM")
	w.await(t, "trust", "SourceNotUsable")
	d := newCA(t, "d")
	config.Data["ca.crt"] = d.pem
	if err := w.Update(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	w.awaitRoots(t, "trust", a, b, d)
	// Distrust works meanwhile.
	fingerprint := strings.ToUpper(pki.Fingerprint(a.Certificate()))
	colons := fingerprint[:2]
	for i := 2; i < len(fingerprint); i += 2 {
		colons += ":" + fingerprint[i:i+2]
	}
	w.change(t, "trust", func(b *v1alpha1.TrustBundle) { b.Spec.Distrusted = []string{colons} })
	w.awaitRoots(t, "trust", b, d)
	replace(b.pem)
	w.await(t, "trust", "Synced")
	// An entry that is taken out goes at once.
	w.change(t, "trust", func(b *v1alpha1.TrustBundle) { b.Spec.Sources = b.Spec.Sources[1:] })
	w.awaitRoots(t, "trust", d)
	// If only distrusted roots are left, the target goes.
	w.change(t, "trust", func(b *v1alpha1.TrustBundle) { b.Spec.Distrusted = []string{pki.Fingerprint(d.Certificate())} })
	w.await(t, "trust", "SourceNotFound")
	if err := w.Get(t.Context(), types.NamespacedName{Namespace: w.namespace, Name: "trust"}, &corev1.ConfigMap{}); !apierrors.IsNotFound(err) {
		t.Errorf("a target with distrusted roots: %v", err)
	}
}

// A client that may write the target cannot add a root to it, even while its source changes.
func TestNoRootsFromTarget(t *testing.T) {
	w := newWorld(t)
	a, b, evil := newCA(t, "a"), newCA(t, "b"), newCA(t, "evil")
	stored := w.secret(t, "ca", a.pem)
	w.create(t, w.bundle(t, "trust", `[{"secret": {"name": "ca", "key": "ca.crt"}}]`))
	w.await(t, "trust", "Synced")
	target := &corev1.ConfigMap{}
	w.get(t, target, w.namespace, "trust")
	target.Data["ca.crt"] += evil.pem
	if err := w.Update(t.Context(), target); err != nil {
		t.Fatal(err)
	}
	stored.Data["ca.crt"] = []byte(b.pem)
	if err := w.Update(t.Context(), stored); err != nil {
		t.Fatal(err)
	}
	w.awaitRoots(t, "trust", a, b)

	// A lost status means one overlap more.
	bundle := &v1alpha1.TrustBundle{}
	stored.Data["ca.crt"] = []byte(a.pem)
	if err := w.Update(t.Context(), stored); err != nil {
		t.Fatal(err)
	}
	apitest.Eventually(t, "b is retired", func() bool {
		w.get(t, bundle, w.namespace, "trust")
		for _, root := range bundle.Status.Roots {
			if root.Fingerprint == pki.Fingerprint(b.Certificate()) && root.RetiredUntil != nil {
				return true
			}
		}
		return false
	})
	retired := client.MergeFrom(bundle.DeepCopy()) // the controller writes the status, too
	bundle.Status = v1alpha1.TrustBundleStatus{}
	if err := w.Status().Patch(t.Context(), bundle, retired); err != nil {
		t.Fatal(err)
	}
	w.change(t, "trust", func(b *v1alpha1.TrustBundle) { b.Spec.Overlap = &metav1.Duration{Duration: 48 * time.Hour} })
	w.await(t, "trust", "Synced")
	w.awaitRoots(t, "trust", a, b)
}

func TestProblems(t *testing.T) {
	w := newWorld(t)
	root := newCA(t, "root")
	w.configMap(t, "roots", root.pem)
	w.configMap(t, "taken", "x")
	w.configMap(t, "empty", "hello")
	old := newCAFor(t, "old", time.Hour, time.Now().Add(-2*time.Hour))
	w.create(t, &cmv1.Issuer{ObjectMeta: w.named("selfsigned"), Spec: cmv1.IssuerSpec{IssuerConfig: cmv1.IssuerConfig{SelfSigned: &cmv1.SelfSignedIssuer{}}}})
	w.create(t, w.bundle(t, "other", `[{"inLine": `+quoted(root.pem)+`}]`))
	w.await(t, "other", "Synced")
	for _, tc := range []struct{ name, sources, reason, message string }{
		{"missing", `[{"configMap": {"name": "none", "key": "ca.crt"}}]`, "SourceNotFound", `spec.sources[0]: the ConfigMap "none" does not exist.`},
		{"key", `[{"configMap": {"name": "roots", "key": "none"}}]`, "SourceNotFound", `spec.sources[0]: the ConfigMap "roots" has no key "none".`},
		{"text", `[{"configMap": {"name": "empty", "key": "ca.crt"}}]`, "SourceNotUsable", `spec.sources[0]: the ConfigMap "empty" cannot be used: it contains no certificate in PEM.`},
		{"cluster", `[{"clusterTrustBundle": {"name": "none"}}]`, "SourceNotFound", `spec.sources[0]: the ClusterTrustBundle "none" does not exist.`},
		{"signer", `[{"signer": {"name": "example.com/none"}}]`, "SourceNotFound", `spec.sources[0]: the signer "example.com/none" has no ClusterTrustBundle.`},
		{"issuer", `[{"issuer": {"kind": "ClusterIssuer", "name": "none"}}]`, "SourceNotFound", `spec.sources[0]: the ClusterIssuer "none" does not exist.`},
		{"type", `[{"issuer": {"name": "selfsigned"}}]`, "SourceNotUsable", `spec.sources[0]: the Issuer "selfsigned" is not a CA issuer: its roots are not known.`},
		{"expired", `[{"inLine": ` + quoted(old.pem) + `}]`, "SourceNotFound", `No certificate of the sources is left after spec.filter and spec.distrusted.`},
		{"taken", `[{"inLine": ` + quoted(root.pem) + `}]`, "TargetTaken", `The ConfigMap "taken" exists, and this TrustBundle does not control it: delete it, or set another spec.target.configMap.name.`},
		{"circle", `[{"configMap": {"name": "other", "key": "ca.crt"}}]`, "SourceCircle", `spec.sources[0]: the ConfigMap "other" is a target of the TrustBundle "other".`},
	} {
		w.create(t, w.bundle(t, tc.name, tc.sources))
		if got := w.await(t, tc.name, tc.reason); got != tc.message {
			t.Errorf("%s: %s", tc.name, got)
		}
	}
	taken := &corev1.ConfigMap{}
	if w.get(t, taken, w.namespace, "taken"); taken.Data["ca.crt"] != "x" || len(taken.Annotations)+len(taken.OwnerReferences) > 0 {
		t.Errorf("the target of others is %+v", taken)
	}
	var events corev1.EventList
	apitest.Eventually(t, "there is an Event", func() bool {
		if err := w.List(t.Context(), &events, client.InNamespace(w.namespace)); err != nil {
			t.Fatal(err)
		}
		for _, e := range events.Items {
			if e.InvolvedObject.Name == "taken" && e.Reason == "TargetTaken" && e.Type == corev1.EventTypeWarning {
				return true
			}
		}
		return false
	})
	// The end of the problem ends it.
	if err := w.Delete(t.Context(), taken); err != nil {
		t.Fatal(err)
	}
	w.awaitRoots(t, "taken", root)
	w.configMap(t, "none", root.pem)
	w.awaitRoots(t, "missing", root)
}

// What the definition refuses, and the text.
func TestBadInput(t *testing.T) {
	w := newWorld(t)
	root := `[{"inLine": ` + quoted(newCA(t, "root").pem) + `}]`
	for _, tc := range []struct{ spec, field, message string }{
		{`[{}]`, "spec.sources[0]", "exactly one source must be set"},
		{`[{"inLine": "x"}, {"inLine": "x", "signer": {"name": "a.b/c"}}]`, "spec.sources[1]", "exactly one source must be set"},
		{`[]`, "spec.sources", "at least 1 items"},
		{`[{"configMap": {"key": "a"}}]`, "spec.sources[0].configMap", "exactly one of name and selector must be set"},
		{`[{"configMap": {"name": "a"}}]`, "spec.sources[0].configMap", "exactly one of key and allKeys must be set"},
		{root + `, "overlap": "8761h"`, "spec.overlap", "must be from 0s to 8760h"},
		{root + `, "distrusted": ["abc"]`, "spec.distrusted[0]", "should match"},
		{root + `, "target": {"configMap": {"key": "a b"}}`, "spec.target.configMap.key", "should match"},
		{root + `, "target": {}`, "spec.target", "at least one of configMap, secret and clusterTrustBundle must be set"},
		{root + `, "target": {"configMap": {"formats": [{"key": "ca.crt", "format": "JKS"}]}}`, "spec.target.configMap.formats", "a key is used twice"},
		{root + `, "target": {"secret": {"formats": [{"key": "a", "format": "JKS"}, {"key": "a", "format": "PKCS12"}]}}`, "spec.target.secret.formats", "a key is used twice"},
		{root + `, "target": {"configMap": {"formats": [{"key": "a", "format": "JKS", "profile": "LegacyDES"}]}}`, "spec.target.configMap.formats[0].profile", "only PKCS12 has profiles"},
		{root + `, "target": {"configMap": {"formats": [{"key": "a", "format": "PEM"}]}}`, "spec.target.configMap.formats[0].format", "supported values"},
		{root + `, "target": {"clusterTrustBundle": {"name": "a:b"}}`, "spec.target.clusterTrustBundle.name", "should match"},
	} {
		err := w.Create(t.Context(), w.bundle(t, "bad", tc.spec))
		if text := fmt.Sprint(err); !strings.Contains(text, tc.field+": ") || !strings.Contains(text, tc.message) {
			t.Errorf("%s: %v", tc.spec, err)
		}
	}
	if err := w.Create(t.Context(), w.bundle(t, strings.Repeat("a", 64), root)); err == nil || !strings.Contains(err.Error(), "at most 63 characters") {
		t.Errorf("a long name: %v", err)
	}
}

// Bounds: certificates, and TrustBundles in a namespace. The former roots stay.
func TestBounds(t *testing.T) {
	w := newWorld(t)
	root, key := newCA(t, "root"), apitest.NewKey(t)
	stored := w.configMap(t, "roots", root.pem)
	w.create(t, w.bundle(t, "large", `[{"configMap": {"name": "roots", "key": "ca.crt"}}, {"configMap": {"name": "more", "key": "ca.crt"}}]`))
	w.configMap(t, "more", newCA(t, "more").pem)
	w.await(t, "large", "Synced")
	var text strings.Builder
	for i := range 1001 {
		one, err := pki.NewRoot(pki.UnrecordedSigning, fmt.Sprint(i), key, time.Hour, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		text.Write(pki.EncodeCertificates(one.Certificate()))
	}
	stored.Data["ca.crt"] = text.String()
	if err := w.Update(t.Context(), stored); err != nil {
		t.Fatal(err)
	}
	if got := w.await(t, "large", "TooLarge"); !strings.HasPrefix(got, "The sources have 1002 certificates of ") {
		t.Error(got)
	}
	target := &corev1.ConfigMap{}
	if w.get(t, target, w.namespace, "large"); subjects(target.Data["ca.crt"]) != "more root" {
		t.Errorf("the target has %s", subjects(target.Data["ca.crt"]))
	}
	// 900 roots in PEM and four keystores are too large for one object.
	ends := strings.Split(text.String(), "-----BEGIN")
	w.configMap(t, "many", "-----BEGIN"+strings.Join(ends[1:901], "-----BEGIN"))
	w.create(t, w.bundle(t, "stores", `[{"configMap": {"name": "many", "key": "ca.crt"}}], "target": {"configMap": {"formats": [
		{"key": "a", "format": "JKS"}, {"key": "b", "format": "JKS"}, {"key": "c", "format": "JKS"}, {"key": "d", "format": "JKS"}]}}`))
	if got := w.await(t, "stores", "TooLarge"); !strings.HasPrefix(got, `The ConfigMap "stores" would have `) || !strings.HasSuffix(got, " bytes: at most 921600 are possible.") {
		t.Error(got)
	}
	if err := w.Delete(t.Context(), &v1alpha1.TrustBundle{ObjectMeta: w.named("stores")}); err != nil {
		t.Fatal(err)
	}
	var all []*v1alpha1.TrustBundle
	for i := range 50 {
		all = append(all, w.bundle(t, fmt.Sprintf("m%02d", i), `[{"inLine": `+quoted(root.pem)+`}]`))
		w.create(t, all[i])
	}
	if got := w.await(t, "m49", "TooMany"); got != "The namespace has 50 older TrustBundles: at most 50 are possible." {
		t.Error(got)
	}
	if err := w.Delete(t.Context(), all[0]); err != nil {
		t.Fatal(err)
	}
	w.await(t, "m49", "Synced")
}

// The roles for users are enough, and give no right to Secrets. A deleted namespace takes all
// with it.
func TestUsersAndNamespaces(t *testing.T) {
	w := newWorld(t)
	root := newCA(t, "root")
	w.secret(t, "ca", root.pem)
	binding := &rbacv1.RoleBinding{ObjectMeta: w.named("ann"), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "certplane-trust-edit"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "ann"}}}
	w.create(t, binding)
	ann, err := client.New(w.As(t, "ann"), client.Options{Scheme: w.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	bundle := w.bundle(t, "trust", `[{"secret": {"name": "ca", "key": "ca.crt"}}]`)
	apitest.Eventually(t, "ann may write TrustBundles", func() bool {
		err := ann.Create(t.Context(), bundle.DeepCopy())
		if err != nil && !apierrors.IsForbidden(err) {
			t.Fatal(err)
		}
		return err == nil
	})
	w.awaitRoots(t, "trust", root)
	if err := ann.Get(t.Context(), types.NamespacedName{Namespace: w.namespace, Name: "ca"}, &corev1.Secret{}); !apierrors.IsForbidden(err) {
		t.Errorf("ann reads the Secret: %v", err)
	}
	if err := w.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}}); err != nil {
		t.Fatal(err)
	}
	apitest.Eventually(t, "the namespace is gone", func() bool {
		return apierrors.IsNotFound(w.Get(t.Context(), types.NamespacedName{Name: w.namespace}, &corev1.Namespace{}))
	})
}
