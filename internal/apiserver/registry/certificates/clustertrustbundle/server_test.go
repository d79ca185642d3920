package clustertrustbundle_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1alpha1 "k8s.io/api/certificates/v1alpha1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	certificatesclient "k8s.io/client-go/kubernetes/typed/certificates/v1"
	"k8s.io/client-go/rest"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
)

type bundle = certificatesv1.ClusterTrustBundle

const signerName = "example.com/signer"

var (
	create = metav1.CreateOptions{}
	update = metav1.UpdateOptions{}
	get    = metav1.GetOptions{}
)

// world is a server and its administrator.
type world struct {
	*apitest.Server
	admin   kubernetes.Interface
	bundles certificatesclient.ClusterTrustBundleInterface
}

func start(t *testing.T) world {
	t.Helper()
	s := apitest.Start(t)
	admin := apitest.Client(t, s.Admin(t))
	return world{s, admin, admin.CertificatesV1().ClusterTrustBundles()}
}

// newRoot returns the certificate of a root that expires after life from now.
func newRoot(t *testing.T, life time.Duration) string {
	t.Helper()
	root, err := pki.NewRoot(pki.UnrecordedSigning, "root", apitest.NewKey(t), time.Hour, time.Now().Add(life-time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	return string(pki.EncodeCertificates(root.Certificate()))
}

func newBundle(name, signerName, trustBundle string) *bundle {
	return &bundle{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       certificatesv1.ClusterTrustBundleSpec{SignerName: signerName, TrustBundle: trustBundle},
	}
}

func (w world) create(t *testing.T, name, signerName, trustBundle string) *bundle {
	t.Helper()
	created, err := w.bundles.Create(t.Context(), newBundle(name, signerName, trustBundle), create)
	if err != nil {
		t.Fatal(err)
	}
	return created
}

// answer returns the code of an error and the message of each field.
func answer(err error) string {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return fmt.Sprint(err)
	}
	out := fmt.Sprint(status.Status().Code)
	if details := status.Status().Details; details != nil {
		for _, cause := range details.Causes {
			out += fmt.Sprintf(" %s %s", cause.Field, strings.TrimPrefix(string(cause.Type), "FieldValue"))
		}
	}
	return out
}

func TestCreate(t *testing.T) {
	w := start(t)
	root, other := newRoot(t, time.Hour), newRoot(t, time.Hour)
	der, err := pki.ParseCertificates([]byte(root))
	if err != nil {
		t.Fatal(err)
	}
	wrapped := "-----BEGIN CERTIFICATE-----\n" + base64.StdEncoding.EncodeToString(der[0].Raw) + "\n-----END CERTIFICATE-----\n"
	const badName, badBundle = "422 metadata.name Invalid", "422 spec.trustBundle Invalid"
	for _, tc := range []struct {
		reason, name, signer, trustBundle string
		want                              string
		detail                            string
	}{
		{"no signer", "unlinked", "", root, "<nil>", ""},
		{"no signer, a colon", "un:linked", "", root, badName, ""},
		{"a signer", "example.com:signer:linked", signerName, root, "<nil>", ""},
		{"a signer, no prefix", "linked", signerName, root, badName, ""},
		{"a signer, nothing after the prefix", "example.com:signer:", signerName, root, badName, ""},
		{"a signer, upper case after the prefix", "example.com:signer:Linked", signerName, root, badName, ""},
		{"a malformed signer", "malformed:x", "malformed", root, "422 spec.signerName Invalid", ""},
		{"empty", "empty", "", "", badBundle, "at least one"},
		{"junk", "junk", "", "junk", badBundle, "at least one"},
		{"junk around", "junk-around", "", "junk\n" + root + "junk\n" + other + "junk", "<nil>", ""},
		{"another label", "label", "", root + strings.ReplaceAll(other, "CERTIFICATE", "NO CERTIFICATE"), badBundle, "entry 1"},
		{"headers", "headers", "", root + strings.Replace(other, "-----\n", "-----\na: b\n\n", 1), badBundle, "entry 1"},
		{"no certificate", "nothing", "", root + "-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----\n", badBundle, "entry 1"},
		{"no CA", "leaf", "", leaf(t) + root, badBundle, "entry 0"},
		{"twice the same", "twice", "", root + wrapped, badBundle, "[0 1]"},
		{"as large as it may be", "large", "", root + strings.Repeat("#", 1<<20-len(root)), "<nil>", ""},
		{"too large", "too-large", "", root + strings.Repeat("#", 1<<20), "422 spec.trustBundle TooLong", ""},
		{"an expired root", "expired", "", newRoot(t, -time.Hour), "<nil>", ""},
	} {
		_, err := w.bundles.Create(t.Context(), newBundle(tc.name, tc.signer, tc.trustBundle), create)
		if got := answer(err); got != tc.want || err != nil && !strings.Contains(err.Error(), tc.detail) {
			t.Errorf("%s: %s (%v), want %s, %q", tc.reason, got, err, tc.want, tc.detail)
		}
	}
}

// leaf returns a certificate that is not a CA's.
func leaf(t *testing.T) string {
	t.Helper()
	key := apitest.NewKey(t)
	root, err := pki.NewRoot(pki.UnrecordedSigning, "root", key, time.Hour, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	chain, err := root.Issue(pki.UnrecordedSigning, pki.Subject{CommonName: "leaf"}, key.Public(), pki.ClientUsages(), time.Minute, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return string(pki.EncodeCertificates(chain[0]))
}

func TestUpdate(t *testing.T) {
	w := start(t)
	root, other := newRoot(t, time.Hour), newRoot(t, time.Hour)
	w.create(t, "example.com:signer:x", signerName, root)
	w.create(t, "unlinked", "", root)
	// Stored by a server with fewer checks.
	old := newBundle("old", "", "junk")
	old.APIVersion, old.Kind, old.UID = "certificates.k8s.io/v1beta1", "ClusterTrustBundle", "old"
	w.Store(t, "/registry/clustertrustbundles/old", encode(t, old))

	for _, tc := range []struct {
		reason, name string
		change       func(*bundle)
		want         string
	}{
		{"nothing", "unlinked", func(*bundle) {}, "<nil>"},
		{"a label of one that is not valid any more", "old", func(b *bundle) { b.Labels = map[string]string{"a": "b"} }, "<nil>"},
		{"one more anchor", "unlinked", func(b *bundle) { b.Spec.TrustBundle += other }, "<nil>"},
		{"no anchors", "unlinked", func(b *bundle) { b.Spec.TrustBundle = "" }, "422 spec.trustBundle Invalid"},
		{"junk", "unlinked", func(b *bundle) { b.Spec.TrustBundle = "junk" }, "422 spec.trustBundle Invalid"},
		{"other junk", "old", func(b *bundle) { b.Spec.TrustBundle = "more junk" }, "422 spec.trustBundle Invalid"},
		{"a signer comes", "unlinked", func(b *bundle) { b.Spec.SignerName = signerName }, "422 metadata.name Invalid spec.signerName Invalid"},
		{"the signer goes", "example.com:signer:x", func(b *bundle) { b.Spec.SignerName = "" }, "422 metadata.name Invalid spec.signerName Invalid"},
		{"another signer", "example.com:signer:x", func(b *bundle) { b.Spec.SignerName = "example.com/other" }, "422 metadata.name Invalid spec.signerName Invalid"},
		{"of no version", "unlinked", func(b *bundle) { b.ResourceVersion = "" }, "422 metadata.resourceVersion Invalid"},
		{"of an old version", "unlinked", func(b *bundle) { b.ResourceVersion = "1" }, "409"},
		{"of nothing", "unlinked", func(b *bundle) { b.Name, b.ResourceVersion, b.UID = "absent", "", "" }, "404"},
	} {
		obj, err := w.bundles.Get(t.Context(), tc.name, get)
		if err != nil {
			t.Fatal(err)
		}
		tc.change(obj)
		if _, err := w.bundles.Update(t.Context(), obj, update); answer(err) != tc.want {
			t.Errorf("%s: %s (%v), want %s", tc.reason, answer(err), err, tc.want)
		}
	}
}

func encode(t *testing.T, obj any) string {
	t.Helper()
	data, err := json.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// A bundle has the same fields in every version, and is stored in the newest.
func TestVersions(t *testing.T) {
	w := start(t)
	root := newRoot(t, time.Hour)
	alpha, beta := w.admin.CertificatesV1alpha1().ClusterTrustBundles(), w.admin.CertificatesV1beta1().ClusterTrustBundles()
	if _, err := alpha.Create(t.Context(), &certificatesv1alpha1.ClusterTrustBundle{
		ObjectMeta: metav1.ObjectMeta{Name: "v1alpha1"}, Spec: certificatesv1alpha1.ClusterTrustBundleSpec{TrustBundle: root},
	}, create); err != nil {
		t.Fatal(err)
	}
	if _, err := beta.Create(t.Context(), &certificatesv1beta1.ClusterTrustBundle{
		ObjectMeta: metav1.ObjectMeta{Name: "v1beta1"}, Spec: certificatesv1beta1.ClusterTrustBundleSpec{TrustBundle: root},
	}, create); err != nil {
		t.Fatal(err)
	}
	w.create(t, "v1", "", root)
	for _, name := range []string{"v1alpha1", "v1beta1", "v1"} {
		a, errA := alpha.Get(t.Context(), name, get)
		b, errB := beta.Get(t.Context(), name, get)
		c, errC := w.bundles.Get(t.Context(), name, get)
		if err := errors.Join(errA, errB, errC); err != nil {
			t.Fatal(err)
		}
		if a.Spec.TrustBundle != root || b.Spec.TrustBundle != root || c.Spec.TrustBundle != root {
			t.Errorf("%s is not the same in all versions", name)
		}
		if stored := w.Stored(t, "/registry/clustertrustbundles/"+name); !strings.Contains(stored[:min(60, len(stored))], "\x1bcertificates.k8s.io/v1beta1\x12\x12ClusterTrustBundle") {
			t.Errorf("%s is stored as %q...", name, stored[:min(60, len(stored))])
		}
	}
}

func TestFieldSelectors(t *testing.T) {
	w := start(t)
	root := newRoot(t, time.Hour)
	w.create(t, "example.com:a:1", "example.com/a", root)
	w.create(t, "example.com:a:2", "example.com/a", root)
	w.create(t, "example.com:b:1", "example.com/b", root)
	w.create(t, "none", "", root)
	for _, tc := range []struct{ selector, want string }{
		{"spec.signerName=example.com/a", "example.com:a:1 example.com:a:2"},
		{"spec.signerName=example.com/b", "example.com:b:1"},
		{"metadata.name=none", "none"},
		{"spec.signerName=example.com/a,metadata.name=example.com:a:2", "example.com:a:2"},
		{"spec.signerName=example.com/c", ""},
		{"spec.trustBundle=x", "400"},
		{"metadata.namespace=x", "400"},
	} {
		options := metav1.ListOptions{FieldSelector: tc.selector}
		list, err := w.bundles.List(t.Context(), options)
		got := answer(err)
		if err == nil {
			// The server and its controllers publish roots too.
			list.Items = slices.DeleteFunc(list.Items, func(b bundle) bool { return strings.HasPrefix(b.Name, "kubernetes.io:") })
			got = names(list.Items)
		}
		if got != tc.want {
			t.Errorf("%s: %q, want %q", tc.selector, got, tc.want)
		}
		for _, list := range []func() error{
			func() error {
				_, err := w.admin.CertificatesV1beta1().ClusterTrustBundles().List(t.Context(), options)
				return err
			},
			func() error {
				_, err := w.admin.CertificatesV1alpha1().ClusterTrustBundles().List(t.Context(), options)
				return err
			},
		} {
			if refused := list() != nil; refused != (tc.want == "400") {
				t.Errorf("%s is refused in an older version: %v", tc.selector, refused)
			}
		}
	}
}

func names(bundles []bundle) string {
	var out []string
	for _, b := range bundles {
		out = append(out, b.Name)
	}
	return strings.Join(out, " ")
}

func TestTable(t *testing.T) {
	w := start(t)
	root := newRoot(t, time.Hour)
	w.create(t, "example.com:signer:x", signerName, root)
	w.create(t, "none", "", root)
	for name, want := range map[string]string{
		"none":                 "none|<none>",
		"example.com:signer:x": "example.com:signer:x|example.com/signer",
	} {
		for _, version := range []string{"v1", "v1beta1", "v1alpha1"} {
			got := apitest.Table(t, w.Admin(t), "/apis/certificates.k8s.io/"+version+"/clustertrustbundles/"+name)
			if diff := cmp.Diff("Name|SignerName\n"+want+"\n", got); diff != "" {
				t.Errorf("%s %s (-want +got):\n%s", version, name, diff)
			}
		}
	}
}

// warnings records the warnings that a client gets from the server.
type warnings []string

func (w *warnings) HandleWarningHeader(_ int, _ string, text string) { *w = append(*w, text) }

// Warnings never make a request fail, and an update of other fields repeats
// none.
func TestWarnings(t *testing.T) {
	w := start(t)
	var told warnings
	cfg := rest.CopyConfig(w.Admin(t))
	cfg.WarningHandler = &told
	bundles := apitest.Client(t, cfg).CertificatesV1().ClusterTrustBundles()

	created, err := bundles.Create(t.Context(), newBundle("x", "", newRoot(t, -time.Hour)), create)
	if err != nil {
		t.Fatal(err)
	}
	expired := warnings{"spec.trustBundle: the CAs of entries [0] have expired, so nothing can be verified with them"}
	if diff := cmp.Diff(expired, told); diff != "" {
		t.Errorf("warnings of a create (-want +got):\n%s", diff)
	}
	told = nil
	if _, err := bundles.Patch(t.Context(), created.Name, types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if len(told) != 0 {
		t.Errorf("a label warns: %v", told)
	}
	patch := encode(t, map[string]any{"spec": map[string]string{"trustBundle": newRoot(t, time.Hour) + "-----BEGIN CERTIFICATE-----\n"}})
	if _, err := bundles.Patch(t.Context(), created.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if len(told) != 1 || !strings.Contains(told[0], "looks like PEM blocks") {
		t.Errorf("half a block warns: %v", told)
	}
}

// Every service account may read the bundles. Users may not by default.
func TestDiscoveryRole(t *testing.T) {
	w := start(t)
	for user, want := range map[string]string{"system:serviceaccount:ns:app": "<nil>", "alice": "403"} {
		groups := []string{"system:authenticated"}
		if want == "<nil>" {
			groups = append(groups, "system:serviceaccounts")
		}
		client := apitest.Client(t, w.As(t, user, groups...)).CertificatesV1().ClusterTrustBundles()
		if _, err := client.List(t.Context(), metav1.ListOptions{}); answer(err) != want {
			t.Errorf("%s lists: %v", user, err)
		}
		if _, err := client.Create(t.Context(), newBundle("x", "", newRoot(t, time.Hour)), create); answer(err) != "403" {
			t.Errorf("%s creates: %v", user, err)
		}
	}
}
