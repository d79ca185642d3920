package apiserver_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/apitest"
)

// lenient is a mistake that v1 refuses and v1beta1 always accepted.
type lenient struct {
	reason   string
	stored   func(*csr) // the stored request, for an update
	endpoint string
	change   func(*csr)
	refusal  string // in v1
}

// testLegacySigner: certificates of this signer mean nothing to relying
// parties, but the API would accept them; so it has no leniency.
func (w world) testLegacySigner(t *testing.T) {
	request := newCSR(t, "legacy-create")
	request.Spec.SignerName = legacy
	for version, refusal := range map[string]string{
		v1:      `spec.signerName: Invalid value: "kubernetes.io/legacy-unknown": the legacy signerName is not allowed via this API version`,
		v1beta1: `spec.signerName: Invalid value: "kubernetes.io/legacy-unknown": the legacy signerName, which is the default of v1beta1, is not allowed`,
	} {
		_, err := w.write(t, "POST", version, request)
		wantInvalid(t, err, request.Name, refusal)
	}
}

// testLenientCreate and testLenientUpdate test the rules that became strict
// with v1, when both versions were served (Kubernetes 1.19 to 1.21).
func (w world) testLenientCreate(t *testing.T) {
	tests := []lenient{
		{
			reason: "unknown usage", change: func(c *csr) { c.Spec.Usages = []certificatesv1.KeyUsage{"client auth", "fun"} },
			refusal: `spec.usages[1]: Unsupported value: "fun": supported values: "any", `,
		},
		{
			reason: "usage twice", change: func(c *csr) { c.Spec.Usages = []certificatesv1.KeyUsage{"any", "any"} },
			refusal: `spec.usages[1]: Duplicate value: "any"`,
		},
	}
	for i, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			request := newCSR(t, fmt.Sprintf("lenient-create-%d", i))
			tc.change(request)
			_, err := w.write(t, "POST", v1, request)
			wantInvalid(t, err, request.Name, tc.refusal)
			created, err := w.write(t, "POST", v1beta1, request)
			if err != nil {
				t.Fatalf("in v1beta1: %v", err)
			}
			if created.Spec.SignerName != request.Spec.SignerName || !cmp.Equal(request.Spec.Usages, created.Spec.Usages) {
				t.Errorf("in v1beta1: %+v", created.Spec)
			}
			wantDecidable(t, w, w.get(t, request.Name))
		})
	}
}

// wantDecidable: requests that v1beta1 accepted can be processed by all
// clients.
func wantDecidable(t *testing.T, w world, stored *csr) {
	t.Helper()
	denied := apitest.Decide(t, w.admin, stored, "Denied")
	denied.Labels = map[string]string{"a": "b"}
	if _, err := w.write(t, "PUT", v1, denied); err != nil {
		t.Errorf("updating in v1: %v", err)
	}
}

func (w world) testLenientUpdate(t *testing.T) {
	certificate := string(someCertificate(t, w))
	tests := []lenient{
		{
			reason: "condition without a type", endpoint: "approval", change: addConditions(""),
			refusal: "status.conditions[0].type: Required value",
		},
		{
			reason: "condition twice", endpoint: "approval", change: addConditions("Approved", "Approved"),
			refusal: `status.conditions[1].type: Duplicate value: "Approved"`,
		},
		{
			reason: "condition twice, of a signer", endpoint: "status", change: addConditions("Other", "Other"),
			refusal: `status.conditions[1].type: Duplicate value: "Other"`,
		},
		{
			reason: "certificate that is none", endpoint: "status", change: certificateIs("anything"),
			refusal: `status.certificate: Invalid value: "<certificate data>": must contain at least one CERTIFICATE PEM block`,
		},
		{
			reason: "another certificate", endpoint: "status",
			stored: certificateIs(certificate), change: certificateIs("Again:\n" + certificate),
			refusal: "status.certificate: Forbidden: updates may not modify existing certificate content",
		},
		{
			reason: "no certificate any more", endpoint: "status",
			stored: certificateIs(certificate), change: certificateIs(""),
			refusal: "status.certificate: Forbidden: updates may not modify existing certificate content",
		},
	}
	for i, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			stored := w.prepare(t, fmt.Sprintf("lenient-update-%d", i), tc.stored)
			changed := stored.DeepCopy()
			tc.change(changed)
			_, err := w.write(t, "PUT", v1, changed, tc.endpoint)
			wantInvalid(t, err, stored.Name, tc.refusal)
			if _, err := w.write(t, "PUT", v1beta1, changed, tc.endpoint); err != nil {
				t.Fatalf("in v1beta1: %v", err)
			}
			times := cmpopts.IgnoreTypes(metav1.Time{})
			if diff := cmp.Diff(changed.Status, w.get(t, stored.Name).Status, times, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("status (-want +got):\n%s", diff)
			}
		})
	}
}

// prepare stores a request with a status.
func (w world) prepare(t *testing.T, name string, status func(*csr)) *csr {
	t.Helper()
	stored := apitest.Create(t, w.admin, newCSR(t, name))
	if status == nil {
		return stored
	}
	status(stored)
	for _, endpoint := range []string{"approval", "status"} { // each endpoint takes its part
		changed, err := w.write(t, "PUT", v1, stored, endpoint)
		if err != nil {
			t.Fatal(err)
		}
		changed.Status.Certificate = stored.Status.Certificate
		stored = changed
	}
	return w.get(t, name)
}

// testIgnoredDecisions: in v1beta1, an update that adds or removes a decision
// through /status changes no condition at all, but all other fields.
func (w world) testIgnoredDecisions(t *testing.T) {
	certificate := string(someCertificate(t, w))
	tests := []struct {
		reason  string
		stored  func(*csr)
		change  func(*csr)
		refusal string
	}{
		{"approves and fails", nil, addConditions("Approved", "Failed"), `status.conditions: Forbidden: updates may not add a condition of type "Approved"`},
		{"denies", nil, addConditions("Denied"), `status.conditions: Forbidden: updates may not add a condition of type "Denied"`},
		{"takes an approval away", addConditions("Approved", "Other"), setConditions("Other", "Failed"), `status.conditions: Forbidden: updates may not remove a condition of type "Approved"`},
		{"takes a failure away with it", addConditions("Approved", "Failed"), setConditions(), `updates may not remove a condition of type "Failed"`},
	}
	for i, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			stored := w.prepare(t, fmt.Sprintf("ignored-%d", i), tc.stored)
			changed := stored.DeepCopy()
			tc.change(changed)
			changed.Status.Certificate = []byte(certificate)
			_, err := w.write(t, "PUT", v1, changed, "status")
			wantInvalid(t, err, stored.Name, tc.refusal)
			got, err := w.write(t, "PUT", v1beta1, changed, "status")
			if err != nil {
				t.Fatalf("in v1beta1: %v", err)
			}
			if diff := cmp.Diff(stored.Status.Conditions, got.Status.Conditions, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
			if string(got.Status.Certificate) != certificate {
				t.Errorf("certificate is %q", got.Status.Certificate)
			}
		})
	}
}

// testNoLeniency: in these cases the versions have the same rules.
func (w world) testNoLeniency(t *testing.T) {
	certificate := string(someCertificate(t, w))
	all := func(c *csr) { addConditions("Approved", "Failed")(c); certificateIs(certificate)(c) }
	forged := func(c *csr) {
		c.Spec.Username, c.Spec.SignerName = "forged", "example.com/forged"
		c.Status.Conditions[0].Message = "forged"
	}
	tests := []struct {
		reason   string
		endpoint []string
		change   func(*csr)
		refusal  string // otherwise the status does not change
	}{
		{"approved and denied", []string{"approval"}, addConditions("Denied"), "status.conditions: Invalid value: "},
		{"failed no more", []string{"status"}, setConditions("Approved"), `status.conditions: Forbidden: updates may not remove a condition of type "Failed"`},
		{"failed no more, says the approver", []string{"approval"}, setConditions("Approved"), `status.conditions: Forbidden: updates may not remove a condition of type "Failed"`},
		{"condition of no known status", []string{"status"}, func(c *csr) { addConditions("Other")(c); c.Status.Conditions[2].Status = "Perhaps" }, "status.conditions[2].status: Unsupported value: "},
		{"decision is edited through /status", []string{"status"}, forged, ""},
		{"certificate is set through /approval", []string{"approval"}, certificateIs("x"), ""},
		{"anything is set through the resource", nil, func(c *csr) { forged(c); addConditions("Denied")(c); certificateIs("x")(c) }, ""},
	}
	for i, tc := range tests {
		for _, version := range []string{v1, v1beta1} {
			t.Run(tc.reason+" in "+version, func(t *testing.T) {
				stored := w.prepare(t, fmt.Sprintf("alike-%d-%s", i, version), all)
				changed := stored.DeepCopy()
				tc.change(changed)
				_, err := w.write(t, "PUT", version, changed, tc.endpoint...)
				if tc.refusal != "" {
					wantInvalid(t, err, stored.Name, tc.refusal)
				} else if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(stored, w.get(t, stored.Name)); diff != "" {
					t.Errorf("the request has changed (-was +is):\n%s", diff)
				}
			})
		}
	}

	for _, version := range []string{v1, v1beta1} { // what both versions store
		stored := w.prepare(t, "signer-fails-"+version, addConditions("Approved"))
		got, err := w.write(t, "PUT", version, apitest.With(apitest.With(stored, "Failed"), "Other"), "status")
		if err != nil || len(got.Status.Conditions) != 3 {
			t.Errorf("adding Failed and Other in %s: %v", version, err)
		}
	}
}

// someCertificate returns any valid certificate.
func someCertificate(t *testing.T, w world) []byte {
	t.Helper()
	return w.Login(t, "somebody").CertData
}

func addConditions(types ...certificatesv1.RequestConditionType) func(*csr) {
	return func(c *csr) {
		for _, kind := range types {
			*c = *apitest.With(c, kind)
		}
	}
}

// setConditions keeps the conditions of these types and adds the missing ones.
func setConditions(types ...certificatesv1.RequestConditionType) func(*csr) {
	return func(c *csr) {
		c.Status.Conditions = slices.DeleteFunc(c.Status.Conditions, func(condition certificatesv1.CertificateSigningRequestCondition) bool {
			return !slices.Contains(types, condition.Type)
		})
		for _, kind := range types {
			if !slices.ContainsFunc(c.Status.Conditions, func(condition certificatesv1.CertificateSigningRequestCondition) bool { return condition.Type == kind }) {
				*c = *apitest.With(c, kind)
			}
		}
	}
}

func certificateIs(data string) func(*csr) {
	return func(c *csr) { c.Status.Certificate = []byte(data) }
}

func wantInvalid(t *testing.T, err error, name, text string) {
	t.Helper()
	prefix := fmt.Sprintf("CertificateSigningRequest.certificates.k8s.io %q is invalid: ", name)
	if err == nil || !strings.HasPrefix(err.Error(), prefix) || !strings.Contains(err.Error(), text) {
		t.Errorf("got %v, want %s%s", err, prefix, text)
	}
}
