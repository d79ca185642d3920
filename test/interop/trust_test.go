package interop

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const (
	bundles         = "/apis/certificates.k8s.io/v1beta1/clustertrustbundles"
	kubeletServing  = "kubernetes.io/kubelet-serving"
	apiServerSigner = "kubernetes.io/kube-apiserver-serving"
)

// A real kube-apiserver gets the roots of signers as trust bundles. While a CA
// changes, it has old and new ones together.
func TestTrustBundles(t *testing.T) {
	servers := startServers(t,
		"--feature-gates=ClusterTrustBundle=true,ClusterTrustBundleProjection=true",
		"--runtime-config=certificates.k8s.io/v1beta1/clustertrustbundles=true")
	chosen := filepath.Join(servers.dir, "chosen.yaml")
	write(t, chosen, `{apiVersion: config.certplane.dev/v1alpha1, kind: ControllersConfiguration, controllers: ["*", publish]}`)
	c := installIn(t, servers, "--config", chosen)
	first, rootFile, config := newCA(t, "first"), filepath.Join(c.dir, "root.pem"), filepath.Join(c.dir, "controllers.yaml")
	first.write(t, c.dir)
	write(t, rootFile, newCA(t, "api server").certificate)
	write(t, config, `
apiVersion: config.certplane.dev/v1alpha1
kind: ControllersConfiguration
controllers: ["*", publish]
publishing: {rootCAFile: root.pem}
trust: {overlap: 20s}
`)
	c.foreign(t)
	c.controllers(t, "--config", config, "--cluster-signing-cert-file", "ca.crt", "--cluster-signing-key-file", "ca.key")

	t.Run("a bundle for each signer", func(t *testing.T) {
		for _, signer := range []string{kubeletServing, "kubernetes.io/kube-apiserver-client", "kubernetes.io/kube-apiserver-client-kubelet", "kubernetes.io/legacy-unknown"} {
			c.trusts(t, signer, first.certificate)
		}
		c.trustsOnly(t, apiServerSigner, read(t, rootFile))
	})
	t.Run("an edited one is restored", func(t *testing.T) {
		c.edit(t, nameOf(apiServerSigner, read(t, rootFile)), newCA(t, "intruder").certificate)
		c.trustsOnly(t, apiServerSigner, read(t, rootFile))
	})
	t.Run("other CAs", func(t *testing.T) { c.testOtherCA(t, first) })
	t.Run("what others have published stays", func(t *testing.T) {
		for _, name := range []string{"unlinked", "kubernetes.io:kubelet-serving:mine", "example.com:signer:x"} {
			if c.bundle(t, name) == "" {
				t.Errorf("%s is gone", name)
			}
		}
	})
}

// testOtherCA checks that the old root stays beside the new one, and is removed
// in the end.
func (c *cluster) testOtherCA(t *testing.T, first *ca) {
	second := newCA(t, "second")
	second.write(t, c.dir)
	c.trusts(t, kubeletServing, second.certificate)
	old := nameOf(kubeletServing, first.certificate)
	if c.bundle(t, old) == "" {
		t.Error("the old root went when the new one came")
	}
	eventually(t, "the bundle of the old root says until when it stays", func() bool {
		until := c.annotation(t, old, "certplane.dev/trusted-until")
		at, err := time.Parse(time.RFC3339, until)
		return err == nil && at.After(time.Now()) || c.bundle(t, old) == ""
	})
	eventually(t, "the old root is not trusted any more", func() bool { return c.bundle(t, old) == "" })
	c.trusts(t, kubeletServing, second.certificate)
}

// foreign creates bundles that another client has published.
func (c *cluster) foreign(t *testing.T) {
	t.Helper()
	for name, signer := range map[string]string{
		"unlinked":                               "",
		"example.com:signer:x":                   "example.com/signer",
		"kubernetes.io:kubelet-serving:mine":     kubeletServing,
		"kubernetes.io:kube-apiserver-serving:x": apiServerSigner, // whose publisher there is but one of
	} {
		created := c.do(t, call{method: http.MethodPost, path: bundles, body: map[string]any{
			"apiVersion": "certificates.k8s.io/v1beta1", "kind": "ClusterTrustBundle", "metadata": map[string]any{"name": name},
			"spec": map[string]any{"signerName": signer, "trustBundle": newCA(t, name).certificate},
		}})
		if created.Code != http.StatusCreated {
			t.Fatalf("creating bundle %s: %+v", name, created)
		}
	}
}

// trusts waits until a bundle of a signer has exactly this content.
func (c *cluster) trusts(t *testing.T, signer, content string) {
	t.Helper()
	eventually(t, "the roots of "+signer+" are published", func() bool { return c.bundle(t, nameOf(signer, content)) == content })
}

// trustsOnly waits until the signer has no other bundle.
func (c *cluster) trustsOnly(t *testing.T, signer, content string) {
	t.Helper()
	c.trusts(t, signer, content)
	eventually(t, "there is no other bundle of "+signer, func() bool {
		list := c.do(t, call{method: http.MethodGet, path: bundles + "?fieldSelector=" + url.QueryEscape("spec.signerName="+signer)}).object(t)
		return len(list["items"].([]any)) == 1
	})
}

// bundle returns the content of a bundle, or "" if it does not exist.
func (c *cluster) bundle(t *testing.T, name string) string {
	t.Helper()
	got := c.do(t, call{method: http.MethodGet, path: bundles + "/" + name})
	if got.Code != http.StatusOK {
		return ""
	}
	content, _ := got.object(t)["spec"].(map[string]any)["trustBundle"].(string)
	return content
}

func (c *cluster) annotation(t *testing.T, name, key string) string {
	t.Helper()
	got := c.do(t, call{method: http.MethodGet, path: bundles + "/" + name})
	if got.Code != http.StatusOK {
		return ""
	}
	annotations, _ := got.object(t)["metadata"].(map[string]any)["annotations"].(map[string]any)
	value, _ := annotations[key].(string)
	return value
}

func (c *cluster) edit(t *testing.T, name, content string) {
	t.Helper()
	patched := c.do(t, call{
		method: http.MethodPatch, path: bundles + "/" + name, contentType: "application/merge-patch+json",
		body: map[string]any{"spec": map[string]any{"trustBundle": content}},
	})
	if patched.Code != http.StatusOK {
		t.Fatalf("editing bundle %s: %+v", name, patched)
	}
}

// nameOf returns the name that Kubernetes gives to a bundle.
func nameOf(signer, content string) string {
	sum := sha256.Sum256([]byte(content))
	return fmt.Sprintf("%s:%x", strings.ReplaceAll(signer, "/", ":"), sum[:12])
}

// ca is a root in PEM.
type ca struct{ certificate, key string }

func newCA(t *testing.T, name string) *ca {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	block := func(kind string, der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	return &ca{certificate: block("CERTIFICATE", der), key: block("EC PRIVATE KEY", keyDER)}
}

// write writes the CA to where the controllers have theirs.
func (a *ca) write(t *testing.T, dir string) {
	t.Helper()
	write(t, filepath.Join(dir, "ca.crt"), a.certificate)
	write(t, filepath.Join(dir, "ca.key"), a.key)
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
