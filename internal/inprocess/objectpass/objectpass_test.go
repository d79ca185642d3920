package objectpass_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/certplane/certplane/internal/api"
	"github.com/certplane/certplane/internal/inprocess/objectpass"
)

func codecs() (*objectpass.Objects, *objectpass.Serializer) {
	objects := objectpass.New(api.Scheme)
	return objects, objectpass.NewSerializer(api.NewCodecs(false), objects)
}

// format returns the format of handles.
func format(t *testing.T, s *objectpass.Serializer) runtime.SerializerInfo {
	t.Helper()
	s.Offer()
	info, ok := runtime.SerializerInfoForMediaType(s.SupportedMediaTypes(), objectpass.MediaType)
	if !ok {
		t.Fatal("handles are not offered")
	}
	return info
}

func TestHandleIsWorthSomethingOnce(t *testing.T) {
	objects := objectpass.New(api.Scheme)
	pod := &corev1.Pod{}
	handle := objects.Put(pod)
	if got, ok := objects.Take(handle[:]); !ok || got != pod {
		t.Errorf("got %v, %t", got, ok)
	}
	dropped := objects.Put(pod)
	objects.Drop(dropped)
	for reason, data := range map[string][]byte{
		"used": handle[:], "dropped": dropped[:], "unknown": make([]byte, objectpass.HandleSize), "short": handle[:4], "empty": nil,
	} {
		if got, ok := objects.Take(data); ok {
			t.Errorf("%s: got %v", reason, got)
		}
	}
	if objects.Len() != 0 {
		t.Errorf("%d objects are left", objects.Len())
	}
}

func TestPasses(t *testing.T) {
	objects := objectpass.New(api.Scheme)
	for _, obj := range []runtime.Object{&corev1.Secret{}, &corev1.Pod{}, &certificatesv1.CertificateSigningRequest{}, &certificatesv1beta1.PodCertificateRequestList{}, &eventsv1.Event{}} {
		if !objects.Passes(obj) {
			t.Errorf("%T does not pass", obj)
		}
	}
	for _, obj := range []runtime.Object{nil, &unstructured.Unstructured{}, &metav1.PartialObjectMetadata{}, &metav1.Status{}, &unknownKind{}} {
		if objects.Passes(obj) {
			t.Errorf("%T passes", obj)
		}
	}
}

type unknownKind struct{ corev1.Pod }

// What a copy holds is what would have arrived in JSON.
func TestCopyIsWhatIsDecoded(t *testing.T) {
	objects := objectpass.New(api.Scheme)
	now := metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 678_901_234, time.FixedZone("", 3600)))
	micro := metav1.NewMicroTime(now.Time)
	meta := metav1.ObjectMeta{
		Name: "x", Labels: map[string]string{}, Annotations: map[string]string{"a": ""}, Finalizers: []string{}, CreationTimestamp: now, DeletionTimestamp: &now,
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m", Time: &now, FieldsV1: metav1.NewFieldsV1(`{}`)}},
	}
	for _, obj := range []runtime.Object{
		&certificatesv1.CertificateSigningRequest{ObjectMeta: meta, Status: certificatesv1.CertificateSigningRequestStatus{
			Certificate: []byte{}, Conditions: []certificatesv1.CertificateSigningRequestCondition{{LastUpdateTime: now}},
		}},
		&corev1.Secret{ObjectMeta: meta, Data: map[string][]byte{"a": []byte("b")}},
		&corev1.Pod{ObjectMeta: meta, Spec: corev1.PodSpec{Containers: []corev1.Container{{Env: []corev1.EnvVar{}}}}, Status: corev1.PodStatus{StartTime: &now}},
		&coordinationv1.Lease{ObjectMeta: meta, Spec: coordinationv1.LeaseSpec{RenewTime: &micro}},
		&eventsv1.Event{ObjectMeta: meta, EventTime: micro, Series: &eventsv1.EventSeries{LastObservedTime: micro}},
		&certificatesv1beta1.PodCertificateRequest{ObjectMeta: meta, Status: certificatesv1beta1.PodCertificateRequestStatus{NotBefore: &now}},
		&corev1.ConfigMapList{Items: []corev1.ConfigMap{{ObjectMeta: meta, Data: map[string]string{}}}},
	} {
		before, err := json.Marshal(obj)
		if err != nil {
			t.Fatal(err)
		}
		want := obj.DeepCopyObject()
		*want.GetObjectKind().(*metav1.TypeMeta) = metav1.TypeMeta{}
		decoded := newLike(t, obj)
		if err := json.Unmarshal(before, decoded); err != nil {
			t.Fatal(err)
		}
		got := objects.Copy(obj)
		if difference := cmp.Diff(decoded, got); difference != "" {
			t.Errorf("%T: -decoded +copy:\n%s", obj, difference)
		}
		if !equality.Semantic.DeepEqual(obj, want) {
			t.Errorf("%T: the original has changed", obj)
		}
	}
}

func newLike(t *testing.T, obj runtime.Object) runtime.Object {
	t.Helper()
	kinds, _, err := api.Scheme.ObjectKinds(obj)
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range kinds {
		if fresh, err := api.Scheme.New(kind); err == nil && kind.Version != runtime.APIVersionInternal {
			return fresh
		}
	}
	t.Fatalf("%T has no version", obj)
	return nil
}

// Writers that are not buffers take objects at once. Nothing is left in the table
// for those that do not.
func TestEncodeForAWriterThatDoesNotTake(t *testing.T) {
	objects, s := codecs()
	encoder := s.EncoderForVersion(format(t, s).Serializer, corev1.SchemeGroupVersion)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "x"}}
	var written bytes.Buffer
	if err := encoder.Encode(pod, struct{ *writer }{&writer{&written}}); err != nil {
		t.Fatal(err)
	}
	if written.Len() != objectpass.HandleSize || objects.Len() != 0 {
		t.Errorf("%d bytes are written, %d objects are left", written.Len(), objects.Len())
	}
	if pod.Kind != "" {
		t.Error("the object was changed")
	}
}

type writer struct{ to *bytes.Buffer }

func (w *writer) Write(data []byte) (int, error) { return w.to.Write(data) }

// Two readers of one object of the watch cache get a handle each.
func TestEncodersAreDifferent(t *testing.T) {
	_, s := codecs()
	serializer := format(t, s).Serializer
	if first, second := s.EncoderForVersion(serializer, corev1.SchemeGroupVersion), s.EncoderForVersion(serializer, corev1.SchemeGroupVersion); first.Identifier() == second.Identifier() {
		t.Errorf("both are %s", first.Identifier())
	}
}

func TestConversion(t *testing.T) {
	objects, s := codecs()
	serializer := format(t, s).Serializer
	request := &certificatesv1beta1.PodCertificateRequest{ObjectMeta: metav1.ObjectMeta{Name: "x"}, Spec: certificatesv1beta1.PodCertificateRequestSpec{SignerName: "example.com/x"}}
	handle := objects.Put(request)
	kind := certificatesv1beta1.SchemeGroupVersion.WithKind("PodCertificateRequest")
	hub := schema.GroupVersion{Group: kind.Group, Version: runtime.APIVersionInternal}
	got, as, err := s.DecoderToVersion(serializer, hub).Decode(handle[:], &kind, nil)
	if err != nil || *as != kind {
		t.Fatalf("decoded %v, %v", as, err)
	}
	var written bytes.Buffer
	if err := s.EncoderForVersion(serializer, certificatesv1.SchemeGroupVersion).Encode(got, &written); err != nil {
		t.Fatal(err)
	}
	taken, _ := objects.Take(written.Bytes())
	if v1, ok := taken.(*certificatesv1.PodCertificateRequest); !ok || v1.Spec.SignerName != "example.com/x" || v1.Kind != "" {
		t.Errorf("got %#v", taken)
	}
}

func TestEvents(t *testing.T) {
	objects, s := codecs()
	info := format(t, s)
	var body, stream bytes.Buffer
	pod := &corev1.Pod{}
	if err := s.EncoderForVersion(info.Serializer, corev1.SchemeGroupVersion).Encode(pod, &body); err != nil {
		t.Fatal(err)
	}
	events := s.EncoderForVersion(info.StreamSerializer.Serializer, corev1.SchemeGroupVersion)
	if err := events.Encode(&metav1.WatchEvent{Type: string(watch.Modified), Object: runtime.RawExtension{Raw: body.Bytes()}}, &stream); err != nil {
		t.Fatal(err)
	}
	if event, ok := objects.TakeEvent(stream.Bytes()); !ok || event.Type != watch.Modified || event.Object != pod {
		t.Errorf("got %+v, %t", event, ok)
	}
	if _, ok := objects.TakeEvent(stream.Bytes()); ok {
		t.Error("an event can be taken twice")
	}
	// A stream that breaks off leaves nothing.
	handle := objects.Put(pod)
	var nobody bytes.Buffer
	if _, err := info.StreamSerializer.NewFrameWriter(&nobody).Write(append(handle[:], "ADDED"...)); err != nil {
		t.Fatal(err)
	}
	if objects.Len() != 0 {
		t.Errorf("%d objects are left", objects.Len())
	}
}

func TestRefuse(t *testing.T) {
	for _, value := range []string{objectpass.MediaType, "Application/VND.certplane.OBJECT", "application / vnd.certplane.object;q=1", "text/plain, application/vnd.certplane.object;stream=watch"} {
		header := http.Header{"Accept": {value}, "Content-Type": {value}}
		objectpass.Refuse(header)
		for key, values := range header {
			if bytes.Contains(bytes.ToLower([]byte(values[0])), []byte("vnd.certplane.object")) {
				t.Errorf("%s: %q", key, values)
			}
		}
	}
	header := http.Header{"Accept": {"Application/JSON;as=Table"}}
	if objectpass.Refuse(header); header.Get("Accept") != "Application/JSON;as=Table" {
		t.Errorf("changed to %v", header)
	}
}
