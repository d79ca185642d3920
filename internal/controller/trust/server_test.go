package trust_test

import (
	"crypto/x509"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/jsonpath"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/run/server"
	"github.com/certplane/certplane/internal/store/datadir"
)

const (
	servingSigner = "kubernetes.io/kube-apiserver-serving"
	clientSigner  = certificatesv1.KubeAPIServerClientSignerName
	untilKey      = "certplane.dev/trusted-until"
)

type bundle = certificatesv1.ClusterTrustBundle

// world is a server and its administrator.
type world struct {
	*apitest.Server
	admin kubernetes.Interface
}

func start(t *testing.T, options ...func(*server.Config)) world {
	t.Helper()
	s := apitest.Start(t, options...)
	return world{s, apitest.Client(t, s.Admin(t))}
}

// bundlesOf returns the bundles of a signer.
func (w world) bundlesOf(t *testing.T, signerName string) []bundle {
	t.Helper()
	list, err := w.admin.CertificatesV1().ClusterTrustBundles().List(t.Context(), metav1.ListOptions{FieldSelector: "spec.signerName=" + signerName})
	if err != nil {
		t.Fatal(err)
	}
	return list.Items
}

// onlyBundleOf waits for the one bundle of a signer.
func (w world) onlyBundleOf(t *testing.T, signerName string) bundle {
	t.Helper()
	var found []bundle
	apitest.Eventually(t, signerName+" has one bundle", func() bool {
		found = w.bundlesOf(t, signerName)
		return len(found) == 1
	})
	return found[0]
}

// trusts reports whether a certificate is an anchor of one of the bundles.
func trusts(t *testing.T, bundles []bundle, cert *x509.Certificate) bool {
	t.Helper()
	return slices.ContainsFunc(bundles, func(b bundle) bool {
		anchors, err := pki.ParseCertificates([]byte(b.Spec.TrustBundle))
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(anchors, cert.Equal)
	})
}

// A server publishes the roots of its signers, and its own, by default.
func TestServerPublishes(t *testing.T) {
	t.Parallel()
	w := start(t)
	for _, signerName := range []string{
		clientSigner, certificatesv1.KubeAPIServerClientKubeletSignerName, certificatesv1.KubeletServingSignerName, "kubernetes.io/legacy-unknown",
	} {
		published := w.onlyBundleOf(t, signerName)
		if !trusts(t, []bundle{published}, w.ClientRoot(t)) {
			t.Errorf("the bundle of %s lacks the root", signerName)
		}
		if prefix := strings.ReplaceAll(signerName, "/", ":") + ":"; !strings.HasPrefix(published.Name, prefix) {
			t.Errorf("the bundle of %s is called %s", signerName, published.Name)
		}
	}
	serving := w.onlyBundleOf(t, servingSigner)
	data, err := os.ReadFile(filepath.Join(datadir.Dir(w.Config.DataDir).PKI(), "serving-ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	anchors, err := pki.ParseBundle(data)
	if err != nil {
		t.Fatal(err)
	}
	if !trusts(t, []bundle{serving}, anchors[len(anchors)-1]) {
		t.Error("the bundle of the API server lacks its root")
	}
	metrics, err := w.admin.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(metrics), `clustertrustbundle_publisher_sync_total{code="200"}`) {
		t.Error("the publisher counts nothing")
	}
}

// Changes that other clients make to the publisher's bundles are undone;
// bundles of other clients stay.
func TestServerRepairs(t *testing.T) {
	t.Parallel()
	w := start(t)
	bundles := w.admin.CertificatesV1().ClusterTrustBundles()
	other, _ := rootAndKey(t, "stranger")
	stranger := string(pki.EncodeCertificates(other.Certificate()))
	create := func(name, signerName string) {
		t.Helper()
		b := &bundle{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: certificatesv1.ClusterTrustBundleSpec{SignerName: signerName, TrustBundle: stranger}}
		if _, err := bundles.Create(t.Context(), b, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	original := w.onlyBundleOf(t, servingSigner)
	create("unlinked", "")
	create("example.com:other:x", "example.com/other")
	create("kubernetes.io:kube-apiserver-serving:x", servingSigner)

	tampered := original.DeepCopy()
	tampered.Spec.TrustBundle = stranger
	if _, err := bundles.Update(t.Context(), tampered, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	apitest.Eventually(t, "the bundle is as it was, alone", func() bool {
		found := w.bundlesOf(t, servingSigner)
		return len(found) == 1 && found[0].Name == original.Name && found[0].Spec.TrustBundle == original.Spec.TrustBundle
	})
	if err := bundles.Delete(t.Context(), original.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if again := w.onlyBundleOf(t, servingSigner); again.Spec.TrustBundle != original.Spec.TrustBundle {
		t.Error("the deleted bundle has come back as another one")
	}
	for _, name := range []string{"unlinked", "example.com:other:x"} {
		if got, err := bundles.Get(t.Context(), name, metav1.GetOptions{}); err != nil || got.Spec.TrustBundle != stranger {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// While a CA changes, pods that mount bundles by the signer's name trust both
// roots.
func TestServerOverlap(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "ca.crt"), filepath.Join(dir, "ca.key")
	use := func(ca *pki.Authority, key []byte) {
		t.Helper()
		for file, data := range map[string][]byte{keyFile: key, certFile: pki.EncodeCertificates(ca.Certificate())} {
			if err := os.WriteFile(file, data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	older, olderKey := rootAndKey(t, "older")
	newer, newerKey := rootAndKey(t, "newer")
	use(older, olderKey)
	w := start(t, func(c *server.Config) {
		c.Signing.CA.CertFile, c.Signing.CA.KeyFile = certFile, keyFile
	})
	first := w.onlyBundleOf(t, clientSigner)
	if !trusts(t, []bundle{first}, older.Certificate()) {
		t.Fatal("the first bundle lacks the first root")
	}

	use(newer, newerKey)
	apitest.Eventually(t, "old and new are trusted", func() bool {
		found := w.bundlesOf(t, clientSigner)
		return trusts(t, found, older.Certificate()) && trusts(t, found, newer.Certificate())
	})
	w.collectsRootsAsDocumented(t, older.Certificate(), newer.Certificate())
	apitest.Eventually(t, "the old bundle says until when", func() bool {
		old, err := w.admin.CertificatesV1().ClusterTrustBundles().Get(t.Context(), first.Name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		until, err := time.Parse(time.RFC3339, old.Annotations[untilKey])
		return err == nil && until.After(older.Certificate().NotAfter)
	})
}

var (
	// rootsCommand is the documented command that gets the roots of a signer.
	rootsCommand = regexp.MustCompile(`(?m)^\$ kubectl get clustertrustbundles --field-selector spec.signerName=.*$`)
	template     = regexp.MustCompile(`jsonpath='?(\{.*\})'`)
)

// collectsRootsAsDocumented evaluates the kubectl arguments on each page of the
// documentation. All roots must be in the output, for any program that reads
// PEM.
func (w world) collectsRootsAsDocumented(t *testing.T, roots ...*x509.Certificate) {
	t.Helper()
	list, err := w.admin.CertificatesV1().ClusterTrustBundles().List(t.Context(), metav1.ListOptions{FieldSelector: "spec.signerName=" + clientSigner})
	if err != nil {
		t.Fatal(err)
	}
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(list)
	if err != nil {
		t.Fatal(err)
	}
	const page = "../../../docs/trust.md"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	command := rootsCommand.FindString(strings.ReplaceAll(string(text), "\\\n", ""))
	found := template.FindStringSubmatch(command)
	if found == nil {
		t.Fatalf("%s does not say how to get the roots of a signer: %q", page, command)
	}
	printer := jsonpath.New(page)
	if err := printer.Parse(found[1]); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := printer.Execute(&out, object); err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(out.String()))
	for _, root := range roots {
		if _, err := root.Verify(x509.VerifyOptions{Roots: pool, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}); err != nil {
			t.Errorf("%s: the command loses the root %s: %v", page, root.Subject, err)
		}
	}
}

func rootAndKey(t *testing.T, name string) (*pki.Authority, []byte) {
	t.Helper()
	key := apitest.NewKey(t)
	root, err := pki.NewRoot(pki.UnrecordedSigning, name, key, time.Hour, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	data, err := pki.EncodePrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return root, data
}
