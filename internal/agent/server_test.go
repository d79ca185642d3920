package agent_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/certplane/certplane/internal/agent/status"
	"github.com/certplane/certplane/internal/apitest"
)

const certificate = "podCertificate: {signerName: example.com/spiffe, keyType: ECDSAP256, credentialBundlePath: bundle.pem, keyPath: key.pem, certificateChainPath: chain.pem}"

func TestFirstPass(t *testing.T) {
	h := newHost(t, common.Start(t))
	h.web("podCertificate: {signerName: example.com/spiffe, keyType: ED25519, credentialBundlePath: bundle.pem, maxExpirationSeconds: 7200, userAnnotations: {example.com/a: b}}")
	h.run()
	request, pod := h.request(), h.pod()
	node, err := h.admin.CoreV1().Nodes().Get(t.Context(), h.node, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	account, err := h.admin.CoreV1().ServiceAccounts(h.namespace).Get(t.Context(), "default", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	csr, err := x509.ParseCertificateRequest(request.Spec.StubPKCS10Request)
	if err != nil || csr.Subject.String() != "" || csr.PublicKeyAlgorithm != x509.Ed25519 {
		t.Errorf("the request in it: %v, %v", csr, err)
	}
	want := certificatesv1.PodCertificateRequestSpec{
		SignerName: "example.com/spiffe",
		PodName:    pod.Name, PodUID: pod.UID, ServiceAccountName: "default", ServiceAccountUID: account.UID,
		NodeName: types.NodeName(h.node), NodeUID: node.UID,
		MaxExpirationSeconds: ptr.To[int32](7200), StubPKCS10Request: request.Spec.StubPKCS10Request,
		UnverifiedUserAnnotations: map[string]string{"example.com/a": "b"},
	}
	if diff := cmp.Diff(want, request.Spec); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
	owners := []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}}
	if diff := cmp.Diff(owners, request.OwnerReferences); diff != "" {
		t.Errorf("owners (-want +got):\n%s", diff)
	}
	for range 120 { // two minutes
		h.clock.Step(time.Second)
	}
	if all := h.requests(); len(all) != 1 {
		t.Errorf("there are %d requests, want one", len(all))
	}
	h.eventually("it is told that nobody signs", func() bool {
		return strings.Contains(h.source(0).Error, "no signer has answered the request. To check whether a signer for example.com/spiffe exists: certplane explain podcertificaterequest "+request.Name+" -n "+h.namespace)
	})
	if pod.Spec.NodeName != h.node || len(pod.OwnerReferences) != 1 || pod.OwnerReferences[0].UID != node.UID {
		t.Errorf("the pod is not the node's: %v, %v", pod.Spec.NodeName, pod.OwnerReferences)
	}
}

func TestFullFlow(t *testing.T) {
	h := newHost(t, common.Start(t))
	ca := newSigner(t)
	h.web(certificate)
	h.run()
	first := h.request()
	chain := ca.issue(h, first)
	h.eventually("all files are there", func() bool { return h.file("chain.pem") == chain && h.file("key.pem") != "" })
	key := h.file("key.pem")
	if h.file("bundle.pem") != key+chain {
		t.Error("the bundle is not the key and the chain")
	}
	if _, err := tls.LoadX509KeyPair(h.path("bundle.pem"), h.path("bundle.pem")); err != nil {
		t.Error(err)
	}
	for name, want := range map[string]os.FileMode{"bundle.pem": 0o600, "key.pem": 0o600, "chain.pem": 0o644} {
		if info, err := os.Stat(h.path(name)); err != nil || info.Mode().Perm() != want {
			t.Errorf("mode of %s: %v, %v; want %o", name, info.Mode(), err, want)
		}
	}
	h.eventually("the pod is ready in the API", func() bool {
		for _, c := range h.pod().Status.Conditions {
			if c.Type == "Ready" && c.Status == "True" {
				return true
			}
		}
		return false
	})
	h.clock.Step(23*time.Hour + 36*time.Minute)
	second := h.request(first.Name)
	if h.file("chain.pem") != chain {
		t.Error("the old certificate has gone before the new one came")
	}
	chain = ca.issue(h, second)
	h.eventually("the new certificate is there", func() bool { return h.file("chain.pem") == chain })
	if h.file("key.pem") == key {
		t.Error("the new certificate is for the old key")
	}
}

// A request that is deleted before a signer answers it is recreated.
func TestRequestDeleted(t *testing.T) {
	h := newHost(t, common.Start(t))
	h.web(certificate)
	h.run()
	first := h.request()
	if err := h.admin.CertificatesV1().PodCertificateRequests(h.namespace).Delete(t.Context(), first.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	second := h.request(first.Name)
	chain := newSigner(t).issue(h, second)
	h.eventually("the certificate is there", func() bool { return h.file("chain.pem") == chain })
}

// A refusal on refresh removes nothing, and does not keep the other files of
// the volume from being refreshed.
func TestRefusedRefresh(t *testing.T) {
	h := newHost(t, common.Start(t))
	ca := newSigner(t)
	h.web(certificate, "serviceAccountToken: {path: token, audience: vault}")
	h.run()
	first := h.request()
	chain := ca.issue(h, first)
	h.eventually("the files are there", func() bool { return h.file("chain.pem") == chain && h.file("token") != "" })
	h.clock.Step(23*time.Hour + 36*time.Minute)
	second := h.request(first.Name)
	ca.refuse(h, second, certificatesv1.PodCertificateRequestConditionTypeDenied, "UnsupportedKeyType")
	h.passing(0, "the refusal is told", func() bool { return strings.HasPrefix(h.source(0).Error, "Denied: UnsupportedKeyType") })
	token := h.file("token")
	h.clock.Step(2 * time.Hour)
	h.eventually("the token is refreshed", func() bool { return h.file("token") != token })
	if h.file("chain.pem") != chain {
		t.Error("the last good certificate is not there any more")
	}
	third := h.request(first.Name, second.Name)
	chain = ca.issue(h, third)
	h.eventually("a later request is granted", func() bool { return h.file("chain.pem") == chain })
	events, err := h.admin.CoreV1().Events(h.namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	told := false
	for _, event := range events.Items {
		told = told || event.Reason == "Denied" && event.InvolvedObject.Name == "web-"+h.node && strings.Contains(event.Message, second.Name+": UnsupportedKeyType: by a test")
	}
	if !told {
		t.Errorf("no event tells of the refusal: %v", events.Items)
	}
}

// After a change of the signer, the operator can have the agent ask again.
func TestAskAgain(t *testing.T) {
	h := newHost(t, common.Start(t))
	ca := newSigner(t)
	h.web(certificate)
	h.run()
	first := h.request()
	ca.refuse(h, first, certificatesv1.PodCertificateRequestConditionTypeFailed, "Broken")
	h.passing(0, "the refusal is told", func() bool { return h.source(0).State == "failed" })
	h.again <- struct{}{}
	var second *certificatesv1.PodCertificateRequest
	h.passing(0, "it asks again", func() bool {
		if all := h.requests(first.Name); len(all) > 0 {
			second = &all[0]
		}
		return second != nil
	})
	chain := ca.issue(h, second)
	h.passing(0, "the certificate is there", func() bool { return h.file("chain.pem") == chain })
}

// After a restart the agent requests neither what it has nor what is already
// requested.
func TestRestart(t *testing.T) {
	h := newHost(t, common.Start(t))
	ca := newSigner(t)
	h.web(certificate)
	h.run()
	first := h.request()
	h.stop()
	h.run()
	for range 60 {
		h.clock.Step(time.Second)
	}
	chain := ca.issue(h, first)
	h.eventually("the request of before the restart is granted", func() bool { return h.file("chain.pem") == chain })
	h.stop()
	h.run()
	h.eventually("the certificate is known", func() bool { return h.source(0).State == "fresh" })
	if all := h.requests(); len(all) != 1 {
		t.Errorf("there are %d requests, want the first alone", len(all))
	}
}

// While the server is away, existing files stay and are repaired. When it comes
// back, the agent requests nothing new.
func TestServerAway(t *testing.T) {
	h := newHost(t, apitest.Start(t))
	ca := newSigner(t)
	h.web(certificate, "serviceAccountToken: {path: token}", "configMap: {name: kube-root-ca.crt, items: [{key: ca.crt, path: server-ca.pem}]}")
	h.cfg.Metrics.BindAddress = apitest.FreeAddress(h.t)
	h.run()
	chain := ca.issue(h, h.request())
	h.eventually("the files are there", func() bool {
		return h.file("chain.pem") == chain && h.file("token") != "" && h.file("server-ca.pem") != ""
	})
	h.stop()
	h.server.Restart(t) // at another address: for this host it is away
	token, serverCA := h.file("token"), h.file("server-ca.pem")
	if err := os.WriteFile(h.path("chain.pem"), []byte("damaged"), 0o644); err != nil {
		t.Fatal(err)
	}
	h.run()
	h.eventually("the file is put right", func() bool { return h.file("chain.pem") == chain })
	h.eventually("the trouble is told", func() bool { return strings.Contains(h.source(2).Error, "not registered") && h.source(2).Ready })
	if h.file("token") != token || h.file("server-ca.pem") != serverCA {
		t.Error("a file is lost that nobody can bring now")
	}
	h.eventually("the server's absence is told", func() bool {
		told, err := status.Read(h.cfg.StatusFile())
		return err == nil && told.Server.LastContact != nil && strings.Contains(told.ServerProblem(), "connection refused")
	})
	h.eventually("after a while the agent is not ready", func() bool {
		body, code := h.get("/readyz")
		return code == http.StatusServiceUnavailable && strings.Contains(body, "[-]server failed: server https://") &&
			strings.Contains(body, "[+]files ok") && strings.Contains(body, "[+]manifests ok")
	})
	if _, code := h.get("/readyz/files"); code != http.StatusOK {
		t.Errorf("/readyz/files answers %d although all files are there", code)
	}
	if n := h.logs.count(`"Problem found" problem="server `); n != 1 {
		t.Errorf("it is logged %d times that the server is away, want once", n)
	}
	if body, _ := h.get("/metrics"); !strings.Contains(body, "\ncertplane_agent_server_reachable 0") {
		t.Error("no metric tells that the server is away")
	}
	h.stop()
	h.login()
	h.run()
	h.eventually("all is well", func() bool { return h.file("server-ca.pem") != "" && h.source(0).Error == "" })
	if all := h.requests(); len(all) != 1 {
		t.Errorf("there are %d requests, want the first alone", len(all))
	}
}

// A refusal by the server is logged exactly once, and not with each attempt. So
// is its end.
func TestRefusalIsLogged(t *testing.T) {
	h := newHost(t, common.Start(t))
	h.manifest("foreign.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: foreign}\nspec: {serviceAccountName: builder}")
	h.run()
	const refusal = `to let this host have the service account, bind a role with the verb \"host\"`
	h.eventually("the refusal is in the log", func() bool { return h.logs.count(refusal) > 0 })
	looks := 0
	h.eventually("three minutes go by", func() bool { looks++; return looks > 180 })
	if n := h.logs.count(refusal); n != 1 {
		t.Errorf("the refusal is in the log %d times, want once", n)
	}
	if err := os.Remove(filepath.Join(h.cfg.ManifestsDir, "foreign.yaml")); err != nil {
		t.Fatal(err)
	}
	h.eventually("its end is in the log", func() bool { return h.logs.count("Problem resolved") == 1 })
}

func TestManifestGoes(t *testing.T) {
	h := newHost(t, common.Start(t))
	h.web("serviceAccountToken: {path: token}")
	h.manifest("other.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: other, namespace: "+h.namespace+"}")
	h.run()
	h.eventually("the file is there", func() bool { return h.file("token") != "" })
	pod := h.pod()
	h.manifest("other.yaml", "a slip: {")
	if err := os.Remove(filepath.Join(h.cfg.ManifestsDir, "web.yaml")); err != nil {
		t.Fatal(err)
	}
	h.eventually("the slip is told", func() bool {
		data, err := os.ReadFile(h.cfg.StatusFile())
		return err == nil && strings.Contains(string(data), "other.yaml: ")
	})
	looks := 0
	h.eventually("a minute goes by", func() bool { looks++; return looks > 60 })
	if h.file("token") == "" {
		t.Error("files are removed although a manifest cannot be read")
	}
	if err := os.Remove(filepath.Join(h.cfg.ManifestsDir, "other.yaml")); err != nil {
		t.Fatal(err)
	}
	h.eventually("the files are gone", func() bool {
		_, err := os.Stat(filepath.Join(h.cfg.VolumesDir, h.namespace))
		return os.IsNotExist(err)
	})
	h.eventually("the pods are gone", func() bool {
		list, err := h.admin.CoreV1().Pods(h.namespace).List(t.Context(), metav1.ListOptions{})
		return err == nil && len(list.Items) == 0
	})
	h.web("serviceAccountToken: {path: token}")
	h.eventually("the file is there again", func() bool { return h.file("token") != "" })
	if h.pod().UID == pod.UID {
		t.Error("the pod was never gone")
	}
}

// A changed manifest is a new pod; its files stay until they are replaced.
func TestManifestChanges(t *testing.T) {
	h := newHost(t, common.Start(t))
	ca := newSigner(t)
	h.web(certificate)
	h.run()
	first := h.request()
	old := ca.issue(h, first)
	h.eventually("the certificate is there", func() bool { return h.file("chain.pem") == old })
	uid := h.pod().UID
	h.web(certificate, "serviceAccountToken: {path: token}")
	second := h.request(first.Name)
	if second.Spec.PodUID == uid {
		t.Error("the request is for the pod that was")
	}
	h.eventually("the new file is there", func() bool { return h.file("token") != "" })
	if h.file("chain.pem") != old {
		t.Error("the old certificate is gone before there is a new one")
	}
	chain := ca.issue(h, second)
	h.eventually("the new certificate is there", func() bool { return h.file("chain.pem") == chain })
}

// A Pod that another client deletes is recreated as long as its manifest
// exists.
func TestPodDeleted(t *testing.T) {
	h := newHost(t, common.Start(t))
	h.web("serviceAccountToken: {path: token}")
	h.run()
	h.eventually("the file is there", func() bool { return h.file("token") != "" })
	token, uid := h.file("token"), h.pod().UID
	if err := h.admin.CoreV1().Pods(h.namespace).Delete(t.Context(), "web-"+h.node, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	h.eventually("the pod is there again, and has a token of its own", func() bool {
		return h.pod().UID != uid && h.file("token") != token
	})
}

func TestTrustBundles(t *testing.T) {
	h := newHost(t, apitest.Start(t))
	bundles := h.admin.CertificatesV1().ClusterTrustBundles()
	a, b := newSigner(t).root, newSigner(t).root
	put := func(name, signer, content string) {
		t.Helper()
		bundle := &certificatesv1.ClusterTrustBundle{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: certificatesv1.ClusterTrustBundleSpec{SignerName: signer, TrustBundle: content}}
		if _, err := bundles.Create(t.Context(), bundle, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	h.web("clusterTrustBundle: {name: plain, path: plain.pem}",
		"clusterTrustBundle: {signerName: example.com/spiffe, labelSelector: {}, path: signer.pem, optional: true}",
		"clusterTrustBundle: {name: nosuch, path: none.pem, optional: true}")
	h.run()
	h.eventually("the optional files are there", func() bool { return h.source(1).Ready && h.source(2).Ready })
	if h.file("none.pem") != "" || h.source(0).Ready || !strings.Contains(h.source(0).Error, `no ClusterTrustBundle "plain"`) {
		t.Errorf("before there is any bundle: %+v", h.source(0))
	}
	info, err := os.Stat(h.path("none.pem"))
	if err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("the empty file: %v, %v", info, err)
	}
	put("plain", "", encode(a))
	h.eventually("the bundle is there", func() bool { return h.file("plain.pem") == encode(a) })
	put("example.com:spiffe:a", "example.com/spiffe", encode(a))
	put("example.com:spiffe:b", "example.com/spiffe", encode(b, a))
	h.eventually("both anchors are there, each once", func() bool {
		got := h.file("signer.pem")
		return got == encode(a, b) || got == encode(b, a)
	})
	stored, err := bundles.Get(t.Context(), "plain", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	stored.Spec.TrustBundle = encode(b)
	if _, err := bundles.Update(t.Context(), stored, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	h.passing(0, "a change is there at once", func() bool { return h.file("plain.pem") == encode(b) })
}

// The host is a node that reports that it is alive, and that no scheduler sends
// pods to. If another client deletes the Node, it is recreated with its pods.
func TestNode(t *testing.T) {
	h := newHost(t, common.Start(t))
	h.web("serviceAccountToken: {path: token}")
	h.run()
	h.eventually("the file is there", func() bool { return h.file("token") != "" })
	node, err := h.admin.CoreV1().Nodes().Get(t.Context(), h.node, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(node.Spec.Taints) != 1 || node.Spec.Taints[0].Key != "certplane.dev/agent" || node.Spec.Taints[0].Effect != "NoExecute" {
		t.Errorf("taints: %v", node.Spec.Taints)
	}
	h.passing(0, "it has a lease", func() bool {
		lease, err := h.admin.CoordinationV1().Leases("kube-node-lease").Get(t.Context(), h.node, metav1.GetOptions{})
		return err == nil && *lease.Spec.HolderIdentity == h.node && len(lease.OwnerReferences) == 1 && lease.OwnerReferences[0].UID == node.UID
	})
	if err := h.admin.CoreV1().Nodes().Delete(t.Context(), h.node, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	h.eventually("node and pod are there again", func() bool {
		again, err := h.admin.CoreV1().Nodes().Get(t.Context(), h.node, metav1.GetOptions{})
		if err != nil || again.UID == node.UID {
			return false
		}
		pod, err := h.admin.CoreV1().Pods(h.namespace).Get(t.Context(), "web-"+h.node, metav1.GetOptions{})
		return err == nil && pod.OwnerReferences[0].UID == again.UID
	})
}

// Many bundles are written, each to its own file and all to one file.
func TestManyTrustBundles(t *testing.T) {
	const many = 150
	h := newHost(t, apitest.Start(t))
	ca := newSigner(t)
	var sources []string
	for i := range many {
		name := fmt.Sprintf("example.com:spiffe:b%d", i)
		root := ca.authority(name, nil, ca.key, ca.key)
		bundle := &certificatesv1.ClusterTrustBundle{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: certificatesv1.ClusterTrustBundleSpec{SignerName: "example.com/spiffe", TrustBundle: encode(root)}}
		if _, err := h.admin.CertificatesV1().ClusterTrustBundles().Create(t.Context(), bundle, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		sources = append(sources, fmt.Sprintf("clusterTrustBundle: {name: %q, path: one/%d.pem}", name, i))
	}
	h.web(append(sources, "clusterTrustBundle: {signerName: example.com/spiffe, labelSelector: {}, path: all.pem}")...)
	h.run()
	h.eventually("all files are there", func() bool { return h.file("one/149.pem") != "" && h.file("all.pem") != "" })
	if n := strings.Count(h.file("all.pem"), "BEGIN CERTIFICATE"); n != many {
		t.Errorf("%d roots in one file, want %d", n, many)
	}
	for i := range many {
		if !strings.Contains(h.file("all.pem"), h.file(fmt.Sprintf("one/%d.pem", i))) {
			t.Errorf("file %d is not among all", i)
		}
	}
}
