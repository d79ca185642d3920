//lint:file-ignore SA1019 nodes of Kubernetes 1.35 know no other fields

package certificates

import (
	"math/rand"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
)

// v1 is unchanged after a round trip through the hub. The hub loses, through
// v1, only the two fields that v1 does not have.
func TestPodRequestConversion(t *testing.T) {
	scheme := newScheme(t)
	filler := fuzzer.FuzzerFor(metafuzzer.Funcs, rand.NewSource(rand.Int63()), serializer.NewCodecFactory(scheme))
	for range 200 {
		v1 := &certificatesv1.PodCertificateRequest{}
		filler.Fill(v1)
		convertThrough(t, scheme, v1, internalVersion, certificatesv1.SchemeGroupVersion, v1.DeepCopy())

		hub := &podRequest{}
		filler.Fill(hub)
		want := hub.DeepCopy()
		want.Spec.PKIXPublicKey, want.Spec.ProofOfPossession = nil, nil
		convertThrough(t, scheme, hub, certificatesv1.SchemeGroupVersion, internalVersion, want)
		convertThrough(t, scheme, hub, internalVersion, certificatesv1beta1.SchemeGroupVersion, hub.DeepCopy())
	}
	list := &certificatesv1.PodCertificateRequestList{Items: make([]certificatesv1.PodCertificateRequest, 2)}
	filler.Fill(&list.Items[1])
	convertThrough(t, scheme, list, internalVersion, certificatesv1.SchemeGroupVersion, list.DeepCopy())
}

func convertThrough(t *testing.T, scheme *runtime.Scheme, in runtime.Object, there, back schema.GroupVersion, want runtime.Object) {
	t.Helper()
	out, err := scheme.ConvertToVersion(in, there)
	if err != nil {
		t.Fatal(err)
	}
	out, err = scheme.ConvertToVersion(out, back)
	if err != nil {
		t.Fatal(err)
	}
	out.GetObjectKind().SetGroupVersionKind(want.GetObjectKind().GroupVersionKind())
	if diff := cmp.Diff(want, out, cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("%T through %s (-want +got):\n%s", in, there, diff)
	}
}

// Every served version has the default, in an object or in a list, and keeps an
// explicit value.
func TestPodRequestDefaults(t *testing.T) {
	scheme := newScheme(t)
	hour := int32(3600)
	v1 := certificatesv1.PodCertificateRequestSpec{MaxExpirationSeconds: &hour}
	v1beta1 := certificatesv1beta1.PodCertificateRequestSpec{MaxExpirationSeconds: &hour}
	v1List := &certificatesv1.PodCertificateRequestList{Items: []certificatesv1.PodCertificateRequest{{}, {Spec: v1}}}
	v1beta1List := &certificatesv1beta1.PodCertificateRequestList{Items: []podRequest{{}, {Spec: v1beta1}}}
	scheme.Default(v1List)
	scheme.Default(v1beta1List)
	for i, want := range []int32{86400, 3600} {
		if got := *v1List.Items[i].Spec.MaxExpirationSeconds; got != want {
			t.Errorf("v1: %d, want %d", got, want)
		}
		if got := *v1beta1List.Items[i].Spec.MaxExpirationSeconds; got != want {
			t.Errorf("v1beta1: %d, want %d", got, want)
		}
	}
	for _, obj := range []runtime.Object{&certificatesv1.PodCertificateRequest{}, &podRequest{}} {
		scheme.Default(obj)
		hub, err := scheme.ConvertToVersion(obj, internalVersion)
		if err != nil {
			t.Fatal(err)
		}
		if got := hub.(*podRequest).Spec.MaxExpirationSeconds; got == nil || *got != 86400 {
			t.Errorf("%T: %v", obj, got)
		}
	}
}

func TestPodRequestFieldLabels(t *testing.T) {
	scheme := newScheme(t)
	for _, version := range []schema.GroupVersion{certificatesv1.SchemeGroupVersion, certificatesv1beta1.SchemeGroupVersion} {
		kind := version.WithKind("PodCertificateRequest")
		for _, label := range []string{"metadata.name", "spec.signerName", "spec.podName", "spec.nodeName"} {
			if got, value, err := scheme.ConvertFieldLabel(kind, label, "x"); got != label || value != "x" || err != nil {
				t.Errorf("%s %s: %q=%q, %v", version.Version, label, got, value, err)
			}
		}
		for _, label := range []string{"metadata.namespace", "spec.serviceAccountName", "status.certificateChain"} {
			if _, _, err := scheme.ConvertFieldLabel(kind, label, "x"); err == nil || err.Error() != "field label not supported: "+label {
				t.Errorf("%s %s: %v", version.Version, label, err)
			}
		}
	}
	got := SelectablePodRequestFields(newPodRequest(t))
	want := map[string]string{"metadata.name": "req-1", "metadata.namespace": "ns", "spec.signerName": "example.com/signer", "spec.podName": "p", "spec.nodeName": "n"}
	if diff := cmp.Diff(want, map[string]string(got)); diff != "" {
		t.Errorf("fields (-want +got):\n%s", diff)
	}
}

// The requests of nodes of each release are valid.
func TestRequestsOfKubelets(t *testing.T) {
	files, err := filepath.Glob("testdata/kubelet-*.json")
	if err != nil || len(files) != 3 {
		t.Fatalf("found %v, %v", files, err)
	}
	decoder := serializer.NewCodecFactory(newScheme(t)).UniversalDecoder(internalVersion)
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		obj, _, err := decoder.Decode(data, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		request := obj.(*podRequest)
		request.Name = request.GenerateName + "x" // as the registry does before it validates
		if errs := ValidatePodRequest(request); len(errs) > 0 {
			t.Errorf("%s: %v", file, errs.ToAggregate())
		}
		if want := []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: request.Spec.PodName, UID: request.Spec.PodUID}}; cmp.Diff(want, request.OwnerReferences) != "" {
			t.Errorf("%s: owners are %v", file, request.OwnerReferences)
		}
	}
}

func FuzzValidatePodKey(f *testing.F) {
	stub, bare := newPodRequest(f), newPodRequest(f, bareKey(f, podKey(f, "ECDSAP256")))
	f.Add(stub.Spec.StubPKCS10Request, []byte(nil), []byte(nil))
	f.Add([]byte(nil), bare.Spec.PKIXPublicKey, bare.Spec.ProofOfPossession)
	f.Fuzz(func(t *testing.T, stub, key, proof []byte) {
		request := newPodRequest(t, func(r *podRequest) {
			r.Spec.StubPKCS10Request, r.Spec.PKIXPublicKey, r.Spec.ProofOfPossession = stub, key, proof
		})
		if len(ValidatePodRequest(request)) > 0 {
			return
		}
		found, err := PodRequestKey(&request.Spec)
		if err != nil {
			t.Fatalf("accepted, but has no key: %v", err)
		}
		if _, err := PodKeyType(found); err != nil {
			t.Fatalf("accepted, but %v", err)
		}
	})
}

func FuzzValidateIssuance(f *testing.F) {
	key := podKey(f, "ED25519")
	root := newAuthority(f, "root", nil)
	leaf := root.leaf(f, key.Public())
	old := newPodRequestFor(f, key)
	f.Add(pemOf(leaf, root.cert))
	f.Add("text" + pemOf(leaf))
	f.Add(pemOf(root.cert))
	f.Fuzz(func(t *testing.T, chain string) {
		request := editPod(old, issue(leaf), func(r *podRequest) { r.Status.CertificateChain = chain })
		warnings := PodChainWarnings(chain)
		if len(ValidatePodRequestStatusUpdate(request, old, podNow)) > 0 {
			return
		}
		got, _, err := nextCertificate([]byte(chain))
		if err != nil || !got.Equal(leaf) && string(got.RawSubjectPublicKeyInfo) != string(leaf.RawSubjectPublicKeyInfo) {
			t.Fatalf("accepted a chain that does not begin with the key: %v, %v", err, warnings)
		}
	})
}
