package explain_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	api "github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/client/cli/exit"
	verb "github.com/certplane/certplane/internal/client/cli/explain"
	"github.com/certplane/certplane/internal/client/explain"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/run/server"
)

// issuing is a server with issuers.
type issuing struct {
	*apitest.Server
	admin client.Client
}

func startIssuing(t *testing.T, options ...func(*server.Config)) issuing {
	t.Helper()
	w := issuing{Server: apitest.Start(t, options...)}
	kinds := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, api.AddToScheme} {
		if err := add(kinds); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	if w.admin, err = client.New(w.Admin(t), client.Options{Scheme: kinds}); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w issuing) create(t *testing.T, objects ...client.Object) {
	t.Helper()
	for _, o := range objects {
		if err := w.admin.Create(t.Context(), o); err != nil {
			t.Fatalf("creating %T %s: %v", o, o.GetName(), err)
		}
	}
}

func named(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "default", Name: name}
}

func newIssuer(name string, config cmv1.IssuerConfig) *cmv1.Issuer {
	return &cmv1.Issuer{ObjectMeta: named(name), Spec: cmv1.IssuerSpec{IssuerConfig: config}}
}

// request creates a CertificateRequest, whose key is in a Secret if one is
// named.
func (w issuing) request(t *testing.T, name string, ref cmmeta.IssuerReference, secret ...string) *cmv1.CertificateRequest {
	t.Helper()
	pem, err := pki.NewRequest(pki.Subject{CommonName: name}, apitest.NewKey(t))
	if err != nil {
		t.Fatal(err)
	}
	cr := &cmv1.CertificateRequest{ObjectMeta: named(name), Spec: cmv1.CertificateRequestSpec{IssuerRef: ref, Request: pem}}
	for _, name := range secret {
		metav1.SetMetaDataAnnotation(&cr.ObjectMeta, cmv1.CertificateRequestPrivateKeyAnnotationKey, name)
	}
	w.create(t, cr)
	return cr
}

// set sets a condition of a request.
func (w issuing) set(t *testing.T, cr *cmv1.CertificateRequest, kind cmv1.CertificateRequestConditionType, message string) {
	t.Helper()
	apitest.Eventually(t, string(kind)+" is set", func() bool {
		if err := w.admin.Get(t.Context(), client.ObjectKeyFromObject(cr), cr); err != nil {
			t.Fatal(err)
		}
		api.SetRequestCondition(cr, kind, cmmeta.ConditionTrue, "Test", message, metav1.Now())
		return w.admin.Status().Update(t.Context(), cr) == nil
	})
}

// ask returns the explanation for machines, and the text for people.
func ask[T any](t *testing.T, run func(context.Context, verb.Config) error, who *rest.Config, name string, now time.Time) (T, string) {
	t.Helper()
	var texts [2]bytes.Buffer
	for i, output := range []string{"json", ""} {
		err := run(t.Context(), verb.Config{
			Namespace: "default", Name: name, Output: output, Now: func() time.Time { return now }, Stdout: &texts[i],
			Kubectl: []string{"certplane", "kubectl"}, Flags: []string{"--context", "c"},
			Connect: func() (explain.Reader, error) { return explain.Connect(who) },
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	var e T
	if err := json.Unmarshal(texts[0].Bytes(), &e); err != nil {
		t.Fatalf("%v in:\n%s", err, texts[0].Bytes())
	}
	return e, texts[1].String()
}

func (w issuing) explain(t *testing.T, name string) (explain.RequestExplanation, string) {
	t.Helper()
	return ask[explain.RequestExplanation](t, verb.CertificateRequest, w.Admin(t), name, time.Now())
}

// becomes waits until the verdict about a request, without its name, begins
// with verdict.
func (w issuing) becomes(t *testing.T, name, verdict string) (e explain.RequestExplanation, text string) {
	t.Helper()
	defer func() {
		if t.Failed() {
			t.Log(text)
		}
	}()
	apitest.Eventually(t, name+" "+verdict, func() bool {
		e, text = w.explain(t, name)
		return strings.HasPrefix(e.Verdict, name+" "+verdict)
	})
	return e, text
}

func says(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("it does not say %q:\n%s", part, text)
		}
	}
}

// The explanation of requests that no controller approves says what their state
// is, and what to type next.
func TestRequestsDecidedByHand(t *testing.T) {
	w := startIssuing(t, func(c *server.Config) { c.Controllers = []string{"*", "-certificaterequests-approver"} })
	w.create(t, newIssuer("self", cmv1.IssuerConfig{SelfSigned: &cmv1.SelfSignedIssuer{}}),
		newIssuer("empty", cmv1.IssuerConfig{CA: &cmv1.CAIssuer{SecretName: "nosuch"}}),
		newIssuer("venafi", cmv1.IssuerConfig{Venafi: &cmv1.VenafiIssuer{
			Zone: "web", TPP: &cmv1.VenafiTPP{URL: "https://tpp.example.com", CredentialsRef: cmmeta.LocalObjectReference{Name: "tpp"}},
		}}))
	const approved, denied, invalid = cmv1.CertificateRequestConditionApproved, cmv1.CertificateRequestConditionDenied, cmv1.CertificateRequestConditionInvalidRequest
	self := cmmeta.IssuerReference{Name: "self"}

	w.create(t, &corev1.Secret{ObjectMeta: named("undecided"), Data: map[string][]byte{"tls.key": []byte("x")}})
	w.request(t, "undecided", self, "undecided")
	_, text := w.becomes(t, "undecided", "waits for approval, which needs no person where an approver runs")
	says(t, text, "certplane approve -n default undecided --context c", "certplane deny -n default undecided --context c", "not decided yet; you may decide", "unless certificaterequests-approver is switched off")
	late, _ := ask[explain.RequestExplanation](t, verb.CertificateRequest, w.Admin(t), "undecided", time.Now().Add(time.Hour))
	if !strings.Contains(late.Verdict, "for 60m no approver has done so") {
		t.Error(late.Verdict)
	}

	// A user who mistakes one kind of request for another gets a hint.
	var none bytes.Buffer
	err := verb.Run(t.Context(), verb.Config{
		Namespace: "default", Name: "undecided", Now: time.Now, Stdout: &none, Flags: []string{"--context", "c"},
		Connect: func() (explain.Reader, error) { return explain.Connect(w.Admin(t)) },
	})
	var known *exit.Error
	if !errors.As(err, &known) || !slices.Contains(known.Next, "  certplane explain certificaterequest -n default undecided --context c") {
		t.Errorf("%v, %+v", err, known)
	}

	w.set(t, w.request(t, "denied", self), denied, "not for you")
	e, text := w.becomes(t, "denied", "was denied: not for you (Test)")
	says(t, text, "This is final.", "denied requests are not signed")
	if e.State != "Denied" {
		t.Error(e.State)
	}

	w.set(t, w.request(t, "invalid", self), invalid, "cannot be")
	e, _ = w.becomes(t, "invalid", "is invalid and is not signed: cannot be (Test)")
	if e.State != "Invalid" {
		t.Error(e.State)
	}

	w.set(t, w.request(t, "failed", self), approved, "yes")
	_, text = w.becomes(t, "failed", "failed at its issuer: ")
	says(t, text, "cert-manager.io/private-key-secret-name", "MissingAnnotation")

	w.set(t, w.request(t, "keyless", self, "key"), approved, "yes")
	_, text = w.becomes(t, "keyless", "is approved, and the Secret key does not exist; it should contain the request's private key under the key tls.key")
	says(t, text, "certplane kubectl --context c create secret generic -n default key --from-file=tls.key=FILE")
	w.create(t, &corev1.Secret{ObjectMeta: named("key"), Data: map[string][]byte{"tls.key": []byte("broken")}})
	_, text = w.becomes(t, "keyless", `is approved and waits: Failed to get key "tls.key" referenced in secret default/key`)
	says(t, text, "In Secret key, the request's private key belongs under the key tls.key.")

	missing := w.request(t, "missing", cmmeta.IssuerReference{Name: "nobody", Kind: "ClusterIssuer"})
	w.set(t, missing, approved, "yes")
	_, text = w.becomes(t, "missing", `is approved, and its issuer cannot sign: Referenced "ClusterIssuer" not found`)
	says(t, text, "Create the issuer, or create a request that names another issuer.", "certplane kubectl --context c get clusterissuers.cert-manager.io\n")

	w.set(t, w.request(t, "unready", cmmeta.IssuerReference{Name: "empty"}), approved, "yes")
	_, text = w.becomes(t, "unready", "is approved, and its issuer cannot sign: Referenced issuer does not have a Ready status condition: ErrGetKeyPair")
	says(t, text, "certplane kubectl --context c describe issuers.cert-manager.io empty -n default\n")

	w.set(t, w.request(t, "unsupported", cmmeta.IssuerReference{Name: "venafi"}), approved, "yes")
	_, text = w.becomes(t, "unsupported", "is approved, and its issuer cannot sign: Referenced issuer does not have a Ready status condition: issuers of type venafi sign nothing here, as this build of certplane does not support them")
	says(t, text, "certplane signs for issuers of the types acme, ca, selfSigned and vault, not venafi. Create one of these under another name and create a request that names another issuer.")

	w.request(t, "outside", cmmeta.IssuerReference{Name: "x", Kind: "Remote", Group: "example.com"})
	_, text = w.becomes(t, "outside", "cannot be approved: no API has the kind Remote of example.com")
	says(t, text, "Install the program that brings the kind Remote of example.com")
}

// remotes is the definition of a kind of issuers that another program installs.
const remotes = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: remotes.example.com
spec:
  group: example.com
  scope: Namespaced
  names: {plural: remotes, singular: remote, kind: Remote}
  versions:
    - name: v1
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

// applyYAML creates the objects of a manifest, as the reader of an explanation
// would.
func applyYAML(t *testing.T, c client.Client, manifest string) {
	t.Helper()
	for _, document := range strings.Split(manifest, "---\n") {
		object := map[string]any{}
		if err := yaml.Unmarshal([]byte(document), &object); err != nil {
			t.Fatal(err)
		}
		if err := c.Create(t.Context(), newLoose(object)); err != nil {
			t.Fatal(err)
		}
	}
}

// A request to an issuer of another program waits for the permission to approve
// it, which the explanation prints, and then for that program.
func TestRequestsElsewhere(t *testing.T) {
	w := startIssuing(t)
	applyYAML(t, w.admin, remotes)
	apitest.Eventually(t, "the kind is served", func() bool {
		return w.admin.Create(t.Context(), newLoose(map[string]any{
			"apiVersion": "example.com/v1", "kind": "Remote", "metadata": map[string]any{"namespace": "default", "name": "x"},
		})) == nil
	})
	w.request(t, "web", cmmeta.IssuerReference{Name: "x", Kind: "Remote", Group: "example.com"})
	e, text := w.becomes(t, "web", "waits for a person to approve it, because the approver lacks a permission")
	says(t, text, "it lacks approve on signers.cert-manager.io named remotes.example.com/* or remotes.example.com/default.x",
		"certplane approve -n default web --context c", "certplane kubectl --context c apply -f - <<'END'\napiVersion: rbac")
	i := slices.IndexFunc(e.Next, func(s explain.Step) bool { return s.Input != "" })
	if i < 0 {
		t.Fatal(e.Next)
	}
	applyYAML(t, w.admin, e.Next[i].Input)
	w.becomes(t, "web", "is approved and waits to be signed")
	late, text := ask[explain.RequestExplanation](t, verb.CertificateRequest, w.Admin(t), "web", time.Now().Add(time.Hour))
	if !strings.Contains(late.Verdict, "is approved, and the program that signs for issuers of the group example.com has not answered for 60m") {
		t.Error(late.Verdict)
	}
	says(t, text, "Remote.example.com x in the namespace default exists and does not report whether it is ready", "Check that the program that signs for issuers of the group example.com runs.")
}

// A user who may read only the request gets an answer.
func TestRequestForItsRequester(t *testing.T) {
	w := startIssuing(t, func(c *server.Config) { c.Controllers = []string{"*", "-certificaterequests-approver"} })
	w.create(t, newIssuer("self", cmv1.IssuerConfig{SelfSigned: &cmv1.SelfSignedIssuer{}}))
	w.request(t, "web", cmmeta.IssuerReference{Name: "self"})
	rule := apitest.Allow("get", "certificaterequests")
	rule.APIGroups = []string{api.Group}
	w.Grant(t, "ann", rule)
	e, text := ask[explain.RequestExplanation](t, verb.CertificateRequest, w.As(t, "ann"), "web", time.Now())
	if e.Verdict != "web waits for approval; you may not check whether that needs a person" {
		t.Error(e.Verdict)
	}
	says(t, text, "you may not check which accounts approve without a person", "you may not get issuers.cert-manager.io", "you may not list events in the namespace default",
		"not decided yet; you may not decide: that requires update on certificaterequests/status in the namespace default and, in the whole cluster, "+
			"approve on signers.cert-manager.io named issuers.cert-manager.io/* or issuers.cert-manager.io/default.self",
		"A user with the permission decides this request:\n    certplane approve -n default web\n    certplane deny -n default web\n")
}

func newLoose(object map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: object}
}
