package csr_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
)

func TestServerPatch(t *testing.T) {
	t.Parallel()
	w := start(t)
	t.Run("merge patch", w.testMergePatch)
	t.Run("JSON patch", w.testJSONPatch)
	t.Run("strategic merge patch", w.testStrategicMergePatch)
	t.Run("what a patch cannot change", w.testPatchRestores)
	t.Run("versions", w.testPatchVersions)
	t.Run("bad patches", w.testBadPatches)
}

// typesOf returns the types of the conditions of obj.
func typesOf(obj *csr) string {
	var types []string
	for _, condition := range obj.Status.Conditions {
		types = append(types, string(condition.Type))
	}
	return strings.Join(types, " ")
}

// A merge patch replaces lists.
func (w world) testMergePatch(t *testing.T) {
	for _, via := range []endpoint{statusEndpoint, approvalEndpoint} {
		name := "merge-" + via.String()
		w.plant(t, name, timed("", "A", "B"), labels("a", "b"))
		got, err := patch(t, w.admin, via, name, types.MergePatchType,
			`{"metadata":{"labels":{"a":null,"c":"d"}},"status":{"conditions":[{"type":"B","status":"True"},{"type":"C","status":"False"}]}}`)
		checkError(t, err, "")
		if typesOf(got) != "B C" || got.Status.Conditions[1].LastUpdateTime.IsZero() {
			t.Errorf("via %s: conditions are %v", via, got.Status.Conditions)
		}
		if diff := cmp.Diff(map[string]string{"c": "d"}, got.Labels); diff != "" {
			t.Errorf("via %s: labels (-want +got):\n%s", via, diff)
		}
	}
}

func (w world) testJSONPatch(t *testing.T) {
	w.create(t, "json")
	_, err := patch(t, w.admin, approvalEndpoint, "json", types.JSONPatchType,
		`[{"op":"add","path":"/status/conditions","value":[{"type":"Approved","status":"True","reason":"R"}]}]`)
	checkError(t, err, "")
	got, err := patch(t, w.admin, approvalEndpoint, "json", types.JSONPatchType,
		`[{"op":"test","path":"/status/conditions/0/reason","value":"R"},{"op":"add","path":"/status/conditions/0","value":{"type":"A","status":"True"}}]`)
	checkError(t, err, "")
	if typesOf(got) != "A Approved" {
		t.Errorf("conditions are %v", got.Status.Conditions)
	}
	_, err = patch(t, w.admin, approvalEndpoint, "json", types.JSONPatchType, `[{"op":"test","path":"/status/conditions/0/type","value":"B"}]`)
	if got := statusOf(t, err); got.Code != http.StatusUnprocessableEntity {
		t.Errorf("a test that fails: %v", got)
	}
	_, err = patch(t, w.admin, approvalEndpoint, "json", types.JSONPatchType, `[{"op":"remove","path":"/status/conditions/1"}]`)
	checkError(t, err, invalid("json", may("remove", "Approved")))
}

// The types define no merge for conditions, so a strategic merge patch replaces
// them like any other list.
func (w world) testStrategicMergePatch(t *testing.T) {
	w.plant(t, "strategic", timed("", "A", "B"))
	got, err := patch(t, w.admin, statusEndpoint, "strategic", types.StrategicMergePatchType,
		`{"metadata":{"annotations":{"a":"b"}},"status":{"conditions":[{"type":"C","status":"True"}]}}`)
	checkError(t, err, "")
	if typesOf(got) != "C" || got.Annotations["a"] != "b" {
		t.Errorf("got %v %v", got.Annotations, got.Status.Conditions)
	}
	w.plant(t, "strategic-denied", timed("", "Denied"))
	_, err = patch(t, w.admin, approvalEndpoint, "strategic-denied", types.StrategicMergePatchType,
		`{"status":{"conditions":[{"type":"Custom","status":"True"}]}}`)
	checkError(t, err, invalid("strategic-denied", may("remove", "Denied")))
}

// Each endpoint restores the same fields after a patch as after a PUT.
func (w world) testPatchRestores(t *testing.T) {
	const everything = `{"spec":{"signerName":"junk","username":"root","usages":[]},"status":{"certificate":"eA==","conditions":[{"type":"A","status":"True"}]}}`
	for via, want := range map[endpoint]string{mainEndpoint: "", approvalEndpoint: "A"} {
		before := w.create(t, "restores-"+via.String())
		got, err := patch(t, w.admin, via, before.Name, types.MergePatchType, everything)
		checkError(t, err, "")
		if diff := cmp.Diff(before.Spec, got.Spec); diff != "" {
			t.Errorf("via %s: spec (-want +got):\n%s", via, diff)
		}
		if typesOf(got) != want || got.Status.Certificate != nil {
			t.Errorf("via %s: status is %v", via, got.Status)
		}
	}
	before := w.create(t, "restores-status")
	_, err := patch(t, w.admin, statusEndpoint, before.Name, types.MergePatchType, everything)
	checkError(t, err, invalid(before.Name, atLeastOne))
}

// A patch is applied to the stored object, unless it contains a version.
func (w world) testPatchVersions(t *testing.T) {
	for _, via := range endpoints() {
		name := "versions-" + via.String()
		first := w.create(t, name)
		second, err := patch(t, w.admin, via, name, types.MergePatchType, `{"metadata":{"labels":{"a":"1"}}}`)
		checkError(t, err, "")
		same, err := patch(t, w.admin, via, name, types.MergePatchType, `{"metadata":{"labels":{"a":"1"}}}`)
		checkError(t, err, "")
		if first.ResourceVersion == second.ResourceVersion || second.ResourceVersion != same.ResourceVersion {
			t.Errorf("via %s: versions %s, %s, %s", via, first.ResourceVersion, second.ResourceVersion, same.ResourceVersion)
		}
		_, err = patch(t, w.admin, via, name, types.MergePatchType, `{"metadata":{"resourceVersion":"`+first.ResourceVersion+`","labels":{"a":"2"}}}`)
		if got := statusOf(t, err); got.Code != http.StatusConflict {
			t.Errorf("via %s: a stale version: %v", via, got)
		}
		_, err = patch(t, w.admin, via, name, types.MergePatchType, `{"metadata":{"uid":"other","labels":{"a":"2"}}}`)
		checkError(t, err, invalid(name, `metadata.uid: Invalid value: "other": field is immutable`))
		_, err = patch(t, w.admin, via, "absent", types.MergePatchType, `{}`)
		checkError(t, err, `certificatesigningrequests.certificates.k8s.io "absent" not found`)
	}
}

func (w world) testBadPatches(t *testing.T) {
	w.create(t, "bad")
	for _, tc := range []struct {
		kind, body string
		want       int
	}{
		{"application/merge-patch+json", `{`, http.StatusBadRequest},
		{"application/json-patch+json", `{}`, http.StatusBadRequest},
		{"application/merge-patch+json", `{"spec":{"expirationSeconds":2147483648}}`, http.StatusUnprocessableEntity},
		{"application/json", `{}`, http.StatusUnsupportedMediaType},
		{"text/plain", `{}`, http.StatusUnsupportedMediaType},
	} {
		for _, via := range endpoints() {
			got := w.call(t, call{method: http.MethodPatch, path: via.path("bad"), contentType: tc.kind, body: []byte(tc.body)})
			if got.code != tc.want {
				t.Errorf("%s %s via %s: %d %s", tc.kind, tc.body, via, got.code, got.body)
			}
		}
	}
}
