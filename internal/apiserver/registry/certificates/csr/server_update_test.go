package csr_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func TestServerUpdate(t *testing.T) {
	t.Parallel()
	w := start(t)
	t.Run("matrix", w.testUpdateMatrix)
	t.Run("any metadata", w.testUpdateMetadata)
	t.Run("versions", w.testVersions)
	t.Run("preconditions", w.testPreconditions)
	t.Run("nothing changes", w.testNoop)
	t.Run("immutable metadata", w.testImmutableMetadata)
	t.Run("generation", w.testGeneration)
	t.Run("bad metadata", w.testBadMetadataUpdate)
}

// The outcomes of an update besides a refusal, which is identified by its text.
const (
	stored   = "stored"   // as sent
	restored = "restored" // silently restored
)

const (
	mayNotReplace = `status.certificate: Forbidden: updates may not modify existing certificate content`
	atLeastOne    = `status.certificate: Invalid value: "<certificate data>": must contain at least one CERTIFICATE PEM block`
)

// may returns the error for a decision that must not change.
func may(verb, condition string) string {
	return `status.conditions: Forbidden: updates may not ` + verb + ` a condition of type "` + condition + `"`
}

// timed sets all times of conditions, so that the server sets none.
func timed(reason string, types ...certificatesv1.RequestConditionType) edit {
	return func(c *csr) {
		c.Status.Conditions = nil
		for _, t := range types {
			at := metav1.Unix(1_700_000_000, 0)
			c.Status.Conditions = append(c.Status.Conditions, condition{Type: t, Status: "True", Reason: reason, LastUpdateTime: at, LastTransitionTime: at})
		}
	}
}

func everySpecField(c *csr) {
	c.Spec = certificatesv1.CertificateSigningRequestSpec{
		Request: []byte("junk"), SignerName: "junk", Usages: []certificatesv1.KeyUsage{"junk"}, ExpirationSeconds: ptr.To[int32](1),
		Username: "root", UID: "0", Groups: []string{"system:masters"}, Extra: map[string]certificatesv1.ExtraValue{"a": {"b"}},
	}
}

// The outcome for each part of an object, at each endpoint.
func (w world) testUpdateMatrix(t *testing.T) {
	good := chain(t)
	none := func(*csr) {}
	for _, tc := range []struct {
		part                   string
		before, sent           edit
		main, status, approval string
	}{
		{"spec", none, everySpecField, restored, restored, restored},
		{"spec left out", none, func(c *csr) { c.Spec = certificatesv1.CertificateSigningRequestSpec{} }, restored, restored, restored},

		{"certificate set", none, certificate(good), restored, stored, restored},
		{"certificate set to text", none, certificate([]byte("text")), restored, atLeastOne, restored},
		{"certificate replaced", certificate(good), certificate(chain(t)), restored, mayNotReplace, restored},
		{"certificate removed", certificate(good), certificate(nil), restored, mayNotReplace, restored},

		{"Approved comes", none, timed("new", "Approved"), restored, may("add", "Approved"), stored},
		{"Denied comes", none, timed("new", "Denied"), restored, may("add", "Denied"), stored},
		{"Approved goes", timed("old", "Approved"), timed(""), restored, may("remove", "Approved"), may("remove", "Approved")},
		{"Denied goes", timed("old", "Denied"), timed(""), restored, may("remove", "Denied"), may("remove", "Denied")},
		{"Approved changes", timed("old", "Approved"), timed("new", "Approved"), restored, restored, stored},
		{"Denied changes", timed("old", "Denied"), timed("new", "Denied"), restored, restored, stored},
		{"Approved becomes Denied", timed("old", "Approved"), timed("new", "Denied"), restored,
			"[" + may("remove", "Approved") + ", " + may("add", "Denied") + "]", may("remove", "Approved")},
		{"both decisions come", none, timed("new", "Approved", "Denied"), restored,
			`[status.conditions: Invalid value: "Denied": Approved and Denied conditions are mutually exclusive, ` +
				may("add", "Approved") + ", " + may("add", "Denied") + "]",
			`status.conditions: Invalid value: "Denied": Approved and Denied conditions are mutually exclusive`},

		{"Failed comes", none, timed("new", "Failed"), restored, stored, stored},
		{"Failed changes", timed("old", "Failed"), timed("new", "Failed"), restored, stored, stored},
		{"Failed goes", timed("old", "Failed"), timed(""), restored, may("remove", "Failed"), may("remove", "Failed")},
		{"Failed follows Approved", timed("", "Approved"), timed("", "Approved", "Failed"), restored, stored, stored},
		{"Failed follows Denied", timed("", "Denied"), timed("", "Denied", "Failed"), restored, stored, stored},

		{"another one comes", none, timed("new", "Custom"), restored, stored, stored},
		{"another one changes", timed("old", "Custom"), timed("new", "Custom"), restored, stored, stored},
		{"another one goes", timed("old", "Custom"), timed(""), restored, stored, stored},
		{"order", timed("", "Approved", "Failed", "Custom"), timed("", "Custom", "Failed", "Approved"), restored, stored, stored},
	} {
		t.Run(tc.part, func(t *testing.T) {
			for via, want := range map[endpoint]string{mainEndpoint: tc.main, statusEndpoint: tc.status, approvalEndpoint: tc.approval} {
				name := strings.ReplaceAll(tc.part, " ", "-") + "-" + via.String()
				before := w.plant(t, name, tc.before)
				sent := changed(before, tc.sent)
				_, err := put(t, w.admin, via, sent)
				w.checkOutcome(t, via, before, sent, err, want)
			}
		})
	}
}

// checkOutcome compares the stored object after an update with the one before
// and the one that was sent.
func (w world) checkOutcome(t *testing.T, via endpoint, before, sent *csr, err error, want string) {
	t.Helper()
	expected := before
	switch want {
	case stored:
		checkError(t, err, "")
		expected = sent
	case restored:
		checkError(t, err, "")
	default:
		checkError(t, err, invalid(before.Name, want))
	}
	got := w.get(t, before.Name)
	if diff := cmp.Diff(expected.Spec, got.Spec); diff != "" {
		t.Errorf("%s: spec (-want +got):\n%s", via, diff)
	}
	if diff := cmp.Diff(expected.Status, got.Status, emptyIsNil()); diff != "" {
		t.Errorf("%s: status (-want +got):\n%s", via, diff)
	}
	if want == restored && got.ResourceVersion != before.ResourceVersion {
		t.Errorf("%s: nothing changed but the resourceVersion", via)
	}
}

// Metadata can be changed through all endpoints, alone or with parts that are
// dropped. Owners can be changed only through the resource itself.
func (w world) testUpdateMetadata(t *testing.T) {
	for _, via := range endpoints() {
		before := w.create(t, "metadata-"+via.String())
		sent := changed(before, everySpecField, func(c *csr) {
			c.Labels, c.Annotations = map[string]string{"a": "b"}, map[string]string{"c": "d"}
			c.Finalizers = []string{"example.com/hold"}
			// The kind does not exist, so the garbage collector ignores it.
			c.OwnerReferences = []metav1.OwnerReference{{APIVersion: "example.com/v1", Kind: "Owner", Name: "n", UID: "u"}}
		})
		got := w.mustPut(t, via, sent)
		if got.ResourceVersion == before.ResourceVersion {
			t.Errorf("%s: resourceVersion stays", via)
		}
		want := sent.ObjectMeta
		want.ResourceVersion, want.ManagedFields = got.ResourceVersion, got.ManagedFields
		if via != mainEndpoint {
			want.OwnerReferences = nil
		}
		if diff := cmp.Diff(want, got.ObjectMeta); diff != "" {
			t.Errorf("%s: metadata (-want +got):\n%s", via, diff)
		}
		if diff := cmp.Diff(got, w.get(t, before.Name)); diff != "" {
			t.Errorf("%s: stored (-answered +stored):\n%s", via, diff)
		}
	}
}

// An update is based on a version, or on the stored object.
func (w world) testVersions(t *testing.T) {
	for _, via := range endpoints() {
		name := "versions-" + via.String()
		first := w.create(t, name)
		second := w.mustPut(t, via, changed(first, labels("a", "1")))
		_, err := put(t, w.admin, via, changed(first, labels("a", "2")))
		checkError(t, err, `Operation cannot be fulfilled on certificatesigningrequests.certificates.k8s.io "`+name+
			`": the object has been modified; please apply your changes to the latest version and try again`)
		if got := statusOf(t, err); got.Code != http.StatusConflict || got.Reason != metav1.StatusReasonConflict {
			t.Errorf("%s: stale version: %d %s", via, got.Code, got.Reason)
		}
		third := w.mustPut(t, via, changed(first, labels("a", "3"), unconditional))
		if third.ResourceVersion == second.ResourceVersion || third.Labels["a"] != "3" {
			t.Errorf("%s: without a version: %v", via, third.ObjectMeta)
		}
	}
}

func (w world) testPreconditions(t *testing.T) {
	for _, via := range endpoints() {
		obj := w.create(t, "preconditions-"+via.String())
		_, err := put(t, w.admin, via, changed(obj, labels("a", "b"), func(c *csr) { c.UID = "other" }))
		got := statusOf(t, err)
		if got.Code != http.StatusConflict || !strings.Contains(got.Message, "Precondition failed: UID in precondition: other, UID in object meta: "+string(obj.UID)) {
			t.Errorf("%s: another UID: %v", via, err)
		}
		w.mustPut(t, via, changed(obj, labels("a", "b"), func(c *csr) { c.UID = "" }))
	}
	obj := w.create(t, "preconditions-of-delete")
	other := metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions("other")}
	if got := statusOf(t, w.csrs().Delete(bounded(t), obj.Name, other)); got.Code != http.StatusConflict {
		t.Errorf("deleting another UID: %v", got)
	}
	stale := metav1.DeleteOptions{Preconditions: metav1.NewRVDeletionPrecondition("1").Preconditions}
	if got := statusOf(t, w.csrs().Delete(bounded(t), obj.Name, stale)); got.Code != http.StatusConflict {
		t.Errorf("deleting a stale version: %v", got)
	}
	w.get(t, obj.Name)
}

func (w world) testNoop(t *testing.T) {
	obj := w.create(t, "noop", labels("a", "b"))
	obj = w.mustPut(t, approvalEndpoint, changed(obj, timed("", "Approved", "Custom")))
	for _, via := range endpoints() {
		if got := w.mustPut(t, via, obj); got.ResourceVersion != obj.ResourceVersion {
			t.Errorf("%s: resourceVersion went from %s to %s", via, obj.ResourceVersion, got.ResourceVersion)
		}
	}
}

// Fields that only the server sets cannot change: attempts are refused or
// dropped.
func (w world) testImmutableMetadata(t *testing.T) {
	at := metav1.Unix(1, 0)
	for _, via := range endpoints() {
		name := "immutable-" + via.String()
		obj := w.create(t, name)
		for field, forge := range map[string]edit{
			"deletionTimestamp":          func(c *csr) { c.DeletionTimestamp = &at },
			"deletionGracePeriodSeconds": func(c *csr) { c.DeletionGracePeriodSeconds = new(int64) },
		} {
			_, err := put(t, w.admin, via, changed(obj, forge))
			causes := causesOf(t, err)
			if len(causes) == 0 || causes[0].Field != "metadata."+field || !strings.HasSuffix(causes[0].Message, ": field is immutable") {
				t.Errorf("%s: %s: %v", via, field, err)
			}
		}
		got := w.mustPut(t, via, changed(obj, labels("a", "b"), func(c *csr) {
			c.CreationTimestamp, c.Namespace = at, "somewhere"
		}))
		if got.CreationTimestamp != obj.CreationTimestamp || got.Namespace != "" {
			t.Errorf("%s: %v", via, got.ObjectMeta)
		}
		renamed := w.admin.CertificatesV1().RESTClient().Put().Body(changed(obj, func(c *csr) { c.Name = "other" }))
		_, err := send(t, renamed, via, name, nil)
		if got := statusOf(t, err); got.Code != http.StatusBadRequest || !strings.Contains(got.Message, "the name of the object (other)") {
			t.Errorf("%s: another name in the body: %v", via, err)
		}
	}
}

// Generations are not used: they never change.
func (w world) testGeneration(t *testing.T) {
	obj := w.create(t, "generation", func(c *csr) { c.Generation = 3 })
	for _, via := range endpoints() {
		obj = w.mustPut(t, via, changed(obj, labels("via", via.String()), everySpecField, func(c *csr) { c.Generation = 9 }))
		if obj.Generation != 3 {
			t.Errorf("%s: generation is %d", via, obj.Generation)
		}
	}
}

// The generic registry and the group's own rules both check metadata.
func (w world) testBadMetadataUpdate(t *testing.T) {
	obj := w.create(t, "bad-metadata", finalizers("example.com/hold"))
	for _, via := range endpoints() {
		_, err := put(t, w.admin, via, changed(obj, finalizers("hold")))
		checkError(t, err, invalid(obj.Name, `metadata.finalizers[0]: Invalid value: "hold": name is neither a standard finalizer name nor is it fully qualified`))
		_, err = put(t, w.admin, via, changed(obj, labels("a b", "c")))
		if said := causesOf(t, err); len(said) < 2 || said[0].Field != "metadata.labels" || said[0] != said[1] {
			t.Errorf("%s: causes: %v", via, said)
		}
		if message := statusOf(t, err).Message; strings.Count(message, "metadata.labels") != 1 {
			t.Errorf("%s: the text repeats itself: %s", via, message)
		}
	}
}
