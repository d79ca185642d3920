package explain_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/certificates"
	"github.com/certplane/certplane/internal/apitest"
	verb "github.com/certplane/certplane/internal/client/cli/explain"
	"github.com/certplane/certplane/internal/client/explain"
	"github.com/certplane/certplane/internal/pki"
)

const workload = `
apiVersion: certplane.dev/v1alpha1
kind: Signer
metadata: {name: workload}
spec:
  signerName: example.com/workload
  requests: [PodCertificateRequest, CertificateSigningRequest]
  ca: {generated: {}}
  profile:
    names: {uris: 'request.kind == "PodCertificateRequest" ? ["spiffe://example.org/" + pod.metadata.name] : request.uris'}
    rules: [{expression: 'request.kind != "PodCertificateRequest" || pod.metadata.name != "evil"', message: not for evil pods, reason: Evil}]
    usages: [digital signature, client auth]
    lifetime: {maximum: 36h, default: 24h}
`

// explains runs a verb and returns the output for machines, or for people.
func explains(t *testing.T, who *rest.Config, run func(*verb.Config) error, name, output string) []byte {
	t.Helper()
	var out bytes.Buffer
	err := run(&verb.Config{
		Name: name, Namespace: "default", Output: output, Now: time.Now, Stdout: &out, Kubectl: []string{"kubectl"},
		Connect: func() (explain.Reader, error) { return explain.Connect(who) },
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func signerOf(t *testing.T, who *rest.Config, name, output string) []byte {
	t.Helper()
	return explains(t, who, func(cfg *verb.Config) error { return verb.Signer(t.Context(), *cfg) }, name, output)
}

func podOf(t *testing.T, who *rest.Config, name string) explain.PodExplanation {
	t.Helper()
	data := explains(t, who, func(cfg *verb.Config) error { return verb.PodCertificateRequest(t.Context(), *cfg) }, name, "json")
	var e explain.PodExplanation
	if err := json.Unmarshal(data, &e); err != nil {
		t.Fatal(err)
	}
	return e
}

func declareSigner(t *testing.T, s *apitest.Server, text string) {
	t.Helper()
	client, err := dynamic.NewForConfig(s.Admin(t))
	if err != nil {
		t.Fatal(err)
	}
	signer := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &signer.Object); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Resource(v1alpha1.GroupVersion.WithResource("signers")).Create(t.Context(), signer, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func TestSigner(t *testing.T) {
	s := apitest.Start(t)
	declareSigner(t, s, workload)
	csr := apitest.NewCSR(t, "host", "example.com/workload", pki.Subject{CommonName: "host"}, apitest.NewKey(t))
	apitest.Create(t, apitest.Client(t, s.Admin(t)), csr)
	var e explain.SignerExplanation
	apitest.Eventually(t, "the Signer is ready", func() bool {
		e = explain.SignerExplanation{}
		if err := json.Unmarshal(signerOf(t, s.Admin(t), "workload", "json"), &e); err != nil {
			t.Fatal(err)
		}
		return e.Ready == explain.Yes
	})
	if e.Verdict != "workload signs for example.com/workload" || len(e.Statements) != 7 || e.CA == nil || e.CA.Fingerprint == "" {
		t.Errorf("got %+v", e)
	}
	if len(e.Waiting) != 1 || e.Waiting[0].Name != "host" || e.Waiting[0].State != "Pending" {
		t.Errorf("waiting: %+v", e.Waiting)
	}
	text := string(signerOf(t, s.Admin(t), "workload", ""))
	for _, want := range []string{
		"published as ClusterTrustBundles with spec.signerName=example.com/workload", "only if request.kind != ",
		"digital signature, client auth; keys: RSA3072, RSA4096, ECDSAP256, ECDSAP384, ECDSAP521, ED25519", "at most 1d12h, 1d if a request names none, starting 2m before the signature; pods refresh after 66% of it, plus or minus 10%",
		"never set; requests for it are denied", "nearest first, without the root", "requests for others are denied",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in:\n%s", want, text)
		}
	}
	asked := explainAs(t, s.Admin(t), "host")
	if c := check(t, asked, "profile"); c.Result != explain.No || !strings.Contains(c.Message, `asks for the subject "CN=host"`) {
		t.Errorf("profile of the CertificateSigningRequest: %+v", c)
	}
	if c := check(t, asked, "signer"); !strings.Contains(c.Message, "kube-system/declared-signer") {
		t.Errorf("signer: %s", c.Message)
	}
	testSignerNames(t, s)
	// A user who may not list Signers gets that answer, and not that the signer
	// is unknown.
	s.Grant(t, "approver", apitest.Allow("get", "certificatesigningrequests"))
	if c := check(t, explainAs(t, s.As(t, "approver"), "host"), "profile"); c.Result != explain.Unknown || c.Message != "you may not list signers.certplane.dev, one of which may declare the requirements of example.com/workload" {
		t.Errorf("profile to who may not list Signers: %+v", c)
	}
	// A user who may not list requests gets that answer.
	s.Grant(t, "reader", rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{"certplane.dev"}, Resources: []string{"signers"}})
	if err := json.Unmarshal(signerOf(t, s.As(t, "reader"), "workload", "json"), &e); err != nil || len(e.Unknown) != 2 {
		t.Errorf("unknown: %v, %v", e.Unknown, err)
	}
}

// testSignerNames checks that signers are explained by their names, with and
// without an object that declares them.
func testSignerNames(t *testing.T, s *apitest.Server) {
	for _, tc := range []struct {
		name       string
		ready      explain.Result
		verdict    string
		statements int
	}{
		{"example.com/workload", explain.Yes, "workload signs for example.com/workload", 7},
		{"kubernetes.io/kubelet-serving", explain.Unknown, "kubernetes.io/kubelet-serving is a signer of Kubernetes; may sign, where they run: kube-system/csr-signer", 7},
		{"example.com/nobody", explain.No, "example.com/nobody is declared by no Signer; no service account of certplane or Kubernetes may sign for it: another program must sign", 0},
		{"issuers.cert-manager.io/default.none", explain.No, `issuers.cert-manager.io/default.none is Issuer none in the namespace default: Referenced "Issuer" not found`, 0},
		{"issuers.cert-manager.io/none", explain.No, "no signer has the name issuers.cert-manager.io/none: issuers have names of the form issuers.cert-manager.io/<namespace>.<name>", 0},
	} {
		var e explain.SignerExplanation
		if err := json.Unmarshal(signerOf(t, s.Admin(t), tc.name, "json"), &e); err != nil {
			t.Fatal(err)
		}
		if e.Ready != tc.ready || !strings.HasPrefix(e.Verdict, tc.verdict) || len(e.Statements) != tc.statements || e.SignerName != tc.name {
			t.Errorf("%s: %+v", tc.name, e)
		}
		if declared := e.Name != ""; (e.Issued != nil) != declared {
			t.Errorf("%s: issued %v", tc.name, e.Issued)
		}
	}
}

// The explanation and the controller say the same about a pod's request.
func TestPodCertificateRequest(t *testing.T) {
	s := apitest.Start(t)
	declareSigner(t, s, workload)
	client := apitest.Client(t, s.Admin(t))
	send := func(pod, signer string) *certificatesv1beta1.PodCertificateRequest {
		t.Helper()
		bound := apitest.NewBoundPod(t, client, "default", pod, "node-1", apitest.PodSource(signer))
		request, err := client.CertificatesV1beta1().PodCertificateRequests("default").Create(t.Context(), bound.Request(t, 0, apitest.NewKey(t)), metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return request
	}
	result := func(e explain.PodExplanation, name string) explain.Check {
		t.Helper()
		for _, c := range e.Checks {
			if c.Name == name {
				return c
			}
		}
		t.Fatalf("there is no check %s in %+v", name, e.Checks)
		return explain.Check{}
	}
	reach := func(name string, state certificates.State) (e explain.PodExplanation) {
		t.Helper()
		apitest.Eventually(t, name+" is "+string(state), func() bool {
			e = podOf(t, s.Admin(t), name)
			return e.State == state
		})
		return e
	}

	issued := reach(send("web", "example.com/workload").Name, certificates.Issued)
	if issued.Certificate == nil || issued.RefreshAt == nil || !strings.Contains(issued.Verdict, "is issued: its certificate is valid until ") {
		t.Errorf("got %+v", issued)
	}
	for _, name := range []string{"request", "signer", "pod", "profile", "signing"} {
		if c := result(issued, name); c.Result != explain.Yes {
			t.Errorf("%+v", c)
		}
	}
	if c := result(issued, "profile"); c.Message != "grants a certificate for spiffe://example.org/web, valid for 1d" {
		t.Errorf("profile: %s", c.Message)
	}

	denied := reach(send("evil", "example.com/workload").Name, certificates.Denied)
	if c := result(denied, "profile"); c.Result != explain.No || c.Message != "not for evil pods (Evil, spec.profile.rules[0] of the Signer)" || !strings.Contains(denied.Verdict, "not for evil pods") {
		t.Errorf("%+v, %s", c, denied.Verdict)
	}

	waiting := podOf(t, s.Admin(t), send("lost", "example.com/nobody").Name)
	if c := result(waiting, "signer"); c.Result != explain.No || waiting.State != certificates.Pending || len(waiting.Next) == 0 {
		t.Errorf("%+v, %+v", c, waiting)
	}
	s.Grant(t, "reader", apitest.Allow("get", "podcertificaterequests"))
	blind := podOf(t, s.As(t, "reader"), denied.Name)
	if blind.State != certificates.Denied || result(blind, "signer").Result != explain.Unknown || result(blind, "pod").Result != explain.Unknown {
		t.Errorf("who may see nothing else sees %+v", blind.Checks)
	}
}
