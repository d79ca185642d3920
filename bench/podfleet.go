package main

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"fmt"
	"path"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/pki"
)

// The pods for which certificates are requested: several nodes, as in a
// cluster, and enough pods that no cache is queried for one pod only.
const (
	fleetNodes       = 20
	fleetPodsPerNode = 10
	fleetNamespace   = "default"
	fleetSigner      = "example.com/bench"
	// oneWriteSigner has the create call answer with the certificate.
	oneWriteSigner = "example.com/bench-one-write"
)

// fleetSignerYAML issues X.509-SVIDs, as the ready-made Signer for SPIFFE does.
const fleetSignerYAML = `
apiVersion: certplane.dev/v1alpha1
kind: Signer
metadata: {name: %s}
spec:
  signerName: %s
  issueOnCreate: %t
  requests: [PodCertificateRequest]
  ca: {generated: {}}
  profile:
    names: {uris: "['spiffe://bench.example/ns/' + pod.metadata.namespace + '/sa/' + pod.spec.serviceAccountName]"}
    usages: [digital signature, client auth, server auth]
`

// fleet is the pods with which requests are made. It is safe for concurrent
// use.
type fleet struct {
	client  kubernetes.Interface
	nodes   []*corev1.Node
	pods    []*corev1.Pod
	account *corev1.ServiceAccount
	stub    []byte
}

func newFleet(ctx context.Context, admin *rest.Config) (*fleet, error) {
	cfg := rest.CopyConfig(admin)
	cfg.QPS = -1 // no limit
	cfg.ContentType = runtime.ContentTypeProtobuf
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	f := &fleet{client: client}
	if f.stub, err = newStub(); err != nil {
		return nil, err
	}
	if f.account, err = client.CoreV1().ServiceAccounts(fleetNamespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "bench"}}, metav1.CreateOptions{}); err != nil {
		return nil, err
	}
	for i := range fleetNodes {
		if err := f.addNode(ctx, fmt.Sprintf("node-%d", i)); err != nil {
			return nil, err
		}
	}
	return f, errors.Join(declareSigner(ctx, admin, fleetSigner, false), declareSigner(ctx, admin, oneWriteSigner, true))
}

// newStub returns a request whose only relevant content is the key.
func newStub() ([]byte, error) {
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		return nil, err
	}
	return x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
}

func (f *fleet) addNode(ctx context.Context, name string) error {
	node, err := f.client.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	for i := range fleetPodsPerNode {
		pod, err := f.client.CoreV1().Pods(fleetNamespace).Create(ctx, newPod(fmt.Sprintf("%s-%d", name, i), name), metav1.CreateOptions{})
		if err != nil {
			return err
		}
		f.nodes, f.pods = append(f.nodes, node), append(f.pods, pod)
	}
	return nil
}

func newPod(name, node string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{
			NodeName: node, ServiceAccountName: "bench",
			Containers: []corev1.Container{{Name: "main", Image: "example.com/main"}},
			Volumes: []corev1.Volume{{Name: "identity", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
				Sources: []corev1.VolumeProjection{
					{PodCertificate: &corev1.PodCertificateProjection{SignerName: fleetSigner, KeyType: "ECDSAP256", CredentialBundlePath: "bundle.pem"}},
					{PodCertificate: &corev1.PodCertificateProjection{SignerName: oneWriteSigner, KeyType: "ECDSAP256", CredentialBundlePath: "other.pem"}},
				},
			}}}},
		},
	}
}

// declareSigner creates a signer and returns when it is ready.
func declareSigner(ctx context.Context, admin *rest.Config, signerName string, oneWrite bool) error {
	objects, err := newObjects(admin)
	if err != nil {
		return err
	}
	signer := &v1alpha1.Signer{}
	if err := yaml.Unmarshal(fmt.Appendf(nil, fleetSignerYAML, path.Base(signerName), signerName, oneWrite), signer); err != nil {
		return err
	}
	if err := objects.Create(ctx, signer); err != nil {
		return err
	}
	for signer.Status.CA == nil {
		if err := sleep(ctx, 20*time.Millisecond); err != nil {
			return fmt.Errorf("waiting for the signer: %w", err)
		}
		if err := objects.Get(ctx, client.ObjectKeyFromObject(signer), signer); err != nil {
			return err
		}
	}
	return nil
}

// request returns the request of the node of a pod.
func (f *fleet) request(name string, i int, oneWrite bool) *certificatesv1.PodCertificateRequest {
	signerName := fleetSigner
	if oneWrite {
		signerName = oneWriteSigner
	}
	pod, node := f.pods[i%len(f.pods)], f.nodes[i%len(f.pods)]
	return &certificatesv1.PodCertificateRequest{
		ObjectMeta: metav1.ObjectMeta{
			Name:            name,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}},
		},
		Spec: certificatesv1.PodCertificateRequestSpec{
			SignerName: signerName,
			PodName:    pod.Name, PodUID: pod.UID,
			ServiceAccountName: f.account.Name, ServiceAccountUID: f.account.UID,
			NodeName: types.NodeName(node.Name), NodeUID: node.UID,
			StubPKCS10Request: f.stub,
		},
	}
}

func (f *fleet) create(ctx context.Context, request *certificatesv1.PodCertificateRequest) (*certificatesv1.PodCertificateRequest, error) {
	return f.client.CertificatesV1().PodCertificateRequests(fleetNamespace).Create(ctx, request, metav1.CreateOptions{})
}
