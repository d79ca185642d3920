package certificates

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The validation of each endpoint.
var (
	viaMain     = ValidateCSRUpdate
	viaStatus   = ValidateCSRStatusUpdate
	viaApproval = ValidateCSRApprovalUpdate
)

type validateUpdate = func(new, old *csr, version schema.GroupVersion) field.ErrorList

func may(verb string, t certificatesv1.RequestConditionType) string {
	return `status.conditions: Forbidden: updates may not ` + verb + ` a condition of type "` + string(t) + `"`
}

const (
	mayNotSet     = `status.certificate: Forbidden: updates may not set certificate content`
	mayNotReplace = `status.certificate: Forbidden: updates may not modify existing certificate content`
	atLeastOne    = `status.certificate: Invalid value: "<certificate data>": must contain at least one CERTIFICATE PEM block`
	exclusive     = `status.conditions: Invalid value: "Denied": ` + exclusiveText
)

func none(*csr) {}

// The same change has a different effect at each endpoint.
func TestValidateUpdate(t *testing.T) {
	good := chain(t)
	for _, tc := range []struct {
		reason                 string
		stored, update         edit
		main, status, approval []string
	}{
		{reason: "nothing changes", stored: none, update: none},
		{reason: "a finalizer goes while the stored certificate is not PEM",
			stored: both(finalizers("example.com/hold"), certificate([]byte("text"))), update: finalizers()},
		{reason: "a finalizer goes while stored usages are unknown and duplicated",
			stored: both(finalizers("example.com/hold"), usages("unknown", "unknown")), update: finalizers()},
		{reason: "approve", stored: none, update: conditions("Approved"),
			main: []string{may("add", "Approved")}, status: []string{may("add", "Approved")}},
		{reason: "deny", stored: none, update: conditions("Denied"),
			main: []string{may("add", "Denied")}, status: []string{may("add", "Denied")}},
		{reason: "take an approval back", stored: conditions("Approved"), update: conditions(),
			main: []string{may("remove", "Approved")}, status: []string{may("remove", "Approved")}, approval: []string{may("remove", "Approved")}},
		{reason: "take a denial back", stored: conditions("Denied"), update: conditions(),
			main: []string{may("remove", "Denied")}, status: []string{may("remove", "Denied")}, approval: []string{may("remove", "Denied")}},
		{reason: "take a failure back", stored: conditions("Failed"), update: conditions(),
			main: []string{may("remove", "Failed")}, status: []string{may("remove", "Failed")}, approval: []string{may("remove", "Failed")}},
		{reason: "one of two approvals is one removed", stored: conditions("Approved", "Approved"), update: conditions("Approved"),
			main: []string{may("remove", "Approved")}, status: []string{may("remove", "Approved")}, approval: []string{may("remove", "Approved")}},
		{reason: "fail", stored: none, update: conditions("Failed")},
		{reason: "other conditions come", stored: none, update: conditions("Custom")},
		{reason: "other conditions go", stored: conditions("Custom"), update: conditions()},
		{reason: "issue", stored: none, update: certificate(good), main: []string{mayNotSet}, approval: []string{mayNotSet}},
		{reason: "issue text", stored: none, update: certificate([]byte("text")),
			main: []string{atLeastOne, mayNotSet}, status: []string{atLeastOne}, approval: []string{atLeastOne, mayNotSet}},
		{reason: "replace a bad certificate by a bad one", stored: certificate([]byte("text")), update: certificate([]byte("more text")),
			main: []string{mayNotSet}, status: []string{mayNotReplace}, approval: []string{mayNotSet}},
		{reason: "take a certificate back", stored: certificate(good), update: certificate(nil),
			main: []string{mayNotSet}, status: []string{mayNotReplace}, approval: []string{mayNotSet}},
		{reason: "no certificate is the same as an empty one", stored: certificate(nil), update: certificate([]byte{})},
		{reason: "approve and deny", stored: none, update: conditions("Approved", "Denied"),
			main:     []string{exclusive, may("add", "Approved"), may("add", "Denied")},
			status:   []string{exclusive, may("add", "Approved"), may("add", "Denied")},
			approval: []string{exclusive}},
		{reason: "the rules for new objects hold for changed ones", stored: none, update: expires(1),
			main: []string{tooShort}, status: []string{tooShort}, approval: []string{tooShort}},
		{reason: "the library's rules for changed metadata come last", stored: none,
			update: both(conditions(""), func(c *csr) { c.Name = "other" }),
			main:   []string{typeRequired, nameImmutable}, status: []string{typeRequired, nameImmutable}, approval: []string{typeRequired, nameImmutable}},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			old := newCSR(t, tc.stored)
			obj := changed(old, tc.update)
			for endpoint, want := range map[string]struct {
				validate validateUpdate
				errs     []string
			}{"main": {viaMain, tc.main}, "status": {viaStatus, tc.status}, "approval": {viaApproval, tc.approval}} {
				if diff := cmp.Diff(want.errs, texts(want.validate(obj, old, certificatesv1.SchemeGroupVersion))); diff != "" {
					t.Errorf("%s: errors (-want +got):\n%s", endpoint, diff)
				}
			}
		})
	}
}

const (
	tooShort      = `spec.expirationSeconds: Invalid value: 1: ` + durationText
	typeRequired  = `status.conditions[0].type: Required value`
	nameImmutable = `metadata.name: Invalid value: "other": field is immutable`
)

func both(a, b edit) edit { return func(c *csr) { a(c); b(c) } }

// The text after the first line is a diff that clients must not rely on.
func TestDecisionsAreEditedThroughApprovalOnly(t *testing.T) {
	old := newCSR(t, conditions("Denied"))
	obj := changed(old, reasons("changed"))
	for endpoint, validate := range map[string]validateUpdate{"main": viaMain, "status": viaStatus} {
		got := texts(validate(obj, old, certificatesv1.SchemeGroupVersion))
		if len(got) != 1 || !strings.HasPrefix(got[0], may("modify", "Denied")+"\n") {
			t.Errorf("%s: got %q", endpoint, got)
		}
	}
	if errs := viaApproval(obj, old, certificatesv1.SchemeGroupVersion); len(errs) != 0 {
		t.Errorf("approval: %v", errs)
	}
}

// An object with a stored violation can still be updated; a new violation is
// refused.
func TestExclusivityRatchet(t *testing.T) {
	everywhere := map[string]validateUpdate{"main": viaMain, "status": viaStatus, "approval": viaApproval}
	only := func(name string) map[string]validateUpdate { return map[string]validateUpdate{name: everywhere[name]} }

	for _, tc := range []struct {
		reason         string
		stored, update edit
		via            map[string]validateUpdate
		want           []string
	}{
		{"nothing changes", conditions("Approved", "Denied"), none, everywhere, nil},
		{"something else changes", conditions("Approved", "Denied"), usages("any"), everywhere, nil},
		{"a failure comes", conditions("Approved", "Denied"), conditions("Approved", "Denied", "Failed"), everywhere, nil},
		{"the order changes", conditions("Approved", "Denied"), conditions("Denied", "Approved"), everywhere, nil},
		{"reasons change", conditions("Approved", "Denied"), reasons("changed"), only("approval"), nil},
		{"duplicates of both change their order", conditions("Approved", "Denied", "Approved", "Denied"), conditions("Denied", "Approved", "Denied", "Approved"), only("status"), nil},
		{"both come at once", none, conditions("Approved", "Denied"), only("approval"), []string{exclusive}},
		{"the second one comes", conditions("Approved"), conditions("Approved", "Denied"), only("approval"), []string{exclusive}},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			old := newCSR(t, tc.stored)
			obj := changed(old, tc.update)
			for _, version := range []schema.GroupVersion{certificatesv1.SchemeGroupVersion, certificatesv1beta1.SchemeGroupVersion} {
				for endpoint, validate := range tc.via {
					if diff := cmp.Diff(tc.want, texts(validate(obj, old, version))); diff != "" {
						t.Errorf("%s %s: errors (-want +got):\n%s", version.Version, endpoint, diff)
					}
				}
			}
		})
	}
}

// Some stored violations are never tolerated: those that would make the object
// useless.
func TestNeverTolerated(t *testing.T) {
	for _, tc := range []struct {
		reason string
		stored edit
		field  string
	}{
		{"a request that no longer parses", func(c *csr) { c.Spec.Request = []byte("junk") }, "spec.request"},
		{"no usages", usages(), "spec.usages"},
		{"a malformed signer name", signer("junk"), "spec.signerName"},
		{"a short duration", expires(1), "spec.expirationSeconds"},
		{"a condition without a status", func(c *csr) { c.Status.Conditions = []condition{{Type: "A"}} }, "status.conditions[0].status"},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			old := newCSR(t, tc.stored, finalizers("example.com/hold"))
			obj := changed(old, finalizers())
			for endpoint, validate := range map[string]validateUpdate{"main": viaMain, "status": viaStatus, "approval": viaApproval} {
				errs := validate(obj, old, certificatesv1.SchemeGroupVersion)
				if len(errs) != 1 || errs[0].Field != tc.field {
					t.Errorf("%s: got %v, want one error about %s", endpoint, errs, tc.field)
				}
			}
		})
	}
}

func TestUpdateLeniencyOfV1beta1(t *testing.T) {
	good := chain(t)
	for _, tc := range []struct {
		reason         string
		stored, update edit
		v1, v1beta1    []string
	}{
		{reason: "arbitrary bytes as certificate", stored: none, update: certificate([]byte("text")), v1: []string{atLeastOne}},
		{reason: "a certificate replaced", stored: certificate(good), update: certificate(chain(t)), v1: []string{mayNotReplace}},
		{reason: "a certificate replaced by anything", stored: certificate(good), update: certificate([]byte("text")), v1: []string{atLeastOne, mayNotReplace}},
		{reason: "a certificate taken back", stored: certificate(good), update: certificate(nil), v1: []string{mayNotReplace}},
		{reason: "an empty condition type", stored: none, update: conditions(""), v1: []string{typeRequired}},
		{reason: "duplicate condition types", stored: none, update: conditions("A", "A"), v1: []string{`status.conditions[1].type: Duplicate value: "A"`}},
		{reason: "a failure taken back is refused by both", stored: conditions("Failed"), update: conditions(),
			v1: []string{may("remove", "Failed")}, v1beta1: []string{may("remove", "Failed")}},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			old := newCSR(t, tc.stored)
			obj := changed(old, tc.update)
			if diff := cmp.Diff(tc.v1, texts(viaStatus(obj, old, certificatesv1.SchemeGroupVersion))); diff != "" {
				t.Errorf("v1: errors (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.v1beta1, texts(viaStatus(obj, old, certificatesv1beta1.SchemeGroupVersion))); diff != "" {
				t.Errorf("v1beta1: errors (-want +got):\n%s", diff)
			}
		})
	}
}
