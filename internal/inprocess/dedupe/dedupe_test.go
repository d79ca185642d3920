package dedupe_test

import (
	"bytes"
	"testing"
	"time"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/certplane/certplane/internal/inprocess/dedupe"
)

var now = metav1.NewTime(time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC))

// request returns a request with memory of its own.
func request(name, requester string, conditions ...string) *certificatesv1.CertificateSigningRequest {
	csr := &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{
			Name: own(name), UID: types.UID(own("uid of " + name)), CreationTimestamp: now,
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: own("requester"), Time: now.DeepCopy(), FieldsV1: metav1.NewFieldsV1(own(`{"f:spec":{}}`))}},
		},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request: []byte("PEM of " + name), Username: own(requester), Groups: []string{own("system:authenticated")},
			Extra: map[string]certificatesv1.ExtraValue{own("key"): {own(requester)}},
		},
	}
	for _, c := range conditions {
		csr.Status.Conditions = append(csr.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{Type: certificatesv1.RequestConditionType(own(c)), LastUpdateTime: now})
	}
	return csr
}

// own returns a copy of s.
func own(s string) string { return string([]byte(s)) }

// TestShareKeepsContents tests that what an object says never changes, whatever it
// shares memory with.
func TestShareKeepsContents(t *testing.T) {
	objects := func() map[string]any {
		later := request("a", "alice", "Approved")
		later.Status.Conditions[0].LastUpdateTime = metav1.NewTime(now.Add(time.Second))
		emptied := request("a", "alice")
		emptied.Spec.Groups, emptied.Spec.Extra, emptied.Spec.Request = []string{}, map[string]certificatesv1.ExtraValue{}, nil
		absent := request("a", "alice")
		absent.Spec.Groups, absent.Spec.Extra, absent.ManagedFields = nil, nil, nil
		expiring := request("a", "alice")
		expiring.Spec.ExpirationSeconds = new(int32)
		return map[string]any{
			"a": request("a", "alice"), "b": request("b", "bob"), "approved": request("a", "alice", "Approved"), "later": later,
			"twice": request("a", "alice", "Approved", "Failed"), "denied": request("a", "alice", "Denied", "Failed"),
			"emptied": emptied, "absent": absent, "expiring": expiring,
			"pod": &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"a": "b"}}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Args: []string{"b"}}}}},
		}
	}
	for of := range objects() {
		for with := range objects() {
			object, model, want, unchanged := objects()[of], objects()[with], objects()[of], objects()[with]
			dedupe.Share(object, model, nil)
			if diff := cmp.Diff(want, object); diff != "" {
				t.Errorf("%s says something else after it shares memory with %s:\n%s", of, with, diff)
			}
			if diff := cmp.Diff(unchanged, model); diff != "" {
				t.Errorf("%s says something else after %s shares its memory:\n%s", with, of, diff)
			}
		}
	}
}

// TestShare tests that equal parts have the same memory.
func TestShare(t *testing.T) {
	before, after, other := request("a", "alice"), request("a", "alice", "Approved"), request("b", "alice")
	dedupe.Share(after, before, nil)
	dedupe.Share(other, before, nil)
	if &before.Spec.Request[0] != &after.Spec.Request[0] {
		t.Error("two versions have two copies of what is requested")
	}
	if &before.Spec.Request[0] == &other.Spec.Request[0] || !bytes.Equal(other.Spec.Request, []byte("PEM of b")) {
		t.Error("two requests have one content")
	}
	for _, object := range []*certificatesv1.CertificateSigningRequest{after, other} {
		if &before.ManagedFields[0] != &object.ManagedFields[0] || &before.Spec.Groups[0] != &object.Spec.Groups[0] {
			t.Errorf("equal lists of %s have two copies", object.Name)
		}
		if unsafe.StringData(before.Spec.Username) != unsafe.StringData(object.Spec.Username) {
			t.Errorf("the requester of %s has two copies", object.Name)
		}
	}
}

// TestShareWithTwo tests that nothing is written to the models, which others read
// meanwhile, even where both are equal to the object.
func TestShareWithTwo(t *testing.T) {
	before, last := request("a", "alice"), request("b", "alice", "Approved")
	groups, others := unsafe.StringData(before.Spec.Groups[0]), unsafe.StringData(last.Spec.Groups[0])
	object := request("a", "alice", "Approved")
	dedupe.Share(object, before, last)
	if unsafe.StringData(before.Spec.Groups[0]) != groups || unsafe.StringData(last.Spec.Groups[0]) != others {
		t.Error("a model was written to")
	}
	if &object.Spec.Groups[0] != &before.Spec.Groups[0] || &object.Spec.Request[0] != &before.Spec.Request[0] {
		t.Error("what is equal to the first model has memory of its own")
	}
	if &object.Status.Conditions[0] != &last.Status.Conditions[0] {
		t.Error("what is equal to the second model alone has memory of its own")
	}
	if diff := cmp.Diff(request("a", "alice", "Approved"), object); diff != "" {
		t.Errorf("the object says something else:\n%s", diff)
	}
}
