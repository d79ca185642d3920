package csr_test

import (
	"encoding/pem"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	betaapi "k8s.io/api/certificates/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Stored objects may break rules that were introduced later. They can still be
// updated where that is harmless.
func TestServerRatchet(t *testing.T) {
	t.Parallel()
	w := start(t)
	t.Run("tolerated", w.testTolerated)
	t.Run("new violations", w.testNewViolations)
	t.Run("never tolerated", w.testNeverTolerated)
	t.Run("exclusivity", w.testExclusivity)
	t.Run("duplicates", w.testDuplicates)
	t.Run("certificates", w.testBadCertificateStays)
	t.Run("untimed decisions", w.testUntimedDecisions)
}

// violation is a mistake that can be stored, but cannot be made through an
// endpoint.
type violation struct {
	reason string
	edit   edit
	via    endpoint
	want   string // part of the error
}

func certificateViolations(t testing.TB) []violation {
	t.Helper()
	good := newCertificate(t, time.Hour)
	corrupted := slices.Clone(good)
	corrupted[len(corrupted)/2] ^= 0xff
	corrupted[4] ^= 0xff
	detail := func(detail string) string {
		return `status.certificate: Invalid value: "<certificate data>": ` + detail
	}
	text := string(block("CERTIFICATE", good))
	withHeaders := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Headers: map[string]string{"A": "b"}, Bytes: good})
	bad := func(reason string, data []byte, want string) violation {
		return violation{reason, certificate(data), statusEndpoint, detail(want)}
	}
	const atLeastOne = "must contain at least one CERTIFICATE PEM block"
	return []violation{
		bad("text", []byte("text"), atLeastOne),
		bad("DER", good, atLeastOne),
		bad("bad base64", []byte(strings.Replace(text, "\n", "\n*", 1)), atLeastOne),
		bad("broken end", []byte(strings.Replace(text, "END CERTIFICATE", "END X", 1)), atLeastOne),
		bad("another label", block("TRUSTED CERTIFICATE", good), `only CERTIFICATE PEM blocks are allowed, found "TRUSTED CERTIFICATE"`),
		bad("a key behind it", slices.Concat([]byte(text), block("EC PRIVATE KEY", good)), `only CERTIFICATE PEM blocks are allowed, found "EC PRIVATE KEY"`),
		bad("headers", withHeaders, "no PEM block headers are permitted"),
		bad("empty block", block("CERTIFICATE", nil), "found CERTIFICATE PEM block containing 0 certificates"),
		bad("corrupted", block("CERTIFICATE", corrupted), "x509: "),
		bad("corrupted behind a good one", slices.Concat([]byte(text), block("CERTIFICATE", corrupted)), "x509: "),
	}
}

func violations(t testing.TB) []violation {
	t.Helper()
	const exclusive = `status.conditions: Invalid value: "Denied": Approved and Denied conditions are mutually exclusive`
	return append([]violation{
		{"an empty condition type", conditions(""), statusEndpoint, `status.conditions[0].type: Required value`},
		{"an empty condition type via approval", conditions(""), approvalEndpoint, `status.conditions[0].type: Required value`},
		{"both decisions", conditions("Approved", "Denied"), approvalEndpoint, exclusive},
		{"both decisions the other way round", conditions("Denied", "Approved"), approvalEndpoint,
			`status.conditions: Invalid value: "Approved": Approved and Denied conditions are mutually exclusive`},
		{"two approvals", conditions("Approved", "Approved"), approvalEndpoint, `status.conditions[1].type: Duplicate value: "Approved"`},
		{"two of another type", conditions("A", "A", "A"), statusEndpoint,
			`[status.conditions[1].type: Duplicate value: "A", status.conditions[2].type: Duplicate value: "A"]`},
	}, certificateViolations(t)...)
}

// A stored mistake does not prevent other changes.
func (w world) testTolerated(t *testing.T) {
	all := append(violations(t),
		violation{reason: "legacy signer", edit: signer("kubernetes.io/legacy-unknown")},
		violation{reason: "unknown and duplicate usages", edit: usages("unknown", "unknown")},
		violation{reason: "unknown usages", edit: usages("unknown")},
		violation{reason: "duplicate usages", edit: usages("any", "any")},
	)
	for i, tc := range all {
		t.Run(tc.reason, func(t *testing.T) {
			for _, via := range endpoints() {
				name := fmt.Sprintf("tolerated-%d-%s", i, via)
				obj := w.plant(t, name, timed(""), tc.edit, complete, finalizers("example.com/a", "example.com/b"))
				got, err := put(t, w.admin, via, changed(obj, finalizers("example.com/a")))
				if err != nil {
					t.Errorf("PUT via %s: %v", via, err)
					continue
				}
				if diff := cmp.Diff(obj.Status, got.Status); diff != "" {
					t.Errorf("PUT via %s: status (-stored +got):\n%s", via, diff)
				}
				w.mustPut(t, via, changed(got, finalizers()))
			}
		})
	}
}

// complete sets the times of every condition.
func complete(c *csr) {
	for i := range c.Status.Conditions {
		at := metav1.Unix(1_700_000_000, 0)
		c.Status.Conditions[i].LastUpdateTime, c.Status.Conditions[i].LastTransitionTime = at, at
	}
}

// The same mistakes are refused if they are not stored already.
func (w world) testNewViolations(t *testing.T) {
	for i, tc := range violations(t) {
		t.Run(tc.reason, func(t *testing.T) {
			obj := w.create(t, fmt.Sprintf("new-%d", i))
			_, err := put(t, w.admin, tc.via, changed(obj, tc.edit))
			if got := statusOf(t, err); got.Code != http.StatusUnprocessableEntity || !strings.Contains(got.Message, tc.want) {
				t.Errorf("got %d %s\nwant %s", got.Code, got.Message, tc.want)
			}
		})
	}
}

// A mistake that makes a request useless is refused in each update, even in one
// that removes a finalizer. Deletion works.
func (w world) testNeverTolerated(t *testing.T) {
	for i, tc := range []struct {
		reason string
		edit   edit
		field  string
	}{
		{"a request that does not parse", func(c *csr) { c.Spec.Request = []byte("junk") }, "spec.request"},
		{"no usages", usages(), "spec.usages"},
		{"a malformed signer name", signer("junk"), "spec.signerName"},
		{"a short duration", expires(1), "spec.expirationSeconds"},
		{"no condition status", func(c *csr) { c.Status.Conditions = []condition{{Type: "A"}} }, "status.conditions[0].status"},
		{"an approval that is false", func(c *csr) { c.Status.Conditions = []condition{{Type: "Approved", Status: "False"}} }, "status.conditions[0].status"},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			obj := w.plant(t, fmt.Sprintf("never-%d", i), tc.edit, complete, finalizers("example.com/hold"))
			for _, via := range endpoints() {
				_, err := put(t, w.admin, via, changed(obj, finalizers()))
				if causes := causesOf(t, err); !apierrors.IsInvalid(err) || len(causes) != 1 || causes[0].Field != tc.field {
					t.Errorf("PUT via %s: %v", via, err)
				}
			}
			free := w.plant(t, fmt.Sprintf("never-%d-free", i), tc.edit)
			if err := w.csrs().Delete(bounded(t), free.Name, metav1.DeleteOptions{}); err != nil {
				t.Errorf("deleting: %v", err)
			}
		})
	}
}

// invalidOrFine returns the text of a 422, or "" if there are no errors.
func invalidOrFine(name, errs string) string {
	if errs == "" {
		return ""
	}
	return invalid(name, errs)
}

// A stored contradiction may stay in every form; a new one is refused. All
// versions have the same rule.
func (w world) testExclusivity(t *testing.T) {
	const exclusive = `status.conditions: Invalid value: "Denied": Approved and Denied conditions are mutually exclusive`
	both := timed("old", "Approved", "Denied")
	everywhere := endpoints()
	approval := []endpoint{approvalEndpoint}
	for i, tc := range []struct {
		reason       string
		before, sent edit
		via          []endpoint
		want         string
	}{
		{"nothing changes", both, func(*csr) {}, everywhere, ""},
		{"the spec changes", both, everySpecField, everywhere, ""},
		{"a failure comes", both, timed("old", "Approved", "Denied", "Failed"), everywhere, ""},
		{"the order changes", both, timed("old", "Denied", "Approved"), everywhere, ""},
		{"reasons change", both, timed("new", "Approved", "Denied"), approval, ""},
		{"two of each change their order", timed("old", "Approved", "Denied", "Approved", "Denied"),
			timed("old", "Denied", "Approved", "Denied", "Approved"), []endpoint{statusEndpoint}, ""},
		{"both come", timed("old"), timed("new", "Approved", "Denied"), approval, exclusive},
		{"the second comes", timed("old", "Approved"), timed("old", "Approved", "Denied"), approval, exclusive},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			for _, via := range tc.via {
				obj := w.plant(t, fmt.Sprintf("exclusivity-%d-%s", i, via), tc.before)
				_, err := put(t, w.admin, via, changed(obj, tc.sent))
				checkError(t, err, invalidOrFine(obj.Name, tc.want))

				w.plant(t, obj.Name+"-beta", tc.before)
				beta := w.getBeta(t, obj.Name+"-beta")
				beta.Status.Conditions = nil
				for _, c := range changed(obj, tc.sent).Status.Conditions {
					beta.Status.Conditions = append(beta.Status.Conditions, betaapi.CertificateSigningRequestCondition{
						Type: betaapi.RequestConditionType(c.Type), Status: c.Status, Reason: c.Reason})
				}
				_, err = w.putBeta(t, via, beta)
				checkError(t, err, invalidOrFine(beta.Name, tc.want))
			}
		})
	}
}

// With a stored duplicate, others may be added; removing one of two approvals
// counts as removing an approval.
func (w world) testDuplicates(t *testing.T) {
	obj := w.plant(t, "duplicates", timed("", "A", "A", "Approved", "Approved"))
	got := w.mustPut(t, statusEndpoint, changed(obj, timed("", "A", "A", "Approved", "Approved", "B", "B")))
	if len(got.Status.Conditions) != 6 {
		t.Errorf("conditions are %v", got.Status.Conditions)
	}
	for _, via := range []endpoint{statusEndpoint, approvalEndpoint} {
		_, err := put(t, w.admin, via, changed(got, timed("", "A", "A", "Approved")))
		checkError(t, err, invalid("duplicates", may("remove", "Approved")))
	}
	got = w.mustPut(t, statusEndpoint, changed(got, timed("", "A", "Approved", "Approved")))
	got = w.mustPut(t, approvalEndpoint, changed(got, timed("", "Approved", "Approved", "Approved")))
	if n := len(got.Status.Conditions); n != 3 {
		t.Errorf("%d conditions", n)
	}
}

// A stored invalid certificate may stay. Another invalid one cannot replace it,
// but the error does not repeat its content.
func (w world) testBadCertificateStays(t *testing.T) {
	obj := w.plant(t, "bad-certificate", certificate([]byte("text")))
	for _, other := range [][]byte{[]byte("other text"), chain(t), nil} {
		_, err := put(t, w.admin, statusEndpoint, changed(obj, certificate(other)))
		checkError(t, err, invalid("bad-certificate", mayNotReplace))
	}
	issued := w.plant(t, "good-certificate", certificate(chain(t)))
	_, err := put(t, w.admin, statusEndpoint, changed(issued, certificate([]byte("text"))))
	checkError(t, err, invalid("good-certificate", "["+atLeastOne+", "+mayNotReplace+"]"))

	empty := w.plant(t, "empty-certificate")
	w.mustPut(t, statusEndpoint, changed(empty, certificate([]byte{})))
}

// Decisions from before Kubernetes 1.19 have no times. Setting them would
// change a decision through /status, which is refused.
func (w world) testUntimedDecisions(t *testing.T) {
	obj := w.plant(t, "untimed", conditions("Approved"))
	_, err := put(t, w.admin, statusEndpoint, changed(obj, certificate(chain(t))))
	message := statusOf(t, err).Message
	if want := invalid("untimed", may("modify", "Approved")+"\n"); !strings.HasPrefix(message, want) {
		t.Errorf("got %s\nwant %s", message, want)
	}
	obj = w.mustPut(t, mainEndpoint, changed(obj, labels("a", "b")))
	if !obj.Status.Conditions[0].LastUpdateTime.IsZero() {
		t.Error("the resource itself fills in times")
	}
	obj = w.mustPut(t, approvalEndpoint, obj)
	if obj.Status.Conditions[0].LastUpdateTime.IsZero() || obj.Status.Conditions[0].LastTransitionTime.IsZero() {
		t.Error("/approval does not fill in times")
	}
	w.mustPut(t, statusEndpoint, changed(obj, certificate(chain(t))))
}
