package certificates

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/certplane/certplane/internal/pki"
)

const (
	labelText     = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
	subdomainText = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
	formText      = "must be a fully qualified domain and path of the form 'example.com/signer-name'"
	segmentsText  = "should be a domain with at least two segments separated by dots"
	usagesText    = `supported values: "any", "cert sign", "client auth", "code signing", "content commitment", "crl sign", "data encipherment", "decipher only", "digital signature", "email protection", "encipher only", "ipsec end system", "ipsec tunnel", "ipsec user", "key agreement", "key encipherment", "microsoft sgc", "netscape sgc", "ocsp signing", "s/mime", "server auth", "signing", "timestamping"`
	exclusiveText = "Approved and Denied conditions are mutually exclusive"
	durationText  = "may not specify a duration less than 600 seconds (10 minutes)"
)

func TestValidateCSR(t *testing.T) {
	longPath := strings.Repeat("a", 253) + "." + strings.Repeat("b", 253)
	domain253 := strings.Repeat(strings.Repeat("d", 62)+".", 4) + "d"
	name571 := domain253 + "/" + strings.Repeat("p", 63) + "." + strings.Repeat("q", 253)
	label66 := strings.Repeat("x", 66)
	label64Text := "must be no more than 63 characters"

	for _, tc := range []struct {
		reason string
		edit   edit
		want   []string
	}{
		{"a plain request is valid", func(*csr) {}, nil},

		{"an absent request is no PEM", func(c *csr) { c.Spec.Request = nil },
			[]string{`spec.request: Invalid value: null: PEM block type must be CERTIFICATE REQUEST`}},
		{"garbage is no PEM", func(c *csr) { c.Spec.Request = []byte("garbage") },
			[]string{`spec.request: Invalid value: "Z2FyYmFnZQ==": PEM block type must be CERTIFICATE REQUEST`}},

		{"a request may have as many bytes as with cert-manager", func(c *csr) {
			c.Spec.Request = append(c.Spec.Request, bytes.Repeat([]byte("x"), 36_500-len(c.Spec.Request))...)
		}, nil},
		{"text around its block counts", func(c *csr) {
			c.Spec.Request = append(c.Spec.Request, bytes.Repeat([]byte("x"), 36_501-len(c.Spec.Request))...)
		}, []string{`spec.request: Too long: may not be more than 36500 bytes`}},
		{"metadata has a bound", func(c *csr) { c.Annotations = map[string]string{"example.com/a": strings.Repeat("x", 64<<10)} },
			[]string{`metadata: Too long: labels, annotations, finalizers and ownerReferences may not be more than 65536 bytes together`}},
		{"so has what is said of the requester", func(c *csr) {
			c.Spec.Groups = []string{strings.Repeat("g", 32<<10)}
			c.Spec.Extra = map[string]certificatesv1.ExtraValue{"k": {strings.Repeat("x", 32<<10)}}
		}, []string{`spec: Too long: username, uid, groups and extra may not be more than 65536 bytes together`}},

		{"usages are required", usages(), []string{`spec.usages: Required value`}},
		{"an empty list of usages is none", func(c *csr) { c.Spec.Usages = []certificatesv1.KeyUsage{} },
			[]string{`spec.usages: Required value`}},
		{"unknown usages come before duplicate ones", usages("unknown", "unknown"), []string{
			`spec.usages[0]: Unsupported value: "unknown": ` + usagesText,
			`spec.usages[1]: Unsupported value: "unknown": ` + usagesText,
			`spec.usages[1]: Duplicate value: "unknown"`,
		}},
		{"usages are case-sensitive", usages("Client Auth"), []string{`spec.usages[0]: Unsupported value: "Client Auth": ` + usagesText}},
		{"signing and digital signature are two usages", usages("signing", "digital signature"), nil},

		{"the signer is required", signer(""), []string{`spec.signerName: Required value`}},
		{"a signer name has a slash", signer("example.com"), []string{`spec.signerName: Invalid value: "example.com": ` + formText}},
		{"a signer name has one slash", signer("example.com/a/b"), []string{`spec.signerName: Invalid value: "example.com/a/b": ` + formText}},
		{"a domain has a dot", signer("example/signer"), []string{`spec.signerName: Invalid value: "example": ` + segmentsText}},
		{"an empty domain is bad in both ways", signer("/signer"), []string{
			`spec.signerName: Invalid value: "": validating label "": ` + labelText,
			`spec.signerName: Invalid value: "": ` + segmentsText,
		}},
		{"only the first bad domain label counts", signer("A.B.com/signer"), []string{`spec.signerName: Invalid value: "A.B.com": validating label "A": ` + labelText}},
		{"a path is not empty", signer("example.com/"), []string{`spec.signerName: Invalid value: "": validating label "": ` + subdomainText}},
		{"a path does not end in a hyphen", signer("example.com/signer-"), []string{`spec.signerName: Invalid value: "signer-": validating label "signer-": ` + subdomainText}},
		{"a hyphen is no path", signer("example.com/-"), []string{`spec.signerName: Invalid value: "-": validating label "-": ` + subdomainText}},
		{"only the first bad path label counts", signer("example.com/ok._.*"), []string{`spec.signerName: Invalid value: "ok._.*": validating label "_": ` + subdomainText}},
		{"a path needs no dot", signer("example.com/signer"), nil},
		{"a path may have many labels", signer("example.com/a.b.c.d"), nil},
		{"each label of a path may have 253 bytes", signer("abc.io/" + longPath), nil},
		{"a name may have 571 bytes", signer(name571), nil},
		{"a name may not have more", signer(name571 + ".toolong"), []string{`spec.signerName: Too long: may not be more than 571 bytes`}},
		{"a domain may not have more than 253 bytes", signer(domain253 + ".extra/signer"), []string{`spec.signerName: Too long: may not be more than 253 bytes`}},
		{"a domain label may not have more than 63 bytes", signer(label66 + ".com/signer"),
			[]string{`spec.signerName: Invalid value: "` + label66 + `.com": validating label "` + label66 + `": ` + label64Text}},
		{"the legacy signer is not in v1", signer("kubernetes.io/legacy-unknown"),
			[]string{`spec.signerName: Invalid value: "kubernetes.io/legacy-unknown": the legacy signerName is not allowed via this API version`}},
		{"kubernetes.io names are not checked against a list", signer("kubernetes.io/made-up"), nil},

		{"no negative durations", expires(-1), []string{`spec.expirationSeconds: Invalid value: -1: ` + durationText}},
		{"no zero durations", expires(0), []string{`spec.expirationSeconds: Invalid value: 0: ` + durationText}},
		{"a second is too short", expires(1), []string{`spec.expirationSeconds: Invalid value: 1: ` + durationText}},
		{"a minute is too short", expires(60), []string{`spec.expirationSeconds: Invalid value: 60: ` + durationText}},
		{"one second short is too short", expires(599), []string{`spec.expirationSeconds: Invalid value: 599: ` + durationText}},
		{"ten minutes are enough", expires(600), nil},
		{"there is no maximum", expires(1<<31 - 1), nil},

		{"approved is fine", conditions("Approved"), nil},
		{"denied is fine", conditions("Denied"), nil},
		{"failed is fine", conditions("Failed"), nil},
		{"approved and failed is fine", conditions("Approved", "Failed"), nil},
		{"denied and failed is fine", conditions("Denied", "Failed"), nil},
		{"approved rules denied out", conditions("Approved", "Denied"), []string{`status.conditions: Invalid value: "Denied": ` + exclusiveText}},
		{"in either order", conditions("Denied", "Approved"), []string{`status.conditions: Invalid value: "Approved": ` + exclusiveText}},
		{"every condition that completes the conflict is an error", conditions("Approved", "Denied", "Denied"), []string{
			`status.conditions: Invalid value: "Denied": ` + exclusiveText,
			`status.conditions: Invalid value: "Denied": ` + exclusiveText,
			`status.conditions[2].type: Duplicate value: "Denied"`,
		}},
		{"a condition needs a type", conditions(""), []string{`status.conditions[0].type: Required value`}},
		{"types are unique", conditions("Custom", "Custom"), []string{`status.conditions[1].type: Duplicate value: "Custom"`}},
		{"a condition needs a status", func(c *csr) { c.Status.Conditions = []condition{{Type: "Failed"}, {Type: "Custom"}} }, []string{
			`status.conditions[0].status: Required value`,
			`status.conditions[1].status: Required value`,
		}},
		{"deciding and failing conditions are true", func(c *csr) {
			c.Status.Conditions = []condition{{Type: "Approved", Status: "False"}, {Type: "Failed", Status: "Unknown"}}
		}, []string{
			`status.conditions[0].status: Unsupported value: "False": supported values: "True"`,
			`status.conditions[1].status: Unsupported value: "Unknown": supported values: "True"`,
		}},
		{"others are true, false or unknown", func(c *csr) {
			c.Status.Conditions = []condition{{Type: "A", Status: "True"}, {Type: "B", Status: "False"}, {Type: "C", Status: "Unknown"}, {Type: "D", Status: "true"}}
		}, []string{`status.conditions[3].status: Unsupported value: "true": supported values: "False", "True", "Unknown"`}},

		{"errors come in the order of the fields", func(c *csr) {
			c.Name = ""
			c.Finalizers = []string{"local"}
			c.Spec = certificatesv1.CertificateSigningRequestSpec{ExpirationSeconds: new(int32)}
			c.Status.Conditions = []condition{{Status: corev1.ConditionTrue}}
			c.Status.Certificate = []byte("text")
		}, []string{
			`metadata.name: Required value: name or generateName is required`,
			`metadata.finalizers[0]: Invalid value: "local": name is neither a standard finalizer name nor is it fully qualified`,
			`spec.request: Invalid value: null: PEM block type must be CERTIFICATE REQUEST`,
			`spec.usages: Required value`,
			`spec.signerName: Required value`,
			`spec.expirationSeconds: Invalid value: 0: ` + durationText,
			`status.conditions[0].type: Required value`,
			`status.certificate: Invalid value: "<certificate data>": must contain at least one CERTIFICATE PEM block`,
		}},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			got := texts(ValidateCSR(newCSR(t, tc.edit), certificatesv1.SchemeGroupVersion))
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
		})
	}
}

func TestValidateMetadata(t *testing.T) {
	for _, tc := range []struct {
		reason string
		edit   edit
		want   []string
	}{
		{"any name will do", func(c *csr) { c.Name = "Node: CSR ünïcode " + strings.Repeat("x", 300) }, nil},
		{"finalizers of Kubernetes itself have no domain", finalizers("kubernetes", "orphan"), nil},
		{"nor does this one", finalizers("foregroundDeletion"), nil},
		{"finalizers of others have one", finalizers("example.com/hold"), nil},
		{"without a domain they are refused", finalizers("example.com/hold", "hold"),
			[]string{`metadata.finalizers[1]: Invalid value: "hold": name is neither a standard finalizer name nor is it fully qualified`}},
		{"a request has no namespace", func(c *csr) { c.Namespace = "default" }, []string{`metadata.namespace: Forbidden: not allowed on this type`}},
		{"generations do not go backwards", func(c *csr) { c.Generation = -1 }, []string{`metadata.generation: Invalid value: -1: must be greater than or equal to 0`}},
		{"a generation is kept as sent", func(c *csr) { c.Generation = 7 }, nil},
		{"owners are complete", func(c *csr) { c.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "n"}} },
			[]string{`metadata.ownerReferences[0].uid: Required value: must not be empty`}},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			got := texts(ValidateCSR(newCSR(t, tc.edit), certificatesv1.SchemeGroupVersion))
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
		})
	}
}

func TestKnownUsagesAreSorted(t *testing.T) {
	if len(knownUsages) != 23 || !slices.IsSorted(knownUsages) {
		t.Errorf("got %d usages, sorted: %v; messages list 23 sorted ones", len(knownUsages), slices.IsSorted(knownUsages))
	}
}

// Texts of the standard library are not compared: they change with Go releases.
func TestValidateRequest(t *testing.T) {
	request := newRequest(t, pki.Subject{CommonName: "alice"})
	der := func(edit func([]byte) []byte) []byte {
		parsed, err := pki.ParseRequest(request)
		if err != nil {
			t.Fatal(err)
		}
		return block("CERTIFICATE REQUEST", edit(slices.Clone(parsed.Raw)))
	}
	for _, tc := range []struct {
		reason  string
		request []byte
		valid   bool
	}{
		{"text before the block is skipped", slices.Concat([]byte("hello\n"), request), true},
		{"everything after the block is ignored", slices.Concat(request, []byte("-----BEGIN JUNK-----\n")), true},
		{"a broken block before it is skipped", slices.Concat([]byte("-----BEGIN CERTIFICATE REQUEST-----\n*\n-----END CERTIFICATE REQUEST-----\n"), request), true},
		{"another label is refused", block("NEW CERTIFICATE REQUEST", []byte{0x30}), false},
		{"bytes after the structure are refused", der(func(b []byte) []byte { return append(b, 0) }), false},
		{"a cut structure is refused", der(func(b []byte) []byte { return b[:len(b)-1] }), false},
		{"a wrong signature is refused", der(func(b []byte) []byte { b[len(b)-1] ^= 1; return b }), false},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			errs := ValidateCSR(newCSR(t, func(c *csr) { c.Spec.Request = tc.request }), certificatesv1.SchemeGroupVersion)
			if tc.valid && len(errs) != 0 {
				t.Errorf("refused: %v", errs)
			}
			if !tc.valid && (len(errs) != 1 || errs[0].Field != "spec.request") {
				t.Errorf("want one error about spec.request, got %v", errs)
			}
		})
	}
}

// v1beta1 accepts these because that version never had the rules.
func TestValidateCSRLeniencyOfV1beta1(t *testing.T) {
	for _, tc := range []struct {
		reason string
		edit   edit
		valid  bool
	}{
		{"but not the legacy signer", signer(certificatesv1beta1.LegacyUnknownSignerName), false},
		{"unknown usages", usages("unknown"), true},
		{"duplicate usages", usages("any", "any"), true},
		{"an empty condition type", conditions(""), true},
		{"duplicate condition types", conditions("A", "A"), true},
		{"arbitrary bytes in the certificate", certificate([]byte("text")), true},
		{"but not both decisions", conditions("Approved", "Denied"), false},
		{"nor an empty list of usages", usages(), false},
		{"nor a malformed signer name", signer("nonsense"), false},
		{"nor a short duration", expires(1), false},
		{"nor a condition status that is not True", func(c *csr) { c.Status.Conditions = []condition{{Type: "Approved", Status: "False"}} }, false},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			obj := newCSR(t, tc.edit)
			if errs := ValidateCSR(obj, certificatesv1beta1.SchemeGroupVersion); (len(errs) == 0) != tc.valid {
				t.Errorf("v1beta1: %v", errs)
			}
			if errs := ValidateCSR(obj, certificatesv1.SchemeGroupVersion); len(errs) == 0 {
				t.Error("v1: want an error")
			}
		})
	}
}

// A body of three megabytes holds 700,000 wrong usages. Reporting all of them
// would take a response a hundred times as large.
func TestUsageErrorsAreBounded(t *testing.T) {
	unknown := slices.Repeat([]certificatesv1.KeyUsage{"x"}, 10*maxUsageErrors)
	known := slices.Repeat([]certificatesv1.KeyUsage{certificatesv1.UsageAny}, 10*maxUsageErrors)
	for _, usages := range [][]certificatesv1.KeyUsage{unknown, known} {
		errs := validateUsages(usages, tolerances{}, field.NewPath("spec", "usages"))
		if len(errs) != maxUsageErrors {
			t.Errorf("%d usages %q made %d errors, want %d", len(usages), usages[0], len(errs), maxUsageErrors)
		}
	}
}
