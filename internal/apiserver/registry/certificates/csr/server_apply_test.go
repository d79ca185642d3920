package csr_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	certificatesapply "k8s.io/client-go/applyconfigurations/certificates/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/certplane/certplane/internal/apitest"
)

func TestServerApply(t *testing.T) {
	t.Parallel()
	w := start(t)
	t.Run("create", w.testApplyCreates)
	t.Run("rights", w.testApplyRights)
	t.Run("subresources never create", w.testApplyNeverCreates)
	t.Run("reset fields", w.testResetFields)
	t.Run("merge of conditions", w.testApplyMergesConditions)
	t.Run("conflicts", w.testApplyConflicts)
	t.Run("refusals", w.testApplyRefusals)
	t.Run("YAML and v1beta1", w.testApplyFormats)
}

// applied is the apply configuration of a field manager.
type applied = certificatesapply.CertificateSigningRequestApplyConfiguration

func intent(name string) *applied { return certificatesapply.CertificateSigningRequest(name) }

func withSpec(t testing.TB, intent *applied) *applied {
	spec := newCSR(t, "").Spec
	return intent.WithSpec(certificatesapply.CertificateSigningRequestSpec().
		WithRequest(spec.Request...).WithSignerName(spec.SignerName).WithUsages(spec.Usages...))
}

func withConditions(intent *applied, reason string, types ...certificatesv1.RequestConditionType) *applied {
	status := certificatesapply.CertificateSigningRequestStatus()
	for _, t := range types {
		status.WithConditions(certificatesapply.CertificateSigningRequestCondition().WithType(t).WithStatus("True").WithReason(reason))
	}
	return intent.WithStatus(status)
}

// apply sends an apply configuration through an endpoint.
func apply(t testing.TB, client kubernetes.Interface, via endpoint, manager string, intent *applied, options ...option) (*csr, error) {
	t.Helper()
	body, err := json.Marshal(intent)
	if err != nil {
		t.Fatal(err)
	}
	return patch(t, client, via, *intent.Name, types.ApplyYAMLPatchType, string(body), append(options, managedBy(manager))...)
}

func managedBy(manager string) option {
	return func(r *rest.Request) { r.Param("fieldManager", manager) }
}

// owned returns the fields that a manager owns by an operation, such as
// "f:metadata f:labels f:a".
func owned(t testing.TB, obj *csr, manager string, operation metav1.ManagedFieldsOperationType) []string {
	t.Helper()
	var paths []string
	for _, entry := range obj.ManagedFields {
		if entry.Manager != manager || entry.Operation != operation {
			continue
		}
		set := &fieldpath.Set{}
		if err := set.FromJSON(entry.FieldsV1.GetRawReader()); err != nil {
			t.Fatal(err)
		}
		set.Leaves().Iterate(func(path fieldpath.Path) {
			paths = append(paths, "/"+entry.Subresource+path.String())
		})
	}
	slices.Sort(paths)
	return paths
}

func (w world) testApplyCreates(t *testing.T) {
	labelled := withSpec(t, intent("applied")).WithLabels(map[string]string{"a": "b"})
	got, err := apply(t, w.admin, mainEndpoint, "test", withConditions(labelled, "forged", "Approved"))
	checkError(t, err, "")
	if got.Spec.SignerName != signerName || got.Spec.Username == "" || len(got.Status.Conditions) != 0 {
		t.Errorf("created %v", got)
	}
	if diff := cmp.Diff([]string{"/.metadata.labels.a"}, owned(t, got, "test", metav1.ManagedFieldsOperationApply)); diff != "" {
		t.Errorf("owned (-want +got):\n%s", diff)
	}
	// Conditions are dropped only after Kubernetes has compared the object with the
	// stored one: with them, the time in its managed fields would change.
	labelled.Status = nil
	again, err := apply(t, w.admin, mainEndpoint, "test", labelled)
	checkError(t, err, "")
	if again.ResourceVersion != got.ResourceVersion {
		t.Error("the same intent changed something")
	}
	gone, err := apply(t, w.admin, mainEndpoint, "test", withSpec(t, intent("applied")))
	checkError(t, err, "")
	if len(gone.Labels) != 0 || gone.Spec.SignerName != signerName {
		t.Errorf("labels %v should be gone, the spec not", gone.Labels)
	}
}

// A user with only the verb patch cannot create.
func (w world) testApplyRights(t *testing.T) {
	w.Grant(t, "patcher", apitest.Allow("patch", "certificatesigningrequests"))
	w.Grant(t, "creator", apitest.Allow("patch create", "certificatesigningrequests"))
	_, err := apply(t, w.as(t, "patcher"), mainEndpoint, "test", withSpec(t, intent("rights")))
	if got := statusOf(t, err); got.Code != http.StatusForbidden || !strings.Contains(got.Message, `cannot create resource "certificatesigningrequests"`) {
		t.Errorf("got %v", got)
	}
	got, err := apply(t, w.as(t, "creator"), mainEndpoint, "test", withSpec(t, intent("rights")))
	checkError(t, err, "")
	if got.Spec.Username != "creator" {
		t.Errorf("username is %q", got.Spec.Username)
	}
	_, err = apply(t, w.as(t, "patcher"), mainEndpoint, "test", intent("rights").WithLabels(map[string]string{"a": "b"}))
	checkError(t, err, "")
}

func (w world) testApplyNeverCreates(t *testing.T) {
	for _, via := range []endpoint{statusEndpoint, approvalEndpoint} {
		_, err := apply(t, w.admin, via, "test", withSpec(t, intent("absent")))
		checkError(t, err, `certificatesigningrequests.certificates.k8s.io "absent" not found`)
		if _, err := w.csrs().Get(bounded(t), "absent", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("via %s: something was created: %v", via, err)
		}
	}
}

// Fields that an endpoint restores have no owner. Through /status, conditions
// have no owner either, although they are stored.
func (w world) testResetFields(t *testing.T) {
	w.create(t, "reset")
	everything := func() *applied {
		all := withConditions(withSpec(t, intent("reset")), "r", "Failed").WithLabels(map[string]string{"a": "b"})
		all.Status.WithCertificate(block("CERTIFICATE", newCertificate(t, 1))...)
		return all
	}
	condition := `.status.conditions[type="Failed"]`
	for _, tc := range []struct {
		via  endpoint
		want []string
	}{
		{mainEndpoint, []string{"/.metadata.labels.a"}},
		{statusEndpoint, []string{"/status.metadata.labels.a", "/status.status.certificate"}},
		{approvalEndpoint, []string{"/approval.metadata.labels.a", "/approval" + condition + ".reason", "/approval" + condition + ".status", "/approval" + condition + ".type"}},
	} {
		manager := "apply-" + tc.via.String()
		got, err := apply(t, w.admin, tc.via, manager, everything())
		checkError(t, err, "")
		paths := slices.DeleteFunc(owned(t, got, manager, metav1.ManagedFieldsOperationApply), func(path string) bool {
			return strings.HasSuffix(path, `"]`) // the item itself, beside its fields
		})
		if diff := cmp.Diff(tc.want, paths); diff != "" {
			t.Errorf("via %s: owned (-want +got):\n%s", tc.via, diff)
		}
	}
	got := w.get(t, "reset")
	if typesOf(got) != "Failed" || len(got.Status.Certificate) == 0 {
		t.Errorf("status is %v", got.Status)
	}
	for _, entry := range got.ManagedFields {
		if strings.Contains(entry.FieldsV1.GetRawString(), "f:spec") {
			t.Errorf("%s owns spec: %s", entry.Manager, entry.FieldsV1.GetRawString())
		}
	}
}

// Apply merges conditions by type, and removes those that its manager no longer
// sends: only through /approval, because through /status conditions have no
// owner.
func (w world) testApplyMergesConditions(t *testing.T) {
	for via, want := range map[endpoint][2]string{
		approvalEndpoint: {"Stored A B", "Stored B"},
		statusEndpoint:   {"Stored A B", "Stored A B"},
	} {
		name := "merges-" + via.String()
		w.plant(t, name, timed("", "Stored"))
		got, err := apply(t, w.admin, via, "test", withConditions(intent(name), "r", "A", "B"))
		checkError(t, err, "")
		if typesOf(got) != want[0] {
			t.Errorf("via %s: conditions are %s", via, typesOf(got))
		}
		got, err = apply(t, w.admin, via, "test", withConditions(intent(name), "r", "B"))
		checkError(t, err, "")
		if typesOf(got) != want[1] {
			t.Errorf("via %s: conditions are then %s", via, typesOf(got))
		}
	}
}

func (w world) testApplyConflicts(t *testing.T) {
	w.create(t, "conflicts")
	for _, via := range endpoints() {
		label := func(value string) *applied {
			return intent("conflicts").WithLabels(map[string]string{via.String(): value})
		}
		_, err := apply(t, w.admin, via, "one", label("1"))
		checkError(t, err, "")
		_, err = apply(t, w.admin, via, "two", label("2"))
		got := statusOf(t, err)
		if got.Code != http.StatusConflict || len(got.Details.Causes) != 1 || got.Details.Causes[0].Type != metav1.CauseTypeFieldManagerConflict {
			t.Errorf("via %s: %+v", via, got)
		}
	}
	_, err := apply(t, w.admin, approvalEndpoint, "one", withConditions(intent("conflicts"), "1", "Approved"))
	checkError(t, err, "")
	_, err = apply(t, w.admin, approvalEndpoint, "two", withConditions(intent("conflicts"), "2", "Approved"))
	if got := statusOf(t, err); got.Code != http.StatusConflict {
		t.Errorf("the reason of a condition: %v", got)
	}
	forced, err := w.csrs().Apply(bounded(t), intent("conflicts").WithLabels(map[string]string{"main": "2"}), metav1.ApplyOptions{FieldManager: "two", Force: true})
	checkError(t, err, "")
	if forced.Labels["main"] != "2" {
		t.Errorf("labels are %v", forced.Labels)
	}
}

// The rules of an endpoint also apply to server-side apply.
func (w world) testApplyRefusals(t *testing.T) {
	w.create(t, "refusals")
	_, err := apply(t, w.admin, statusEndpoint, "test", withConditions(intent("refusals"), "r", "Approved"))
	checkError(t, err, invalid("refusals", may("add", "Approved")))
	_, err = apply(t, w.admin, approvalEndpoint, "test", withConditions(intent("refusals"), "r", "Approved"))
	checkError(t, err, "")
	_, err = apply(t, w.admin, approvalEndpoint, "test", intent("refusals"))
	checkError(t, err, invalid("refusals", may("remove", "Approved")))
	_, err = apply(t, w.admin, mainEndpoint, "test", withConditions(withSpec(t, intent("bad")), "r").WithFinalizers("hold"))
	checkError(t, err, invalid("bad", `metadata.finalizers[0]: Invalid value: "hold": name is neither a standard finalizer name nor is it fully qualified`))
	_, err = apply(t, w.admin, mainEndpoint, "", intent("refusals"))
	if got := statusOf(t, err); got.Code != http.StatusUnprocessableEntity || !strings.Contains(got.Message, "fieldManager") {
		t.Errorf("nobody applies: %v", got)
	}
}

// The body is YAML; v1beta1 has the same ownership rules.
func (w world) testApplyFormats(t *testing.T) {
	w.create(t, "formats")
	for path, version := range map[string]string{v1Path: "v1", v1beta1: "v1beta1"} {
		body := "apiVersion: certificates.k8s.io/" + version + "\nkind: CertificateSigningRequest\nmetadata:\n  name: formats\n  labels: {" + version + ": x}\nspec:\n  usages: [any]\n"
		got := w.call(t, call{method: http.MethodPatch, path: path + "/formats?fieldManager=yaml-" + version, contentType: "application/apply-patch+yaml", body: []byte(body)})
		if got.code != http.StatusOK {
			t.Errorf("%s: %d %s", version, got.code, got.body)
		}
		if diff := cmp.Diff([]string{"/.metadata.labels." + version}, owned(t, w.get(t, "formats"), "yaml-"+version, metav1.ManagedFieldsOperationApply)); diff != "" {
			t.Errorf("%s: owned (-want +got):\n%s", version, diff)
		}
	}
}
