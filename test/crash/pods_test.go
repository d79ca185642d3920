package crash

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"fmt"
	"testing"

	"golang.org/x/sync/errgroup"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/store/datadir"
)

const (
	podRequests = 300
	senders     = 8
)

// A server is killed while it signs the requests of pods. After the next start
// each request has a certificate, and those that had one have kept it.
func TestKillWhileSigningForPods(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	process := startReady(t, role{Dir: dir})
	core := adminClient(t, dir)
	declareSigner(t, dir)
	spec := podSpec(t, core)
	var requests []*certificatesv1beta1.PodCertificateRequest
	for i := range podRequests {
		requests = append(requests, podRequest(t, spec, fmt.Sprintf("request-%d", i)))
	}
	sent := make(chan error, 1)
	go func() { sent <- send(t.Context(), core, requests) }()
	first := killAmidst(t, core, process)
	if err := <-sent; err == nil {
		t.Log("all was sent before the kill")
	}

	again := startReady(t, role{Dir: dir})
	core = adminClient(t, dir)
	var stored []certificatesv1beta1.PodCertificateRequest
	apitest.Eventually(t, "all requests that are stored have certificates", func() bool {
		stored = listPods(t, core)
		for _, r := range stored {
			if r.Status.CertificateChain == "" {
				return false
			}
		}
		return true
	})
	serials := map[string]string{}
	for _, r := range stored {
		if before := first[r.Name]; before != "" && before != r.Status.CertificateChain {
			t.Errorf("%s has another certificate than before", r.Name)
		}
		delete(first, r.Name)
		chain, err := pki.ParseCertificates([]byte(r.Status.CertificateChain))
		if err != nil {
			t.Fatal(err)
		}
		serial := chain[0].SerialNumber.String()
		if twin := serials[serial]; twin != "" {
			t.Errorf("%s and %s have the same serial number", r.Name, twin)
		}
		serials[serial] = r.Name
	}
	if len(first) > 0 {
		t.Errorf("%d certificates that had been seen are gone", len(first))
	}
	again.stop(t)
}

// send creates requests until the first that fails.
func send(ctx context.Context, core kubernetes.Interface, requests []*certificatesv1beta1.PodCertificateRequest) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(senders)
	for _, request := range requests {
		group.Go(func() error {
			_, err := core.CertificatesV1beta1().PodCertificateRequests("default").Create(ctx, request, metav1.CreateOptions{})
			return err
		})
	}
	return group.Wait()
}

// killAmidst kills the server when some requests have certificates, and returns
// the certificates that were seen.
func killAmidst(t *testing.T, core kubernetes.Interface, process *process) map[string]string {
	t.Helper()
	seen := map[string]string{}
	apitest.Eventually(t, "some requests have certificates", func() bool {
		for _, r := range listPods(t, core) {
			if r.Status.CertificateChain != "" {
				seen[r.Name] = r.Status.CertificateChain
			}
		}
		return len(seen) > 0
	})
	process.kill()
	return seen
}

func listPods(t *testing.T, core kubernetes.Interface) []certificatesv1beta1.PodCertificateRequest {
	t.Helper()
	list, err := core.CertificatesV1beta1().PodCertificateRequests("default").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return list.Items
}

func adminConfig(t *testing.T, dir string) *rest.Config {
	t.Helper()
	cfg, err := clientcmd.BuildConfigFromFlags("", datadir.Dir(dir).AdminKubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	cfg.QPS, cfg.WarningHandlerWithContext = -1, rest.NoWarnings{}
	return cfg
}

// declareSigner declares a signer for pods.
func declareSigner(t *testing.T, dir string) {
	t.Helper()
	api, err := client.New(adminConfig(t, dir), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	signer := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "certplane.dev/v1alpha1", "kind": "Signer", "metadata": map[string]any{"name": "crash"},
		"spec": map[string]any{
			"signerName": "example.com/crash", "requests": []any{"PodCertificateRequest"},
			"ca": map[string]any{"generated": map[string]any{}},
			"profile": map[string]any{
				"names":  map[string]any{"dnsNames": `[request.name + ".example.com"]`},
				"usages": []any{"digital signature", "client auth"},
			},
		},
	}}
	if err := api.Create(t.Context(), signer); err != nil {
		t.Fatal(err)
	}
}

// podSpec creates a pod and returns the spec of its requests.
func podSpec(t *testing.T, core kubernetes.Interface) certificatesv1beta1.PodCertificateRequestSpec {
	t.Helper()
	ctx, created := t.Context(), metav1.CreateOptions{}
	account, err := core.CoreV1().ServiceAccounts("default").Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "web"}}, created)
	if err != nil {
		t.Fatal(err)
	}
	node, err := core.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}}, created)
	if err != nil {
		t.Fatal(err)
	}
	source := corev1.VolumeProjection{PodCertificate: &corev1.PodCertificateProjection{
		SignerName: "example.com/crash", KeyType: "ECDSAP256", CredentialBundlePath: "bundle.pem",
	}}
	pod, err := core.CoreV1().Pods("default").Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: corev1.PodSpec{
			NodeName: "node-1", ServiceAccountName: "web", Containers: []corev1.Container{{Name: "c", Image: "image"}},
			Volumes: []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
				Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{source}},
			}}},
		},
	}, created)
	if err != nil {
		t.Fatal(err)
	}
	return certificatesv1beta1.PodCertificateRequestSpec{
		SignerName: "example.com/crash", PodName: pod.Name, PodUID: pod.UID,
		ServiceAccountName: account.Name, ServiceAccountUID: account.UID, NodeName: "node-1", NodeUID: node.UID,
	}
}

func podRequest(t *testing.T, spec certificatesv1beta1.PodCertificateRequestSpec, name string) *certificatesv1beta1.PodCertificateRequest {
	t.Helper()
	stub, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, apitest.NewKey(t))
	if err != nil {
		t.Fatal(err)
	}
	spec.StubPKCS10Request = stub
	return &certificatesv1beta1.PodCertificateRequest{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
}
