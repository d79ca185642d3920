package csr_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestServerValidation(t *testing.T) {
	t.Parallel()
	w := start(t)
	t.Run("envelope", w.testEnvelope)
	t.Run("request", w.testRequestRules)
	t.Run("usages", w.testUsageRules)
	t.Run("signer name", w.testSignerNameRules)
	t.Run("duration", w.testDurationRules)
	t.Run("order", w.testErrorOrder)
}

const knownUsages = `supported values: "any", "cert sign", "client auth", "code signing", "content commitment", "crl sign", ` +
	`"data encipherment", "decipher only", "digital signature", "email protection", "encipher only", "ipsec end system", ` +
	`"ipsec tunnel", "ipsec user", "key agreement", "key encipherment", "microsoft sgc", "netscape sgc", "ocsp signing", ` +
	`"s/mime", "server auth", "signing", "timestamping"`

func causesOf(t testing.TB, err error) []metav1.StatusCause {
	t.Helper()
	status := statusOf(t, err)
	if status.Details == nil {
		return nil
	}
	return status.Details.Causes
}

func required(path string) metav1.StatusCause {
	return metav1.StatusCause{Type: metav1.CauseTypeFieldValueRequired, Field: path, Message: "Required value"}
}

func wrong(path, value, detail string) metav1.StatusCause {
	return metav1.StatusCause{Type: metav1.CauseTypeFieldValueInvalid, Field: path, Message: "Invalid value: " + value + ": " + detail}
}

func duplicate(path, value string) metav1.StatusCause {
	return metav1.StatusCause{Type: metav1.CauseTypeFieldValueDuplicate, Field: path, Message: "Duplicate value: " + value}
}

func notSupported(path, value, detail string) metav1.StatusCause {
	return metav1.StatusCause{Type: metav1.CauseTypeFieldValueNotSupported, Field: path, Message: "Unsupported value: " + value + ": " + detail}
}

func tooLong(path string, limit int) metav1.StatusCause {
	return metav1.StatusCause{Type: metav1.CauseType(field.ErrorTypeTooLong), Field: path,
		Message: fmt.Sprintf("Too long: may not be more than %d bytes", limit)}
}

// checkCreate sends obj as a dry run, so that nothing is stored, and compares
// the causes of the refusal; no causes means success.
func (w world) checkCreate(t *testing.T, obj *csr, want []metav1.StatusCause) {
	t.Helper()
	_, err := w.csrs().Create(bounded(t), obj, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil && len(want) == 0 {
		t.Errorf("refused: %v", err)
		return
	}
	if diff := cmp.Diff(want, causesOf(t, err)); diff != "" {
		t.Errorf("causes (-want +got):\n%s", diff)
	}
	if len(want) == 0 {
		return
	}
	checkError(t, err, invalid(obj.Name, sentence(want)))
}

// sentence returns the text of an aggregate of errors, which omits repetitions.
func sentence(causes []metav1.StatusCause) string {
	var texts []string
	for _, cause := range causes {
		if text := cause.Field + ": " + cause.Message; !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	if len(texts) == 1 {
		return texts[0]
	}
	return "[" + strings.Join(texts, ", ") + "]"
}

// The whole response to an invalid request.
func (w world) testEnvelope(t *testing.T) {
	body := `{"apiVersion":"certificates.k8s.io/v1","kind":"CertificateSigningRequest","metadata":{"name":"bad"},"spec":{"signerName":"a"}}`
	got := w.call(t, call{method: http.MethodPost, path: v1Path, contentType: "application/json", body: []byte(body)})
	if got.code != http.StatusUnprocessableEntity {
		t.Fatalf("code %d: %s", got.code, got.body)
	}
	want := metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure,
		Message: `CertificateSigningRequest.certificates.k8s.io "bad" is invalid: [` +
			`spec.request: Invalid value: null: PEM block type must be CERTIFICATE REQUEST, spec.usages: Required value, ` +
			`spec.signerName: Invalid value: "a": must be a fully qualified domain and path of the form 'example.com/signer-name']`,
		Reason: metav1.StatusReasonInvalid,
		Code:   422,
		Details: &metav1.StatusDetails{Name: "bad", Group: "certificates.k8s.io", Kind: "CertificateSigningRequest", Causes: []metav1.StatusCause{
			wrong("spec.request", "null", "PEM block type must be CERTIFICATE REQUEST"),
			required("spec.usages"),
			wrong("spec.signerName", `"a"`, "must be a fully qualified domain and path of the form 'example.com/signer-name'"),
		}},
	}
	var status metav1.Status
	if err := json.Unmarshal(got.body, &status); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, status); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
}

func (w world) testRequestRules(t *testing.T) {
	good := newCSR(t, "test").Spec.Request
	decoded, _ := pem.Decode(good)
	der := decoded.Bytes
	badSignature := bytes.Clone(der)
	badSignature[len(badSignature)-1] ^= 1
	relabelled := func(label string) []byte { return block(label, der) }
	withHeaders := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Headers: map[string]string{"A": "b"}, Bytes: der})
	const label = "PEM block type must be CERTIFICATE REQUEST"

	for _, tc := range []struct {
		reason  string
		request []byte
		want    string // the detail, or "" for success
	}{
		{"the request alone", good, ""},
		{"text and other blocks around it", slices.Concat([]byte("text\n"), good, []byte("text\n"), relabelled("OTHER")), ""},
		{"a broken block before it", slices.Concat([]byte("-----BEGIN X-----\n*\n-----END X-----\n"), good), ""},
		{"headers", withHeaders, ""},
		{"nothing", nil, label},
		{"garbage", []byte("garbage"), label},
		{"DER", der, label},
		{"base64 of base64", []byte(base64.StdEncoding.EncodeToString(good)), label},
		{"another block first", slices.Concat(relabelled("OTHER"), good), label},
		{"the old label", relabelled("NEW CERTIFICATE REQUEST"), label},
		{"a certificate", block("CERTIFICATE", newCertificate(t, 1)), label},
		{"not PKCS#10", block("CERTIFICATE REQUEST", []byte("junk")), "asn1: structure error: tags don't match (16 vs {class:1 tag:10 length:117 isCompound:true}) {optional:false explicit:false application:false private:false defaultValue:<nil> tag:<nil> stringType:0 timeType:0 set:false omitEmpty:false} certificateRequest @2"},
		{"trailing bytes", block("CERTIFICATE REQUEST", append(bytes.Clone(der), 0)), "asn1: syntax error: trailing data"},
		{"a signature of somebody else", block("CERTIFICATE REQUEST", badSignature), "x509: ECDSA verification failure"},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			obj := newCSR(t, "test", func(c *csr) { c.Spec.Request = tc.request })
			var want []metav1.StatusCause
			if tc.want != "" {
				value, err := json.Marshal(tc.request) // base64, or null
				if err != nil {
					t.Fatal(err)
				}
				want = []metav1.StatusCause{wrong("spec.request", string(value), tc.want)}
			}
			w.checkCreate(t, obj, want)
		})
	}
}

func (w world) testUsageRules(t *testing.T) {
	known := strings.Split(strings.ReplaceAll(strings.TrimPrefix(knownUsages, "supported values: "), `"`, ""), ", ")
	var all []certificatesv1.KeyUsage
	for _, name := range known {
		all = append(all, certificatesv1.KeyUsage(name))
	}
	if len(all) != 23 {
		t.Fatalf("%d known usages", len(all))
	}
	for _, tc := range []struct {
		reason string
		sent   []certificatesv1.KeyUsage
		want   []metav1.StatusCause
	}{
		{"every one", all, nil},
		{"none", nil, []metav1.StatusCause{required("spec.usages")}},
		{"an empty list", []certificatesv1.KeyUsage{}, []metav1.StatusCause{required("spec.usages")}},
		{"case matters", []certificatesv1.KeyUsage{"Any"}, []metav1.StatusCause{notSupported("spec.usages[0]", `"Any"`, knownUsages)}},
		{"the same twice", []certificatesv1.KeyUsage{"any", "signing", "any"}, []metav1.StatusCause{duplicate("spec.usages[2]", `"any"`)}},
		{"all unknown ones come first", []certificatesv1.KeyUsage{"unknown", "unknown"}, []metav1.StatusCause{
			notSupported("spec.usages[0]", `"unknown"`, knownUsages),
			notSupported("spec.usages[1]", `"unknown"`, knownUsages),
			duplicate("spec.usages[1]", `"unknown"`),
		}},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			w.checkCreate(t, newCSR(t, "test", usages(tc.sent...)), tc.want)
		})
	}
}

func (w world) testSignerNameRules(t *testing.T) {
	const (
		path      = "spec.signerName"
		form      = "must be a fully qualified domain and path of the form 'example.com/signer-name'"
		segments  = "should be a domain with at least two segments separated by dots"
		legacy    = "the legacy signerName is not allowed via this API version"
		dnsLabel  = `a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')`
		subdomain = `a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`
	)
	quoted := func(s string) string { return `"` + s + `"` }
	long := func(n int) string { return strings.Repeat("a", n) }
	domain253 := strings.Repeat(long(62)+".", 4) + "a" // 4 labels of 62, 1 of 1
	full571 := domain253 + "/" + long(63) + "." + long(253)

	for _, tc := range []struct {
		reason, name string
		want         []metav1.StatusCause
	}{
		{"plain", "example.com/signer", nil},
		{"reserved by convention only", "kubernetes.io/anything", nil},
		{"many path labels", "example.com/a.b.c.d-e", nil},
		{"a long path", "abc.io/" + long(253) + "." + long(253), nil},
		{"as long as can be", full571, nil},
		{"none", "", []metav1.StatusCause{required(path)}},
		{"legacy", "kubernetes.io/legacy-unknown", []metav1.StatusCause{wrong(path, `"kubernetes.io/legacy-unknown"`, legacy)}},
		{"no slash", "example.com", []metav1.StatusCause{wrong(path, `"example.com"`, form)}},
		{"two slashes", "example.com/a/b", []metav1.StatusCause{wrong(path, `"example.com/a/b"`, form)}},
		{"one domain label", "example/a", []metav1.StatusCause{wrong(path, `"example"`, segments)}},
		{"no path", "example.com/", []metav1.StatusCause{wrong(path, `""`, `validating label "": `+subdomain)}},
		{"a path that ends in a hyphen", "example.com/a-", []metav1.StatusCause{wrong(path, `"a-"`, `validating label "a-": `+subdomain)}},
		{"a path of a hyphen", "example.com/-", []metav1.StatusCause{wrong(path, `"-"`, `validating label "-": `+subdomain)}},
		{"only the first bad path label", "example.com/A.B", []metav1.StatusCause{wrong(path, `"A.B"`, `validating label "A": `+subdomain)}},
		{"a wildcard", "*.example.com/a", []metav1.StatusCause{wrong(path, `"*.example.com"`, `validating label "*": `+dnsLabel)}},
		{"upper case", "Example.com/a", []metav1.StatusCause{wrong(path, `"Example.com"`, `validating label "Example": `+dnsLabel)}},
		{"a long domain label", long(66) + ".com/a", []metav1.StatusCause{
			wrong(path, quoted(long(66)+".com"), `validating label `+quoted(long(66))+`: must be no more than 63 characters`)}},
		{"a long domain", domain253 + ".extra/a", []metav1.StatusCause{tooLong(path, 253)}},
		{"longer than can be", full571 + ".toolong", []metav1.StatusCause{tooLong(path, 571)}},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			w.checkCreate(t, newCSR(t, "test", signer(tc.name)), tc.want)
		})
	}
}

func (w world) testDurationRules(t *testing.T) {
	for seconds, refused := range map[int32]bool{-2147483648: true, -1: true, 0: true, 1: true, 60: true, 599: true, 600: false, 2147483647: false} {
		var want []metav1.StatusCause
		if refused {
			want = []metav1.StatusCause{wrong("spec.expirationSeconds", fmt.Sprint(seconds), "may not specify a duration less than 600 seconds (10 minutes)")}
		}
		w.checkCreate(t, newCSR(t, "test", expires(seconds)), want)
	}
	body := `{"apiVersion":"certificates.k8s.io/v1","kind":"CertificateSigningRequest","metadata":{"name":"x"},"spec":{"expirationSeconds":2147483648}}`
	got := w.call(t, call{method: http.MethodPost, path: v1Path, contentType: "application/json", body: []byte(body)})
	if got.code != http.StatusBadRequest || !strings.Contains(string(got.body), "expirationSeconds") {
		t.Errorf("more than an int32: %d %s", got.code, got.body)
	}
}

// Errors are reported in the order of the object's fields.
func (w world) testErrorOrder(t *testing.T) {
	obj := newCSR(t, "test", finalizers("hold"), usages("unknown", "unknown"), signer("a"), expires(1), func(c *csr) {
		c.Spec.Request = nil
	})
	w.checkCreate(t, obj, []metav1.StatusCause{
		wrong("metadata.finalizers[0]", `"hold"`, "name is neither a standard finalizer name nor is it fully qualified"),
		wrong("spec.request", "null", "PEM block type must be CERTIFICATE REQUEST"),
		notSupported("spec.usages[0]", `"unknown"`, knownUsages),
		notSupported("spec.usages[1]", `"unknown"`, knownUsages),
		duplicate("spec.usages[1]", `"unknown"`),
		wrong("spec.signerName", `"a"`, "must be a fully qualified domain and path of the form 'example.com/signer-name'"),
		wrong("spec.expirationSeconds", "1", "may not specify a duration less than 600 seconds (10 minutes)"),
	})
}
