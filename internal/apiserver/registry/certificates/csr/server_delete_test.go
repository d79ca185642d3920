package csr_test

import (
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestServerDelete(t *testing.T) {
	t.Parallel()
	w := start(t)
	t.Run("at once", w.testDeleteAtOnce)
	t.Run("finalizers", w.testDeleteWithFinalizers)
	t.Run("terminating", w.testTerminating)
	t.Run("generation", w.testDeleteGeneration)
	t.Run("collection", w.testDeleteCollection)
}

// There is no grace period, whatever the client requests, and the response is
// not the object.
func (w world) testDeleteAtOnce(t *testing.T) {
	obj := w.create(t, "at-once")
	got := w.call(t, call{method: http.MethodDelete, path: v1Path + "/at-once", contentType: "application/json",
		body: []byte(`{"apiVersion":"v1","kind":"DeleteOptions","gracePeriodSeconds":30}`)})
	want := fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","details":{"name":"at-once","group":"certificates.k8s.io","kind":"certificatesigningrequests","uid":%q}}`+"\n", obj.UID)
	if diff := cmp.Diff(want, string(got.body)); got.code != http.StatusOK || diff != "" {
		t.Errorf("code %d, body (-want +got):\n%s", got.code, diff)
	}
	_, err := w.csrs().Get(bounded(t), "at-once", metav1.GetOptions{})
	checkError(t, err, `certificatesigningrequests.certificates.k8s.io "at-once" not found`)
	err = w.csrs().Delete(bounded(t), "at-once", metav1.DeleteOptions{})
	checkError(t, err, `certificatesigningrequests.certificates.k8s.io "at-once" not found`)
	for _, via := range []endpoint{statusEndpoint, approvalEndpoint} {
		w.create(t, "kept-"+via.String())
		if got := w.call(t, call{method: http.MethodDelete, path: via.path("kept-" + via.String())}); got.code != http.StatusMethodNotAllowed {
			t.Errorf("%s: DELETE answers %d", via, got.code)
		}
	}
}

// A deleted request stays until its last finalizer is removed, which is
// possible through any endpoint.
func (w world) testDeleteWithFinalizers(t *testing.T) {
	for _, via := range endpoints() {
		name := "held-" + via.String()
		w.create(t, name, finalizers("example.com/a", "example.com/b"))
		if err := w.csrs().Delete(bounded(t), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		obj := w.get(t, name)
		if obj.DeletionTimestamp.IsZero() || obj.DeletionGracePeriodSeconds == nil || *obj.DeletionGracePeriodSeconds != 0 {
			t.Errorf("deleted object has %v", obj.ObjectMeta)
		}
		obj = w.mustPut(t, via, changed(obj, finalizers("example.com/b")))
		if obj.DeletionTimestamp.IsZero() {
			t.Error("deletionTimestamp is gone")
		}
		obj = w.mustPut(t, via, changed(obj, finalizers()))
		if _, err := w.csrs().Get(bounded(t), name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("via %s: %v is still there, %v", via, obj.Name, err)
		}
	}
}

// An object that is being deleted gets no new finalizers, and its deletion
// cannot be undone.
func (w world) testTerminating(t *testing.T) {
	w.create(t, "terminating", finalizers("example.com/a"))
	if err := w.csrs().Delete(bounded(t), "terminating", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	obj := w.get(t, "terminating")
	for _, via := range endpoints() {
		_, err := put(t, w.admin, via, changed(obj, finalizers("example.com/a", "example.com/b")))
		checkError(t, err, invalid("terminating", `metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{"example.com/b"}`))
	}
	got := w.mustPut(t, mainEndpoint, changed(obj, labels("a", "b"), func(c *csr) {
		c.DeletionTimestamp, c.DeletionGracePeriodSeconds = nil, nil
	}))
	if !got.DeletionTimestamp.Equal(obj.DeletionTimestamp) {
		t.Errorf("deletionTimestamp is %v, was %v", got.DeletionTimestamp, obj.DeletionTimestamp)
	}
	w.mustPut(t, approvalEndpoint, changed(got, conditions("Approved"))) // updates are still possible
}

func (w world) testDeleteGeneration(t *testing.T) {
	for generation, want := range map[int64]int64{0: 0, 7: 8} {
		name := fmt.Sprintf("generation-%d", generation)
		w.create(t, name, finalizers("example.com/a"), func(c *csr) { c.Generation = generation })
		if err := w.csrs().Delete(bounded(t), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		if got := w.get(t, name).Generation; got != want {
			t.Errorf("generation went from %d to %d, want %d", generation, got, want)
		}
	}
}

func (w world) testDeleteCollection(t *testing.T) {
	const other = "example.com/other"
	create := func() {
		w.create(t, "one", signer(other), labels("team", "a"))
		w.create(t, "two", signer(other), labels("team", "b"))
		w.create(t, "three", labels("team", "a"))
	}
	for _, tc := range []struct {
		label, field string
		kept         []string
	}{
		{"team=a", "spec.signerName=" + other, []string{"three", "two"}},
		{"", "spec.signerName=" + other, []string{"three"}},
		{"team in (a)", "", []string{"two"}},
		{"", "metadata.name=two", []string{"one", "three"}},
		{"team", "spec.signerName!=" + other, []string{"one", "two"}},
		{"team", "", nil},
	} {
		t.Run(tc.label+" "+tc.field, func(t *testing.T) {
			create()
			err := w.csrs().DeleteCollection(bounded(t), metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: tc.label, FieldSelector: tc.field})
			if err != nil {
				t.Fatal(err)
			}
			list, err := w.csrs().List(bounded(t), metav1.ListOptions{LabelSelector: "team"})
			if err != nil {
				t.Fatal(err)
			}
			var kept []string
			for _, obj := range list.Items {
				kept = append(kept, obj.Name)
				if err := w.csrs().Delete(bounded(t), obj.Name, metav1.DeleteOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			slices.Sort(kept)
			if diff := cmp.Diff(tc.kept, kept); diff != "" {
				t.Errorf("kept (-want +got):\n%s", diff)
			}
		})
	}
	bad := metav1.ListOptions{FieldSelector: "spec.username=a"}
	if got := statusOf(t, w.csrs().DeleteCollection(bounded(t), metav1.DeleteOptions{}, bad)); got.Code != http.StatusBadRequest {
		t.Errorf("unknown field: %v", got)
	}
}
