package csr_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
)

// keyPrefix is the prefix of requests in kube-apiserver and in certplane.
const keyPrefix = "/registry/certificatesigningrequests/"

// protobufPrefix marks a value in protobuf (the magic number of apimachinery).
const protobufPrefix = "k8s\x00"

// etcd returns a client of the server's own store.
func (w world) etcd(t testing.TB) *clientv3.Client {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{"unix://" + w.Config.DataDir + "/etcd/client.sock"},
		Logger:    zap.NewNop(),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

// asProtobuf encodes obj, including its version, as the store does.
func asProtobuf(t testing.TB, obj runtime.Object) []byte {
	t.Helper()
	var data bytes.Buffer
	if err := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(obj, &data); err != nil {
		t.Fatal(err)
	}
	return data.Bytes()
}

// plantBytes stores an object without the API, as another or an older server
// would.
func (w world) plantBytes(t testing.TB, name string, data []byte) *csr {
	t.Helper()
	if _, err := w.etcd(t).Put(bounded(t), keyPrefix+name, string(data)); err != nil {
		t.Fatal(err)
	}
	return w.get(t, name)
}

// plant stores a request that the API might refuse.
func (w world) plant(t testing.TB, name string, edits ...edit) *csr {
	t.Helper()
	obj := newCSR(t, name, edits...)
	obj.APIVersion, obj.Kind = "certificates.k8s.io/v1", "CertificateSigningRequest"
	obj.CreationTimestamp, obj.UID = metav1.Unix(1_700_000_000, 0), "planted"
	return w.plantBytes(t, name, asProtobuf(t, obj))
}

func TestServerStorage(t *testing.T) {
	t.Parallel()
	w := start(t)
	t.Run("layout", w.testLayout)
	t.Run("stub", w.testStub)
	t.Run("old encodings", w.testOldEncodings)
	t.Run("restart", w.testRestart)
}

// stored decodes the value of the key of name.
func (w world) stored(t *testing.T, name string) *csr {
	t.Helper()
	found, err := w.etcd(t).Get(bounded(t), keyPrefix+name)
	if err != nil {
		t.Fatal(err)
	}
	if len(found.Kvs) != 1 {
		t.Fatalf("%d objects at %s", len(found.Kvs), keyPrefix+name)
	}
	data := found.Kvs[0].Value
	if !bytes.HasPrefix(data, []byte(protobufPrefix)) {
		t.Fatalf("not protobuf: %q", data)
	}
	obj, kind, err := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Decode(data, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if want := certificatesv1.SchemeGroupVersion.WithKind("CertificateSigningRequest"); *kind != want {
		t.Errorf("stored as %v", kind)
	}
	return obj.(*csr)
}

// etcd tools and backups for kube-apiserver find the layout that they expect.
func (w world) testLayout(t *testing.T) {
	created := w.create(t, "layout", expires(600), labels("a", "b"))
	got := w.stored(t, "layout")
	want := created.DeepCopy()
	want.ResourceVersion = "" // taken from the key
	want.TypeMeta, got.TypeMeta = metav1.TypeMeta{}, metav1.TypeMeta{}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("stored (-want +got):\n%s", diff)
	}

	asV1beta1 := `{"apiVersion":"certificates.k8s.io/v1beta1","kind":"CertificateSigningRequest","metadata":{"name":"beta"},"spec":{"request":"` +
		base64.StdEncoding.EncodeToString(created.Spec.Request) + `","signerName":"example.com/beta"}}`
	if got := w.call(t, call{method: http.MethodPost, path: v1beta1, contentType: "application/json", body: []byte(asV1beta1)}); got.code != http.StatusCreated {
		t.Fatalf("%d %s", got.code, got.body)
	}
	if got := w.stored(t, "beta").Spec.SignerName; got != "example.com/beta" {
		t.Errorf("signer is %q", got)
	}
}

// A request with arbitrary content, as upgrade tests store it.
func (w world) testStub(t *testing.T) {
	w.create(t, "csr1", usages("any"), signer("kubernetes.io/kube-apiserver-client"))
	if diff := cmp.Diff([]certificatesv1.KeyUsage{"any"}, w.stored(t, "csr1").Spec.Usages); diff != "" {
		t.Errorf("usages (-want +got):\n%s", diff)
	}
}

// Objects that older servers stored can still be read, with the defaults of
// their version, and are stored as v1 when they change.
func (w world) testOldEncodings(t *testing.T) {
	old := func(name string) *certificatesv1beta1.CertificateSigningRequest {
		return &certificatesv1beta1.CertificateSigningRequest{
			TypeMeta:   metav1.TypeMeta{APIVersion: "certificates.k8s.io/v1beta1", Kind: "CertificateSigningRequest"},
			ObjectMeta: metav1.ObjectMeta{Name: name, UID: "planted", CreationTimestamp: metav1.Unix(1_700_000_000, 0)},
			Spec: certificatesv1beta1.CertificateSigningRequestSpec{
				Request: newRequest(t, pki.Subject{CommonName: "system:node:a", Organizations: []string{"system:nodes"}}),
				Usages:  []certificatesv1beta1.KeyUsage{"digital signature", "client auth"},
			},
			Status: certificatesv1beta1.CertificateSigningRequestStatus{
				Conditions: []certificatesv1beta1.CertificateSigningRequestCondition{{Type: "Approved"}},
			},
		}
	}
	asJSON, err := json.Marshal(old("json"))
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"protobuf": asProtobuf(t, old("protobuf")), "json": asJSON} {
		got := w.plantBytes(t, name, data)
		if got.Spec.SignerName != "kubernetes.io/kube-apiserver-client-kubelet" || got.Status.Conditions[0].Status != "True" {
			t.Errorf("%s: defaults of v1beta1 are missing: %v", name, got)
		}
		w.mustPut(t, mainEndpoint, changed(got, labels("a", "b")))
		if got := w.stored(t, name).Spec.SignerName; got != "kubernetes.io/kube-apiserver-client-kubelet" {
			t.Errorf("%s: signer is stored as %q", name, got)
		}
	}
}

// All objects exist after a restart, with the same resource versions.
func (w world) testRestart(t *testing.T) {
	w.create(t, "kept", finalizers("example.com/hold"))
	before, err := w.csrs().List(bounded(t), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w.Restart(t)
	w = world{Server: w.Server, admin: apitest.Client(t, w.Admin(t))}
	after, err := w.csrs().List(bounded(t), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(after.Items) == 0 {
		t.Error("nothing is left")
	}
	if diff := cmp.Diff(before.Items, after.Items); diff != "" {
		t.Errorf("objects (-before +after):\n%s", diff)
	}

	// The history before the restart is gone, and the server returns an error
	// for it.
	events := w.watch(t, metav1.ListOptions{ResourceVersion: "1"})
	event := <-events.ResultChan()
	if err := apierrors.FromObject(event.Object); event.Type != watch.Error || !apierrors.IsResourceExpired(err) {
		t.Errorf("a watch from the beginning: %s %v", event.Type, event.Object)
	}
}
