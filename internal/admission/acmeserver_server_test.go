package admission_test

import (
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/apitest"
)

const acmeEndpoint = `
kind: AcmeEndpoint
metadata: {name: NAME}
spec:
  accounts: {admission: Open, serviceAccount: {namespace: default, name: web}}
  identifiers: {dns: {allow: ["*.corp.example"]}}
  profiles:
  - name: server
    signer: {name: example.com/hosts}
  - name: mesh
    issuer: {name: mesh}
`

const acmeExternalKey = `
kind: AcmeExternalKey
metadata: {name: NAME, namespace: default}
spec: {endpoint: corp, serviceAccount: web, secret: {name: fleet}}
`

const acmeAccount = `
kind: AcmeAccount
metadata: {name: NAME, labels: {acme.certplane.dev/endpoint: corp}}
spec: {endpoint: corp, serviceAccount: {namespace: default, name: web}}
`

const acmeOrder = `
kind: AcmeOrder
metadata: {name: NAME, namespace: default}
spec: {endpoint: corp, account: a, profile: server, identifiers: [{type: dns, value: a.corp.example}]}
`

const acmeAccountKey = `
kind: AcmeAccountKey
metadata: {name: NAME}
spec: {endpoint: corp, account: a, jwk: "{}"}
`

// acmeUser writes objects of the ACME server as a user.
type acmeUser struct {
	client   dynamic.Interface
	warnings *warnings
}

type warnings struct{ texts []string }

func (w *warnings) HandleWarningHeader(_ int, _ string, text string) { w.texts = append(w.texts, text) }

// acmeAs returns a user who may write all objects of the ACME server, as far as
// authorization goes, with further rights.
func acmeAs(t *testing.T, s *apitest.Server, user string, more ...rbacv1.PolicyRule) acmeUser {
	t.Helper()
	everything := rbacv1.PolicyRule{APIGroups: []string{v1alpha1.GroupName}, Verbs: []string{"create", "delete", "get", "patch", "update"}, Resources: []string{
		"acmeaccountkeys", "acmeaccounts", "acmeaccounts/status", "acmeendpoints", "acmeexternalkeys", "acmeorders", "acmeorders/status",
	}}
	s.Grant(t, user, append(more, everything)...)
	return acmeClient(t, s.As(t, user))
}

func acmeClient(t *testing.T, cfg *rest.Config) acmeUser {
	t.Helper()
	cfg, heard := rest.CopyConfig(cfg), &warnings{}
	cfg.WarningHandler = heard
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return acmeUser{client, heard}
}

func (u acmeUser) of(object *unstructured.Unstructured) dynamic.ResourceInterface {
	resource := u.client.Resource(v1alpha1.GroupVersion.WithResource(strings.ToLower(object.GetKind()) + "s"))
	if object.GetNamespace() == "" {
		return resource
	}
	return resource.Namespace(object.GetNamespace())
}

func (u acmeUser) create(t *testing.T, object *unstructured.Unstructured) error {
	t.Helper()
	_, err := u.of(object).Create(t.Context(), object, metav1.CreateOptions{})
	return err
}

// change applies a merge patch to an object or its subresource.
func (u acmeUser) change(t *testing.T, object *unstructured.Unstructured, patch string, subresource ...string) error {
	t.Helper()
	_, err := u.of(object).Patch(t.Context(), object.GetName(), "application/merge-patch+json", []byte(patch), metav1.PatchOptions{}, subresource...)
	return err
}

// acmeObject returns an object of a template with changed fields of its spec.
func acmeObject(t *testing.T, template, name string, spec map[string]any) *unstructured.Unstructured {
	t.Helper()
	object := policyObject(t, strings.Replace(template, "NAME", name, 1))
	for path, value := range spec {
		if err := unstructured.SetNestedField(object.Object, value, append([]string{"spec"}, strings.Split(path, ".")...)...); err != nil {
			t.Fatal(err)
		}
	}
	return object
}

// wantRefused requires 403 with a text.
func wantRefused(t *testing.T, what string, err error, want string) {
	t.Helper()
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), want) {
		t.Errorf("%s: got %v\nwant 403: %s", what, err, want)
	}
}

func wantDone(t *testing.T, what string, err error) {
	t.Helper()
	if err != nil {
		t.Errorf("%s: %v", what, err)
	}
}

var (
	reference = apitest.Allow("reference", "signers", "example.com/*")
	mesh      = rbacv1.PolicyRule{Verbs: []string{"reference"}, APIGroups: []string{"cert-manager.io"}, Resources: []string{"signers"}, ResourceNames: []string{"issuers.cert-manager.io/mesh"}}
	token     = rbacv1.PolicyRule{Verbs: []string{"create"}, APIGroups: []string{""}, Resources: []string{"serviceaccounts/token"}, ResourceNames: []string{"web"}}
)

func onCorp(verb string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: []string{verb}, APIGroups: []string{v1alpha1.GroupName}, Resources: []string{"acmeendpoints"}, ResourceNames: []string{"corp"}}
}

func TestACMEObjects(t *testing.T) {
	t.Parallel()
	s := apitest.Start(t)
	t.Run("endpoints", func(t *testing.T) { testACMEEndpoints(t, s) })
	t.Run("external keys", func(t *testing.T) { testACMEExternalKeys(t, s) })
	t.Run("what the server keeps", func(t *testing.T) { testACMEServed(t, s) })
}

// Who stores an endpoint must have what it gives.
func testACMEEndpoints(t *testing.T, s *apitest.Server) {
	object := acmeObject(t, acmeEndpoint, "corp", nil)
	wantRefused(t, "no signer", acmeAs(t, s, "endpoint-none").create(t, object), `the profile "server" needs the verb "reference" on signers "example.com/hosts" of certificates.k8s.io`)
	wantRefused(t, "no issuer", acmeAs(t, s, "endpoint-signer", reference).create(t, object), `the profile "mesh" needs the verb "reference" on signers "issuers.cert-manager.io/mesh" of cert-manager.io`)
	wantRefused(t, "no account", acmeAs(t, s, "endpoint-signers", reference, mesh).create(t, object), `needs the verb "create" on serviceaccounts/token "web" in the namespace default`)
	author := acmeAs(t, s, "endpoint-author", reference, mesh, token)
	wantDone(t, "with all rights", author.create(t, object))
	if !strings.Contains(strings.Join(author.warnings.texts, "\n"), "Open lets everybody") {
		t.Errorf("warnings %q", author.warnings.texts)
	}
	wantRefused(t, "a wider endpoint", acmeAs(t, s, "endpoint-later").change(t, object, `{"spec":{"identifiers":{"dns":{"allow":["*.example.com"]}}}}`), "reference")
	wantDone(t, "a label", acmeAs(t, s, "endpoint-label").change(t, object, `{"metadata":{"labels":{"a":"b"}}}`))

	admin := acmeClient(t, s.Admin(t))
	local := acmeObject(t, acmeEndpoint, "local", map[string]any{"challenges.networks.allow": []any{"127.0.0.0/8"}})
	if err := admin.create(t, local); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), v1alpha1.AcmeAllowLocalAnnotation) {
		t.Errorf("loopback: %v", err)
	}
	local.SetAnnotations(map[string]string{v1alpha1.AcmeAllowLocalAnnotation: "true"})
	wantDone(t, "loopback with the annotation", admin.create(t, local))
	if err := admin.change(t, local, `{"metadata":{"annotations":null}}`); !apierrors.IsInvalid(err) {
		t.Errorf("without the annotation: %v", err)
	}
	admin.warnings.texts = nil
	odd := acmeObject(t, acmeEndpoint, "odd", map[string]any{
		"challenges.types": []any{"dns-01"}, "challenges.http01.ports": []any{int64(8080)}, "challenges.tlsAlpn01.ports": []any{int64(8443)}, "identifiers.ip.allow": []any{"10.0.0.0/8"},
	})
	wantDone(t, "an odd endpoint", admin.create(t, odd))
	for _, want := range []string{"http01.ports", "tlsAlpn01.ports", "spec.identifiers.ip"} {
		if !strings.Contains(strings.Join(admin.warnings.texts, "\n"), want) {
			t.Errorf("no warning of %s: %q", want, admin.warnings.texts)
		}
	}
}

// Who stores a key must have what its accounts get. To revoke one takes nothing.
func testACMEExternalKeys(t *testing.T, s *apitest.Server) {
	object := acmeObject(t, acmeExternalKey, "fleet", nil)
	more := acmeObject(t, acmeExternalKey, "more", map[string]any{"preauthorized.dns": []any{"*.corp.example"}})
	wantRefused(t, "no endpoint", acmeAs(t, s, "key-none").create(t, object), `needs the verb "use" on acmeendpoints "corp" of certplane.dev`)
	wantRefused(t, "no account", acmeAs(t, s, "key-use", onCorp("use")).create(t, object), `needs the verb "create" on serviceaccounts/token "web" in the namespace default`)
	author := acmeAs(t, s, "key-author", onCorp("use"), token)
	wantDone(t, "with all rights", author.create(t, object))
	wantRefused(t, "instead of challenges", author.create(t, more), `needs the verb "preauthorize" on acmeendpoints "corp"`)
	wantDone(t, "with the right", acmeAs(t, s, "key-preauthorizer", onCorp("use"), onCorp("preauthorize"), token).create(t, more))
	stranger := acmeAs(t, s, "key-revoker")
	wantRefused(t, "more accounts", stranger.change(t, object, `{"spec":{"maxAccounts":3}}`), "use")
	wantRefused(t, "revoked and more", stranger.change(t, object, `{"spec":{"revoked":true,"maxAccounts":3}}`), "use")
	wantDone(t, "revoked", stranger.change(t, object, `{"spec":{"revoked":true}}`))
	wantRefused(t, "no longer revoked", stranger.change(t, object, `{"spec":{"revoked":false}}`), "use")
	if err := author.create(t, acmeObject(t, acmeExternalKey, "bad", map[string]any{"identifiers.dns.allow": []any{"a_b*"}})); !apierrors.IsInvalid(err) {
		t.Errorf("a bad pattern: %v", err)
	}
}

// Only the ACME server writes accounts, keys and orders.
func testACMEServed(t *testing.T, s *apitest.Server) {
	server := acmeClient(t, s.As(t, "system:serviceaccount:kube-system:acme-server"))
	stranger := acmeAs(t, s, "served-stranger")
	manager := acmeAs(t, s, "served-manager", onCorp("approve"))
	account, order, key := acmeObject(t, acmeAccount, "a", nil), acmeObject(t, acmeOrder, "o", nil), acmeObject(t, acmeAccountKey, "corp.k", nil)
	for _, object := range []*unstructured.Unstructured{account, order, key} {
		wantRefused(t, "creating "+object.GetKind(), stranger.create(t, object), `needs the verb "serve" on acmeendpoints "corp" of certplane.dev`)
		wantDone(t, "the server creates "+object.GetKind(), server.create(t, object))
	}
	const (
		valid = `{"status":{"state":"valid"}}`
		label = `{"metadata":{"labels":{"acme.certplane.dev/endpoint":"other"}}}`
		other = `{"metadata":{"labels":{"team":"a"},"finalizers":["example.com/a"]}}`
	)
	for _, object := range []*unstructured.Unstructured{account, order} {
		wantRefused(t, "the status of "+object.GetKind(), stranger.change(t, object, valid, "status"), `"serve"`)
		wantDone(t, "the server writes the status of "+object.GetKind(), server.change(t, object, valid, "status"))
		wantDone(t, "the same status of "+object.GetKind(), stranger.change(t, object, valid, "status"))
		wantRefused(t, "a label of ours on "+object.GetKind(), stranger.change(t, object, label), `"serve"`)
		wantDone(t, "other metadata of "+object.GetKind(), stranger.change(t, object, other))
	}
	wantRefused(t, "a retired key", stranger.change(t, key, `{"spec":{"retired":"2030-01-01T00:00:00Z"}}`), `"serve"`)
	wantDone(t, "the server retires a key", acmeClient(t, s.As(t, "system:serviceaccount:kube-system:acme-server")).retire(t, key))

	wantRefused(t, "a decision", stranger.change(t, account, `{"spec":{"decision":"Approved"}}`), `needs the verb "approve" on acmeendpoints "corp"`)
	wantDone(t, "a decision with the right", manager.change(t, account, `{"spec":{"decision":"Revoked","decisionReason":"stolen"}}`))
	wantRefused(t, "taken back by another", stranger.change(t, account, `{"spec":{"decision":null}}`), `"approve"`)
	approved := acmeObject(t, acmeAccount, "b", map[string]any{"decision": "Approved"})
	wantRefused(t, "the server decides", server.create(t, approved), `"approve"`)

	stranger.warnings.texts = nil
	wantDone(t, "deleting the account", stranger.of(account).Delete(t.Context(), "a", metav1.DeleteOptions{}))
	if !strings.Contains(strings.Join(stranger.warnings.texts, "\n"), "set spec.decision to Revoked") {
		t.Errorf("warnings %q", stranger.warnings.texts)
	}
}

// retire updates a key as the server does, which may not patch.
func (u acmeUser) retire(t *testing.T, key *unstructured.Unstructured) error {
	t.Helper()
	stored, err := u.of(key).Get(t.Context(), key.GetName(), metav1.GetOptions{})
	if err != nil {
		return err
	}
	if err := unstructured.SetNestedField(stored.Object, "2030-01-01T00:00:00Z", "spec", "retired"); err != nil {
		return err
	}
	_, err = u.of(key).Update(t.Context(), stored, metav1.UpdateOptions{})
	return err
}
