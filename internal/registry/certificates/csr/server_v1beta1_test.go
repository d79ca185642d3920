package csr_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	betaapi "k8s.io/api/certificates/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/certplane/certplane/internal/pki"
)

// The deprecated version has defaults, and rules as of before v1.
func TestServerV1beta1(t *testing.T) {
	t.Parallel()
	w := start(t)
	t.Run("defaults", w.testDefaults)
	t.Run("kubelets", w.testKubeletDefaults)
	t.Run("leniency of create", w.testBetaCreate)
	t.Run("leniency of status", w.testBetaStatus)
	t.Run("conditions of status", w.testBetaStatusConditions)
	t.Run("approval", w.testBetaApproval)
	t.Run("both versions show one object", w.testBothVersions)
}

type betaEdit = func(*betaapi.CertificateSigningRequest)

func newBeta(t testing.TB, name string, edits ...betaEdit) *betaapi.CertificateSigningRequest {
	t.Helper()
	obj := &betaapi.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       betaapi.CertificateSigningRequestSpec{Request: newRequest(t, pki.Subject{CommonName: "alice"})},
	}
	for _, edit := range edits {
		edit(obj)
	}
	return obj
}

func (w world) createBeta(t testing.TB, obj *betaapi.CertificateSigningRequest) (*betaapi.CertificateSigningRequest, error) {
	t.Helper()
	return w.admin.CertificatesV1beta1().CertificateSigningRequests().Create(bounded(t), obj, metav1.CreateOptions{})
}

// putBeta updates a request through an endpoint of v1beta1.
func (w world) putBeta(t testing.TB, via endpoint, obj *betaapi.CertificateSigningRequest) (*betaapi.CertificateSigningRequest, error) {
	t.Helper()
	out := &betaapi.CertificateSigningRequest{}
	request := w.admin.CertificatesV1beta1().RESTClient().Put().Resource("certificatesigningrequests").Name(obj.Name).Body(obj)
	if via != mainEndpoint {
		request = request.SubResource(string(via))
	}
	return out, request.Do(bounded(t)).Into(out)
}

func (w world) getBeta(t testing.TB, name string) *betaapi.CertificateSigningRequest {
	t.Helper()
	obj, err := w.admin.CertificatesV1beta1().CertificateSigningRequests().Get(bounded(t), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return obj
}

func betaUsages(usages ...betaapi.KeyUsage) betaEdit {
	return func(c *betaapi.CertificateSigningRequest) { c.Spec.Usages = usages }
}

func betaSigner(name string) betaEdit {
	return func(c *betaapi.CertificateSigningRequest) { c.Spec.SignerName = &name }
}

func subject(subject pki.Subject, t testing.TB) betaEdit {
	return func(c *betaapi.CertificateSigningRequest) { c.Spec.Request = newRequest(t, subject) }
}

func (w world) testDefaults(t *testing.T) {
	const legacy = "kubernetes.io/legacy-unknown"
	both := []betaapi.KeyUsage{"digital signature", "key encipherment"}
	for _, tc := range []struct {
		reason string
		edits  []betaEdit
		usages []betaapi.KeyUsage
		signer string
		want   string // the error
	}{
		{"everything left out", nil, both, legacy, ""},
		{"a signer", []betaEdit{betaSigner("example.com/a")}, both, "example.com/a", ""},
		{"usages", []betaEdit{betaUsages("any")}, []betaapi.KeyUsage{"any"}, legacy, ""},
		{"an empty signer is not left out", []betaEdit{betaSigner("")}, nil, "", "spec.signerName: Required value"},
		{"the request is what it is", []betaEdit{func(c *betaapi.CertificateSigningRequest) { c.Spec.Request = []byte("junk") }}, nil, "",
			`spec.request: Invalid value: "anVuaw==": PEM block type must be CERTIFICATE REQUEST`},
	} {
		name := strings.ReplaceAll(tc.reason, " ", "-")
		got, err := w.createBeta(t, newBeta(t, name, tc.edits...))
		if tc.want != "" {
			checkError(t, err, invalid(name, tc.want))
			continue
		}
		checkError(t, err, "")
		if diff := cmp.Diff(tc.usages, got.Spec.Usages); diff != "" || ptr.Deref(got.Spec.SignerName, "") != tc.signer {
			t.Errorf("%s: signer %v, usages (-want +got):\n%s", tc.reason, got.Spec.SignerName, diff)
		}
	}
	body := `{"apiVersion":"certificates.k8s.io/v1beta1","kind":"CertificateSigningRequest","metadata":{"name":"empty"},"spec":{"signerName":"a.b/c","usages":[]}}`
	got := w.call(t, call{method: http.MethodPost, path: v1beta1, contentType: "application/json", body: []byte(body)})
	if !strings.Contains(string(got.body), "spec.usages: Required value") {
		t.Errorf("an empty list of usages is not left out: %s", got.body)
	}
}

// The requests of kubelets find their signers by their shape.
func (w world) testKubeletDefaults(t *testing.T) {
	node := pki.Subject{CommonName: "system:node:a", Organizations: []string{"system:nodes"}}
	serving := node
	serving.DNSNames = []string{"a"}
	for _, tc := range []struct {
		name   string
		edits  []betaEdit
		signer string
	}{
		{"client", []betaEdit{subject(node, t), betaUsages("digital signature", "client auth")}, "kubernetes.io/kube-apiserver-client-kubelet"},
		{"client-with-encipherment", []betaEdit{subject(node, t), betaUsages("client auth", "key encipherment", "digital signature")}, "kubernetes.io/kube-apiserver-client-kubelet"},
		{"serving", []betaEdit{subject(serving, t), betaUsages("server auth", "digital signature")}, "kubernetes.io/kubelet-serving"},
		{"serving-without-names", []betaEdit{subject(node, t), betaUsages("server auth", "digital signature")}, "kubernetes.io/legacy-unknown"},
		{"client-with-names", []betaEdit{subject(serving, t), betaUsages("client auth", "digital signature")}, "kubernetes.io/legacy-unknown"},
		{"no-usages", []betaEdit{subject(node, t)}, "kubernetes.io/legacy-unknown"},
	} {
		got, err := w.createBeta(t, newBeta(t, tc.name, tc.edits...))
		checkError(t, err, "")
		if signer := ptr.Deref(got.Spec.SignerName, ""); signer != tc.signer {
			t.Errorf("%s: signer is %q, want %q", tc.name, signer, tc.signer)
		}
	}
}

func (w world) testBetaCreate(t *testing.T) {
	for name, edit := range map[string]betaEdit{
		"legacy-signer":    betaSigner("kubernetes.io/legacy-unknown"),
		"unknown-usages":   betaUsages("unknown"),
		"duplicate-usages": betaUsages("any", "any"),
	} {
		got, err := w.createBeta(t, newBeta(t, name, edit))
		checkError(t, err, "")
		if got.Spec.Username == "" {
			t.Errorf("%s: nobody asked", name)
		}
		w.mustPut(t, mainEndpoint, changed(w.get(t, name), labels("a", "b"))) // v1 lives with it
	}
	_, err := w.createBeta(t, newBeta(t, "malformed", betaSigner("malformed")))
	checkError(t, err, invalid("malformed", `spec.signerName: Invalid value: "malformed": must be a fully qualified domain and path of the form 'example.com/signer-name'`))
}

func (w world) testBetaStatus(t *testing.T) {
	for name, change := range map[string]betaEdit{
		"text":              func(c *betaapi.CertificateSigningRequest) { c.Status.Certificate = []byte("text") },
		"other-certificate": func(c *betaapi.CertificateSigningRequest) { c.Status.Certificate = chain(t) },
		"empty-type": func(c *betaapi.CertificateSigningRequest) {
			c.Status.Conditions = []betaapi.CertificateSigningRequestCondition{{}}
		},
		"same-types": func(c *betaapi.CertificateSigningRequest) {
			c.Status.Conditions = []betaapi.CertificateSigningRequestCondition{{Type: "A"}, {Type: "A"}}
		},
	} {
		w.plant(t, name, certificate(chain(t)))
		obj := w.getBeta(t, name)
		change(obj)
		got, err := w.putBeta(t, statusEndpoint, obj)
		checkError(t, err, "")
		if string(got.Status.Certificate) != string(obj.Status.Certificate) || len(got.Status.Conditions) != len(obj.Status.Conditions) {
			t.Errorf("%s: status is %v", name, got.Status)
		}
	}
}

// A decision that comes or goes takes all other conditions with it: none is
// stored, and nothing is said.
func (w world) testBetaStatusConditions(t *testing.T) {
	conditions := func(types ...betaapi.RequestConditionType) []betaapi.CertificateSigningRequestCondition {
		var conditions []betaapi.CertificateSigningRequestCondition
		for _, t := range types {
			conditions = append(conditions, betaapi.CertificateSigningRequestCondition{Type: t})
		}
		return conditions
	}
	for i, tc := range []struct {
		reason string
		stored edit
		sent   []betaapi.CertificateSigningRequestCondition
		want   string
	}{
		{"a decision comes", timed("", "A"), conditions("A", "Approved", "Failed"), "A"},
		{"a decision goes", timed("", "Approved"), conditions("Failed"), "Approved"},
		{"a decision stays", timed("", "Approved"), conditions("Failed", "Approved"), "Failed Approved"},
		{"others come", timed("", "A"), conditions("B", "Failed"), "B Failed"},
	} {
		name := "beta-" + string(rune('a'+i))
		w.plant(t, name, tc.stored)
		obj := w.getBeta(t, name)
		obj.Status.Conditions = tc.sent
		_, err := w.putBeta(t, statusEndpoint, obj)
		checkError(t, err, "")
		if got := typesOf(w.get(t, name)); got != tc.want {
			t.Errorf("%s: conditions are %q, want %q", tc.reason, got, tc.want)
		}
	}
	w.plant(t, "beta-failed", timed("", "Failed"))
	obj := w.getBeta(t, "beta-failed")
	obj.Status.Conditions = nil
	_, err := w.putBeta(t, statusEndpoint, obj)
	checkError(t, err, invalid("beta-failed", may("remove", "Failed")))
}

// A condition without a status is true; contradictions are refused as in v1.
func (w world) testBetaApproval(t *testing.T) {
	_, err := w.createBeta(t, newBeta(t, "beta-approval"))
	checkError(t, err, "")
	obj := w.getBeta(t, "beta-approval")
	obj.Status.Certificate = []byte("text")
	obj.Status.Conditions = []betaapi.CertificateSigningRequestCondition{{Type: "Approved"}, {Type: "Denied"}}
	_, err = w.putBeta(t, approvalEndpoint, obj)
	checkError(t, err, invalid("beta-approval", `status.conditions: Invalid value: "Denied": Approved and Denied conditions are mutually exclusive`))
	obj.Status.Conditions = obj.Status.Conditions[:1]
	got, err := w.putBeta(t, approvalEndpoint, obj)
	checkError(t, err, "")
	if len(got.Status.Conditions) != 1 || got.Status.Conditions[0].Status != "True" || got.Status.Conditions[0].LastUpdateTime.IsZero() || got.Status.Certificate != nil {
		t.Errorf("status is %v", got.Status)
	}
	obj = got.DeepCopy()
	obj.Spec, obj.Labels = betaapi.CertificateSigningRequestSpec{}, map[string]string{"a": "b"}
	main, err := w.putBeta(t, mainEndpoint, obj)
	checkError(t, err, "")
	if diff := cmp.Diff(got.Spec, main.Spec); diff != "" || main.Labels["a"] != "b" {
		t.Errorf("labels %v, spec (-want +got):\n%s", main.Labels, diff)
	}
}

func (w world) testBothVersions(t *testing.T) {
	v1 := w.plant(t, "both", timed("r", "Approved", "Failed"), certificate(chain(t)), expires(3600), func(c *csr) {
		c.Spec.Username, c.Spec.UID, c.Spec.Groups = "alice", "1", []string{"team"}
	})
	beta := w.getBeta(t, "both")
	if beta.UID != v1.UID || beta.ResourceVersion != v1.ResourceVersion || *beta.Spec.SignerName != v1.Spec.SignerName ||
		*beta.Spec.ExpirationSeconds != 3600 || beta.Spec.Username != "alice" || string(beta.Status.Certificate) != string(v1.Status.Certificate) ||
		len(beta.Status.Conditions) != 2 || beta.Status.Conditions[1].Reason != "r" {
		t.Errorf("v1 %v\nv1beta1 %v", v1, beta)
	}
	event := w.firstEvent(t, v1beta1+"?watch=1&fieldSelector=metadata.name%3Dboth", "application/json")
	if !strings.Contains(string(event.body), `{"type":"ADDED","object":{"kind":"CertificateSigningRequest","apiVersion":"certificates.k8s.io/v1beta1"`) {
		t.Errorf("watch: %s", event.body)
	}
}
