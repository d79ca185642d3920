package interop

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// declared is a Signer of SPIFFE IDs for pods.
const declared = `
apiVersion: certplane.dev/v1alpha1
kind: Signer
metadata: {name: workload}
spec:
  signerName: example.com/workload
  requests: [PodCertificateRequest]
  ca: {generated: {}}
  profile:
    names:
      uris: '["spiffe://example.org/ns/" + request.namespace + "/sa/" + serviceAccount.metadata.name]'
    keyTypes: [ECDSAP256]
    usages: [digital signature, client auth, server auth]
`

// Declared signers sign what pods of a real kube-apiserver request, in both
// forms, publish their roots there, and detect false statements about pods,
// which kube-apiserver accepts from clients other than nodes.
func TestPodCertificates(t *testing.T) {
	servers := startServers(t,
		"--feature-gates=PodCertificateRequest=true,ClusterTrustBundle=true,ClusterTrustBundleProjection=true",
		"--runtime-config=certificates.k8s.io/v1beta1/podcertificaterequests=true,certificates.k8s.io/v1beta1/clustertrustbundles=true")
	c := installIn(t, servers)
	c.controllers(t)
	c.apply(t, declared)
	eventually(t, "the Signer is ready", func() bool {
		ready := c.kubectl(t, "get", "signer", "workload", "-o", `jsonpath={.status.conditions[?(@.type=="Ready")].status}`)
		return strings.TrimSpace(ready) == "True"
	})
	p := c.newPod(t, "web")
	key := newECKey(t)

	for form, spec := range map[string]map[string]any{"stub": p.stub(t, key), "legacy": p.legacy(t, key)} {
		t.Run(form, func(t *testing.T) {
			answered := c.ask(t, form, spec)
			if got := typeAndReason(t, answered); got != "Issued Issued" {
				t.Fatalf("the request is %s: %v", got, answered["status"])
			}
			status, _ := answered["status"].(map[string]any)
			chain, _ := status["certificateChain"].(string)
			leaf := parseLeaf(t, chain)
			if len(leaf.URIs) != 1 || leaf.URIs[0].String() != "spiffe://example.org/ns/default/sa/web" {
				t.Errorf("URIs %v", leaf.URIs)
			}
			for _, field := range []string{"notBefore", "notAfter", "beginRefreshAt"} {
				text, _ := status[field].(string)
				if _, err := time.Parse(time.RFC3339, text); err != nil {
					t.Errorf("%s: %v", field, err)
				}
			}
			eventually(t, "the root is published", func() bool { return c.publishes(t, "example.com/workload", leaf) })
		})
	}
	t.Run("a lie", func(t *testing.T) {
		spec := p.stub(t, key)
		spec["podUID"] = "11111111-2222-3333-4444-555555555555"
		if got := typeAndReason(t, c.ask(t, "lie", spec)); got != "Denied IdentityMismatch" {
			t.Errorf("the request is %s", got)
		}
	})
	t.Run("a key of another type", func(t *testing.T) {
		other, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		if got := typeAndReason(t, c.ask(t, "p384", p.stub(t, other))); got != "Denied UnsupportedKeyType" {
			t.Errorf("the request is %s", got)
		}
	})
}

// apply applies a manifest.
func (c *cluster) apply(t *testing.T, manifest string) {
	t.Helper()
	path := filepath.Join(c.dir, "applied.yaml")
	write(t, path, manifest)
	c.kubectl(t, "apply", "--server-side", "-f", path)
}

func newECKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// pod is a pod with everything that its requests name.
type pod struct{ name, uid, account, node, nodeUID string }

func (c *cluster) newPod(t *testing.T, name string) pod {
	t.Helper()
	create := func(path string, object map[string]any) (uid string) {
		created := c.do(t, call{method: http.MethodPost, path: path, body: object})
		if created.Code != http.StatusCreated {
			t.Fatalf("creating at %s: %+v", path, created)
		}
		uid, _ = created.object(t)["metadata"].(map[string]any)["uid"].(string)
		return uid
	}
	object := func(kind, name string) map[string]any {
		return map[string]any{"apiVersion": "v1", "kind": kind, "metadata": map[string]any{"name": name}}
	}
	p := pod{name: name, node: "node-1"}
	p.account = create("/api/v1/namespaces/default/serviceaccounts", object("ServiceAccount", name))
	p.nodeUID = create("/api/v1/nodes", object("Node", p.node))
	running := object("Pod", name)
	running["spec"] = map[string]any{
		"nodeName": p.node, "serviceAccountName": name,
		"containers": []any{map[string]any{"name": "c", "image": "image"}},
	}
	p.uid = create("/api/v1/namespaces/default/pods", running)
	return p
}

func (p pod) spec() map[string]any {
	return map[string]any{
		"signerName": "example.com/workload", "podName": p.name, "podUID": p.uid,
		"serviceAccountName": p.name, "serviceAccountUID": p.account,
		"nodeName": p.node, "nodeUID": p.nodeUID,
	}
}

// stub is the spec of a request in the form of Kubernetes 1.36.
func (p pod) stub(t *testing.T, key *ecdsa.PrivateKey) map[string]any {
	t.Helper()
	stub, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		t.Fatal(err)
	}
	spec := p.spec()
	spec["stubPKCS10Request"] = stub
	return spec
}

// legacy is the spec of a request in the form of Kubernetes 1.35.
func (p pod) legacy(t *testing.T, key *ecdsa.PrivateKey) map[string]any {
	t.Helper()
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte(p.uid))
	proof, err := ecdsa.SignASN1(rand.Reader, key, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	spec := p.spec()
	spec["pkixPublicKey"], spec["proofOfPossession"] = public, proof
	return spec
}

// ask creates a request and waits for the answer.
func (c *cluster) ask(t *testing.T, name string, spec map[string]any) map[string]any {
	t.Helper()
	created := c.do(t, call{method: http.MethodPost, path: podRequests, body: map[string]any{
		"apiVersion": "certificates.k8s.io/v1beta1", "kind": "PodCertificateRequest",
		"metadata": map[string]any{"name": name}, "spec": spec,
	}})
	if created.Code != http.StatusCreated {
		t.Fatalf("creating request %s: %+v", name, created)
	}
	var answered map[string]any
	eventually(t, "request "+name+" is answered", func() bool {
		answered = c.do(t, call{method: http.MethodGet, path: podRequests + "/" + name}).object(t)
		return typeAndReason(t, answered) != ""
	})
	return answered
}

// typeAndReason returns the type and the reason of the condition of a request.
func typeAndReason(t *testing.T, request map[string]any) string {
	t.Helper()
	status, _ := request["status"].(map[string]any)
	all, _ := status["conditions"].([]any)
	var found []string
	for _, one := range all {
		cond, _ := one.(map[string]any)
		kind, _ := cond["type"].(string)
		reason, _ := cond["reason"].(string)
		found = append(found, kind+" "+reason)
	}
	return strings.Join(found, ", ")
}

func parseLeaf(t *testing.T, chain string) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode([]byte(chain))
	if block == nil {
		t.Fatalf("no certificate in %q", chain)
	}
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return leaf
}

// publishes reports whether a bundle of a signer verifies a certificate.
func (c *cluster) publishes(t *testing.T, signer string, leaf *x509.Certificate) bool {
	t.Helper()
	items, _ := c.do(t, call{method: http.MethodGet, path: bundles}).object(t)["items"].([]any)
	return slices.ContainsFunc(items, func(item any) bool {
		spec, _ := item.(map[string]any)["spec"].(map[string]any)
		if spec["signerName"] != signer {
			return false
		}
		roots := x509.NewCertPool()
		text, _ := spec["trustBundle"].(string)
		roots.AppendCertsFromPEM([]byte(text))
		_, err := leaf.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
		return err == nil
	})
}
