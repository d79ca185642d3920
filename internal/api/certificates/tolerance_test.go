package certificates

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// settingCertificate makes the certificate of the new object count: an
// unchanged one is always tolerated.
var settingCertificate = certificate([]byte("new"))

func TestToleratedFor(t *testing.T) {
	v1beta1 := tolerances{
		unknownUsages: true, duplicateUsages: true,
		emptyConditionTypes: true, duplicateConditionTypes: true,
		arbitraryCertificate: true, replacedCertificate: true,
		inferredSigner: true,
	}
	for _, tc := range []struct {
		reason  string
		version schema.GroupVersion
		stored  edit // nil for a create
		updated edit
		want    tolerances
	}{
		{"a create starts clean", certificatesv1.SchemeGroupVersion, nil, nil, tolerances{}},
		{"so does the update of a clean object", certificatesv1.SchemeGroupVersion, conditions("Approved", "Failed"), settingCertificate, tolerances{}},
		{"stored decisions may both stay", certificatesv1.SchemeGroupVersion, conditions("Approved", "Denied"), settingCertificate, tolerances{approvedAndDenied: true}},
		{"a stored legacy signer may stay", certificatesv1.SchemeGroupVersion, signer("kubernetes.io/legacy-unknown"), settingCertificate, tolerances{legacySigner: true}},
		{"stored duplicate types may stay", certificatesv1.SchemeGroupVersion, conditions("A", "B", "A"), settingCertificate, tolerances{duplicateConditionTypes: true}},
		{"a stored empty type may stay", certificatesv1.SchemeGroupVersion, conditions(""), settingCertificate, tolerances{emptyConditionTypes: true}},
		{"stored unknown usages may stay", certificatesv1.SchemeGroupVersion, usages("unknown"), settingCertificate, tolerances{unknownUsages: true}},
		{"stored duplicate usages may stay", certificatesv1.SchemeGroupVersion, usages("any", "any"), settingCertificate, tolerances{duplicateUsages: true}},
		{"a certificate that does not change may be anything", certificatesv1.SchemeGroupVersion, certificate(chain(t)), nil, tolerances{arbitraryCertificate: true}},
		{"nor does one that was never good become worse", certificatesv1.SchemeGroupVersion, certificate([]byte("text")), settingCertificate, tolerances{arbitraryCertificate: true}},
		{"a good one must stay good", certificatesv1.SchemeGroupVersion, certificate(chain(t)), settingCertificate, tolerances{}},
		{"v1beta1 never had most rules", certificatesv1beta1.SchemeGroupVersion, nil, nil, v1beta1},
		{"on updates neither", certificatesv1beta1.SchemeGroupVersion, func(*csr) {}, settingCertificate, v1beta1},
		{"other groups' v1beta1 is no reason for leniency", schema.GroupVersion{Group: "example.com", Version: "v1beta1"}, nil, nil, tolerances{}},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			var old *csr
			obj := newCSR(t)
			if tc.stored != nil {
				old = changed(obj, tc.stored)
				obj = old.DeepCopy()
			}
			if tc.updated != nil {
				tc.updated(obj)
			}
			got := toleratedFor(tc.version, obj, old)
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(tolerances{})); diff != "" {
				t.Errorf("tolerances (-want +got):\n%s", diff)
			}
		})
	}
}

// Each object here is refused without its tolerance and accepted with it.
func TestToleranceEffects(t *testing.T) {
	der := newCertificate(t)
	corrupt := append([]byte(nil), der...)
	corrupt[8] ^= 0xff
	headers := append([]byte("-----BEGIN CERTIFICATE-----\nProc-Type: 4,ENCRYPTED\n\n"), block("CERTIFICATE", der)[len("-----BEGIN CERTIFICATE-----\n"):]...)

	for _, tc := range []struct {
		reason    string
		edit      edit
		tolerated tolerances
		want      string // "" for a text of the standard library
	}{
		{"the legacy signer", signer("kubernetes.io/legacy-unknown"), tolerances{legacySigner: true},
			`spec.signerName: Invalid value: "kubernetes.io/legacy-unknown": the legacy signerName is not allowed via this API version`},
		{"unknown usages", usages("unknown"), tolerances{unknownUsages: true}, `spec.usages[0]: Unsupported value: "unknown": ` + usagesText},
		{"duplicate usages", usages("any", "any"), tolerances{duplicateUsages: true}, `spec.usages[1]: Duplicate value: "any"`},
		{"an empty condition type", conditions(""), tolerances{emptyConditionTypes: true}, `status.conditions[0].type: Required value`},
		{"both decisions", conditions("Approved", "Denied"), tolerances{approvedAndDenied: true}, `status.conditions: Invalid value: "Denied": ` + exclusiveText},
		{"duplicate decisions", conditions("Approved", "Approved"), tolerances{duplicateConditionTypes: true}, `status.conditions[1].type: Duplicate value: "Approved"`},
		{"a certificate without PEM", certificate([]byte("text")), tolerances{arbitraryCertificate: true},
			`status.certificate: Invalid value: "<certificate data>": must contain at least one CERTIFICATE PEM block`},
		{"a PEM block of another kind", certificate(append(block("CERTIFICATE", der), block("PRIVATE KEY", der)...)), tolerances{arbitraryCertificate: true},
			`status.certificate: Invalid value: "<certificate data>": only CERTIFICATE PEM blocks are allowed, found "PRIVATE KEY"`},
		{"a PEM block with headers", certificate(headers), tolerances{arbitraryCertificate: true},
			`status.certificate: Invalid value: "<certificate data>": no PEM block headers are permitted`},
		{"bad base64, which the PEM decoder cannot see", certificate([]byte("-----BEGIN CERTIFICATE-----\n*\n-----END CERTIFICATE-----\n")), tolerances{arbitraryCertificate: true},
			`status.certificate: Invalid value: "<certificate data>": must contain at least one CERTIFICATE PEM block`},
		{"an empty block", certificate([]byte("-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n")), tolerances{arbitraryCertificate: true},
			`status.certificate: Invalid value: "<certificate data>": found CERTIFICATE PEM block containing 0 certificates`},
		{"broken DER", certificate(block("CERTIFICATE", corrupt)), tolerances{arbitraryCertificate: true}, ""},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			obj := newCSR(t, tc.edit)
			if errs := validateCSR(obj, tc.tolerated, nil); len(errs) != 0 {
				t.Errorf("with the tolerance: %v", errs)
			}
			got := texts(validateCSR(obj, tolerances{}, nil))
			if len(got) != 1 || (tc.want != "" && got[0] != tc.want) {
				t.Errorf("without the tolerance: got %q, want %q", got, tc.want)
			}
		})
	}
}
