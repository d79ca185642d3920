package csr_test

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
)

func TestServerFormats(t *testing.T) {
	t.Parallel()
	w := start(t)
	t.Run("round trips", w.testRoundTrips)
	t.Run("lists", w.testListFormats)
	t.Run("watches", w.testWatchFormats)
	t.Run("v1beta1", w.testV1beta1Formats)
	t.Run("errors", w.testErrorFormats)
	t.Run("CBOR patch", w.testCBORPatch)
	t.Run("unknown", w.testUnknownFormats)
	t.Run("time", w.testTimeFormats)
}

// format is a wire format.
type format struct {
	mediaType  string
	stream     string // the content type of a watch
	serializer runtime.Serializer
}

// formats returns the formats that a client can choose.
func formats(t testing.TB) []format {
	t.Helper()
	codecs := serializer.NewCodecFactory(scheme.Scheme, serializer.WithSerializer(cbor.NewSerializerInfo))
	streams := map[string]string{
		"application/json":                    "application/json",
		"application/yaml":                    "",
		"application/vnd.kubernetes.protobuf": "application/vnd.kubernetes.protobuf;stream=watch",
		"application/cbor":                    "application/cbor-seq",
	}
	var formats []format
	for _, info := range codecs.SupportedMediaTypes() {
		stream, ok := streams[info.MediaType]
		if !ok {
			t.Fatalf("a new format: %s", info.MediaType)
		}
		formats = append(formats, format{info.MediaType, stream, info.Serializer})
	}
	if len(formats) != len(streams) {
		t.Fatalf("%d formats", len(formats))
	}
	return formats
}

func (f format) encode(t testing.TB, obj runtime.Object) []byte {
	t.Helper()
	var data bytes.Buffer
	if err := f.serializer.Encode(obj, &data); err != nil {
		t.Fatal(err)
	}
	return data.Bytes()
}

// decode checks that a is a success in format f, and decodes its object.
func decode[T runtime.Object](t testing.TB, f format, a answer, kind schema.GroupVersionKind) T {
	t.Helper()
	if got := a.header.Get("Content-Type"); a.code/100 != 2 || got != f.mediaType {
		t.Fatalf("%d %s: %s", a.code, got, a.body)
	}
	obj, got, err := f.serializer.Decode(a.body, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if *got != kind {
		t.Errorf("got a %v, want a %v", got, kind)
	}
	obj.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	return obj.(T)
}

func kindOf(version schema.GroupVersion) schema.GroupVersionKind {
	return version.WithKind("CertificateSigningRequest")
}

func withKind(c *csr) { c.SetGroupVersionKind(kindOf(certificatesv1.SchemeGroupVersion)) }

// A request is the same in all formats, whichever format it was sent in.
func (w world) testRoundTrips(t *testing.T) {
	v1 := kindOf(certificatesv1.SchemeGroupVersion)
	for _, in := range formats(t) {
		name := strings.ReplaceAll(in.mediaType, "/", "-")
		sent := newCSR(t, name, withKind, expires(3600), labels("a", "b"))
		posted := w.call(t, call{method: http.MethodPost, path: v1Path, contentType: in.mediaType, accept: in.mediaType, body: in.encode(t, sent)})
		created := decode[*csr](t, in, posted, v1)
		want := sent.Spec
		want.Username, want.Groups, want.Extra = created.Spec.Username, created.Spec.Groups, created.Spec.Extra
		if diff := cmp.Diff(want, created.Spec); diff != "" || posted.code != http.StatusCreated {
			t.Errorf("%s: POST: %d, spec (-want +got):\n%s", in.mediaType, posted.code, diff)
		}

		approved := changed(created, timed("", "Approved"), withKind)
		put := w.call(t, call{method: http.MethodPut, path: approvalEndpoint.path(name), contentType: in.mediaType, accept: in.mediaType, body: in.encode(t, approved)})
		updated := decode[*csr](t, in, put, v1)
		if diff := cmp.Diff(approved.Status, updated.Status); diff != "" {
			t.Errorf("%s: PUT: status (-want +got):\n%s", in.mediaType, diff)
		}
		issued := changed(updated, certificate(chain(t)), withKind)
		put = w.call(t, call{method: http.MethodPut, path: statusEndpoint.path(name), contentType: in.mediaType, accept: in.mediaType, body: in.encode(t, issued)})
		final := decode[*csr](t, in, put, v1)
		if diff := cmp.Diff(issued.Status, final.Status); diff != "" {
			t.Errorf("%s: PUT: status (-want +got):\n%s", in.mediaType, diff)
		}
		for _, out := range formats(t) {
			for _, via := range endpoints() {
				got := decode[*csr](t, out, w.call(t, call{path: via.path(name), accept: out.mediaType}), v1)
				if diff := cmp.Diff(final, got, emptyIsNil()); diff != "" {
					t.Errorf("%s as %s via %s (-want +got):\n%s", in.mediaType, out.mediaType, via, diff)
				}
			}
		}
	}
}

func (w world) testListFormats(t *testing.T) {
	const query = "?fieldSelector=spec.signerName%3Dexample.com/listed"
	for _, name := range []string{"listed-a", "listed-b"} {
		w.create(t, name, signer("example.com/listed"))
	}
	want, err := w.csrs().List(bounded(t), metav1.ListOptions{FieldSelector: "spec.signerName=example.com/listed"})
	if err != nil {
		t.Fatal(err)
	}
	if len(want.Items) != 2 {
		t.Fatalf("%d items", len(want.Items))
	}
	for _, f := range formats(t) {
		got := decode[*certificatesv1.CertificateSigningRequestList](t, f, w.call(t, call{path: v1Path + query, accept: f.mediaType}), certificatesv1.SchemeGroupVersion.WithKind("CertificateSigningRequestList"))
		want.ResourceVersion = got.ResourceVersion
		if diff := cmp.Diff(want, got, emptyIsNil()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", f.mediaType, diff)
		}
	}
}

// YAML does not define where an event ends.
func (w world) testWatchFormats(t *testing.T) {
	w.create(t, "watched")
	for _, f := range formats(t) {
		got := w.firstEvent(t, v1Path+"?watch=1&fieldSelector=metadata.name%3Dwatched", f.mediaType)
		if f.stream == "" {
			if got.code != http.StatusNotAcceptable {
				t.Errorf("%s: %d %s", f.mediaType, got.code, got.header.Get("Content-Type"))
			}
			continue
		}
		if got.code != http.StatusOK || got.header.Get("Content-Type") != f.stream || !bytes.Contains(got.body, []byte("ADDED")) {
			t.Errorf("%s: %d %s %q", f.mediaType, got.code, got.header.Get("Content-Type"), got.body)
		}
	}
}

func (w world) testV1beta1Formats(t *testing.T) {
	beta := kindOf(certificatesv1beta1.SchemeGroupVersion)
	for _, f := range formats(t) {
		name := "beta-" + strings.ReplaceAll(f.mediaType, "/", "-")
		sent := &certificatesv1beta1.CertificateSigningRequest{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       certificatesv1beta1.CertificateSigningRequestSpec{Request: newCSR(t, "").Spec.Request, SignerName: ptr.To("example.com/beta")},
		}
		sent.SetGroupVersionKind(beta)
		posted := w.call(t, call{method: http.MethodPost, path: v1beta1, contentType: f.mediaType, accept: f.mediaType, body: f.encode(t, sent)})
		got := decode[*certificatesv1beta1.CertificateSigningRequest](t, f, posted, beta)
		if got.Spec.SignerName == nil || *got.Spec.SignerName != "example.com/beta" || len(got.Spec.Usages) != 2 {
			t.Errorf("%s: spec is %v", f.mediaType, got.Spec)
		}
	}
}

// Errors have the requested format.
func (w world) testErrorFormats(t *testing.T) {
	for _, f := range formats(t) {
		got := w.call(t, call{path: v1Path + "/absent", accept: f.mediaType})
		obj, kind, err := f.serializer.Decode(got.body, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		status, ok := obj.(*metav1.Status)
		if !ok || got.code != http.StatusNotFound || *kind != (schema.GroupVersionKind{Version: "v1", Kind: "Status"}) ||
			status.Message != `certificatesigningrequests.certificates.k8s.io "absent" not found` {
			t.Errorf("%s: %d %v %v", f.mediaType, got.code, kind, obj)
		}
	}
}

func (w world) testCBORPatch(t *testing.T) {
	w.create(t, "cbor-patch")
	body, err := direct.Marshal(map[string]any{
		"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
		"metadata": map[string]any{"name": "cbor-patch", "labels": map[string]any{"a": "b"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	got, err := patch(t, w.admin, mainEndpoint, "cbor-patch", types.ApplyCBORPatchType, string(body), managedBy("cbor"))
	checkError(t, err, "")
	if got.Labels["a"] != "b" {
		t.Errorf("labels are %v", got.Labels)
	}
}

func (w world) testUnknownFormats(t *testing.T) {
	w.create(t, "unknown")
	if got := w.call(t, call{path: v1Path + "/unknown", accept: "text/html"}); got.code != http.StatusNotAcceptable {
		t.Errorf("GET as HTML: %d", got.code)
	}
	if got := w.call(t, call{method: http.MethodPost, path: v1Path, contentType: "text/plain", body: []byte("x")}); got.code != http.StatusUnsupportedMediaType {
		t.Errorf("POST of text: %d", got.code)
	}
	got := w.call(t, call{path: v1Path + "/unknown", accept: "text/html;q=0.9, */*;q=0.1"})
	if got.code != http.StatusOK || got.header.Get("Content-Type") != "application/json" {
		t.Errorf("anything: %d %s", got.code, got.header.Get("Content-Type"))
	}
}

// Times are UTC, with a precision of seconds; missing ones are null.
func (w world) testTimeFormats(t *testing.T) {
	obj := w.plant(t, "time", conditions("Approved"), func(c *csr) {
		c.Status.Conditions[0].LastUpdateTime = metav1.Unix(1_700_000_000, 0)
	})
	got := w.call(t, call{path: v1Path + "/" + obj.Name})
	want := `"conditions":[{"type":"Approved","status":"True","lastUpdateTime":"2023-11-14T22:13:20Z","lastTransitionTime":null}]`
	if !bytes.Contains(got.body, []byte(want)) {
		t.Errorf("got  %s\nwant %s", got.body, want)
	}
}
