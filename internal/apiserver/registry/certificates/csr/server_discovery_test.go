package csr_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

func TestServerDiscovery(t *testing.T) {
	t.Parallel()
	w := start(t)
	t.Run("group", w.testGroup)
	t.Run("resources", w.testResources)
	t.Run("aggregated", w.testAggregated)
	t.Run("nothing else", w.testNothingElse)
	t.Run("OpenAPI v3", w.testOpenAPIv3)
	t.Run("OpenAPI v2", w.testOpenAPIv2)
}

func (w world) testGroup(t *testing.T) {
	want := metav1.APIGroup{
		TypeMeta: metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"},
		Name:     "certificates.k8s.io",
		Versions: []metav1.GroupVersionForDiscovery{
			{GroupVersion: "certificates.k8s.io/v1", Version: "v1"},
			{GroupVersion: "certificates.k8s.io/v1beta1", Version: "v1beta1"},
			{GroupVersion: "certificates.k8s.io/v1alpha1", Version: "v1alpha1"},
		},
		PreferredVersion: metav1.GroupVersionForDiscovery{GroupVersion: "certificates.k8s.io/v1", Version: "v1"},
	}
	got := read[metav1.APIGroup](t, w.call(t, call{path: "/apis/certificates.k8s.io"}))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("group (-want +got):\n%s", diff)
	}
	groups := read[metav1.APIGroupList](t, w.call(t, call{path: "/apis"})).Groups
	if !slices.ContainsFunc(groups, func(g metav1.APIGroup) bool { return g.Name == "certificates.k8s.io" }) {
		t.Errorf("not among the groups: %v", groups)
	}
}

func (w world) testResources(t *testing.T) {
	const kind = "CertificateSigningRequest"
	whole := metav1.Verbs{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}
	part := metav1.Verbs{"get", "patch", "update"}
	want := []metav1.APIResource{
		{Name: "certificatesigningrequests", SingularName: "certificatesigningrequest", Kind: kind, Verbs: whole,
			ShortNames: []string{"csr"}, StorageVersionHash: "95fRKMXA+00="},
		{Name: "certificatesigningrequests/approval", Kind: kind, Verbs: part},
		{Name: "certificatesigningrequests/status", Kind: kind, Verbs: part},
	}
	for _, version := range []string{"v1", "v1beta1"} {
		got := read[metav1.APIResourceList](t, w.call(t, call{path: "/apis/certificates.k8s.io/" + version}))
		if got.GroupVersion != "certificates.k8s.io/"+version {
			t.Errorf("%s says it is %s", version, got.GroupVersion)
		}
		requests := slices.DeleteFunc(got.APIResources, func(r metav1.APIResource) bool { return r.Kind != kind })
		if diff := cmp.Diff(want, requests); diff != "" {
			t.Errorf("%s: resources (-want +got):\n%s", version, diff)
		}
	}
}

func (w world) testAggregated(t *testing.T) {
	got := read[apidiscoveryv2.APIGroupDiscoveryList](t, w.call(t, call{path: "/apis", accept: "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"}))
	i := slices.IndexFunc(got.Items, func(g apidiscoveryv2.APIGroupDiscovery) bool { return g.Name == "certificates.k8s.io" })
	if i < 0 {
		t.Fatalf("not among the groups: %v", got)
	}
	kind := &metav1.GroupVersionKind{Kind: "CertificateSigningRequest"}
	part := []string{"get", "patch", "update"}
	resource := apidiscoveryv2.APIResourceDiscovery{
		Resource: "certificatesigningrequests", ResponseKind: kind, SingularResource: "certificatesigningrequest", ShortNames: []string{"csr"},
		Scope: apidiscoveryv2.ScopeCluster, Verbs: []string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"},
		Subresources: []apidiscoveryv2.APISubresourceDiscovery{
			{Subresource: "approval", ResponseKind: kind, Verbs: part},
			{Subresource: "status", ResponseKind: kind, Verbs: part},
		},
	}
	for j, version := range []string{"v1", "v1beta1"} {
		served := got.Items[i].Versions[j]
		if served.Version != version {
			t.Fatalf("version %d is %s", j, served.Version)
		}
		requests := slices.DeleteFunc(served.Resources, func(r apidiscoveryv2.APIResourceDiscovery) bool { return r.Resource != resource.Resource })
		if diff := cmp.Diff([]apidiscoveryv2.APIResourceDiscovery{resource}, requests); diff != "" {
			t.Errorf("%s: resources (-want +got):\n%s", version, diff)
		}
	}
}

// Names that exist only for authorization, and a version that never had
// requests.
func (w world) testNothingElse(t *testing.T) {
	w.create(t, "x")
	for _, path := range []string{
		"/apis/certificates.k8s.io/v1/signers",
		"/apis/certificates.k8s.io/v1alpha1/certificatesigningrequests",
		"/apis/certificates.k8s.io/v1/namespaces/default/certificatesigningrequests",
		mainEndpoint.path("x") + "/nodeclient",
		mainEndpoint.path("x") + "/selfnodeclient",
		mainEndpoint.path("x") + "/scale",
	} {
		if got := w.call(t, call{path: path}); got.code != http.StatusNotFound {
			t.Errorf("%s: %d %s", path, got.code, got.body)
		}
	}
	for _, via := range []endpoint{statusEndpoint, approvalEndpoint} {
		for _, method := range []string{http.MethodPost, http.MethodDelete} {
			if got := w.call(t, call{method: method, path: via.path("x")}); got.code != http.StatusMethodNotAllowed {
				t.Errorf("%s %s: %d", method, via, got.code)
			}
		}
	}
}

// checkNames checks for names that must not be in an OpenAPI document.
func checkNames(t *testing.T, document []byte) {
	t.Helper()
	for _, name := range []string{
		"__internal", "certificates.v1alpha1.CertificateSigningRequest", "certificates.v1alpha1.PodCertificateRequest",
	} {
		if strings.Contains(string(document), name) {
			t.Errorf("the document names %s", name)
		}
	}
}

func (w world) testOpenAPIv3(t *testing.T) {
	for _, version := range []string{"v1", "v1beta1"} {
		answer := w.call(t, call{path: "/openapi/v3/apis/certificates.k8s.io/" + version})
		checkNames(t, answer.body)
		document := read[struct {
			Paths      map[string]json.RawMessage
			Components struct{ Schemas map[string]spec.Schema }
		}](t, answer)
		checkPaths(t, document.Paths, version)
		checkSchemas(t, document.Components.Schemas, "io.k8s.api.certificates."+version+".", version)
	}
}

func (w world) testOpenAPIv2(t *testing.T) {
	answer := w.call(t, call{path: "/openapi/v2"})
	checkNames(t, answer.body)
	document := read[struct {
		Paths       map[string]json.RawMessage
		Definitions map[string]spec.Schema
	}](t, answer)
	for _, version := range []string{"v1", "v1beta1"} {
		checkPaths(t, document.Paths, version)
		checkSchemas(t, document.Definitions, "io.k8s.api.certificates."+version+".", version)
	}
}

func checkPaths(t *testing.T, paths map[string]json.RawMessage, version string) {
	t.Helper()
	root := "/apis/certificates.k8s.io/" + version + "/"
	for _, path := range []string{"", "certificatesigningrequests", "certificatesigningrequests/{name}",
		"certificatesigningrequests/{name}/status", "certificatesigningrequests/{name}/approval"} {
		if _, ok := paths[root+path]; !ok {
			t.Errorf("%s is missing", root+path)
		}
	}
}

// checkSchemas compares the schemas with which clients validate objects.
func checkSchemas(t *testing.T, schemas map[string]spec.Schema, prefix, version string) {
	t.Helper()
	object, ok := schemas[prefix+"CertificateSigningRequest"]
	if !ok {
		t.Fatalf("%s: no schema", version)
	}
	parts := map[string]spec.Schema{
		"object":    object,
		"spec":      schemas[prefix+"CertificateSigningRequestSpec"],
		"status":    schemas[prefix+"CertificateSigningRequestStatus"],
		"condition": schemas[prefix+"CertificateSigningRequestCondition"],
	}
	required := map[string][]string{"object": {"spec"}, "spec": {"request", "signerName"}, "status": nil, "condition": {"type", "status"}}
	usages := 23
	if version == "v1beta1" {
		required = map[string][]string{"object": {"spec"}, "spec": {"request"}, "status": nil, "condition": {"type"}}
		usages = 0
	}
	got := map[string][]string{}
	for name, part := range parts {
		got[name] = part.Required
	}
	if diff := cmp.Diff(required, got, emptyIsNil()); diff != "" {
		t.Errorf("%s: required (-want +got):\n%s", version, diff)
	}

	fields := parts["spec"].Properties
	if n := len(fields["usages"].Items.Schema.Enum); n != usages {
		t.Errorf("%s: %d known usages, want %d", version, n, usages)
	}
	for name, want := range map[string][2]string{
		"usages": {list(fields["usages"]), "atomic"}, "groups": {list(fields["groups"]), "atomic"},
		"conditions": {list(parts["status"].Properties["conditions"]), "map type"},
		"request":    {fields["request"].Format, "byte"}, "expirationSeconds": {fields["expirationSeconds"].Format, "int32"},
		"certificate": {parts["status"].Properties["certificate"].Format, "byte"},
	} {
		if want[0] != want[1] {
			t.Errorf("%s: %s is %q, want %q", version, name, want[0], want[1])
		}
	}
	if _, ok := parts["status"].Properties["conditions"].Extensions["x-kubernetes-patch-strategy"]; ok {
		t.Errorf("%s: conditions have a patch strategy", version)
	}
}

// list returns the list type of a schema, with the keys of a map.
func list(schema spec.Schema) string {
	kind, _ := schema.Extensions.GetString("x-kubernetes-list-type")
	keys, _ := schema.Extensions.GetStringSlice("x-kubernetes-list-map-keys")
	return strings.Join(append([]string{kind}, keys...), " ")
}
