package crds_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/google/go-cmp/cmp"

	"github.com/certplane/certplane/internal/generated/crds"
)

// What users and clients know of the kinds of cert-manager.io. A star marks
// columns that only wide tables have.
func TestCertManager(t *testing.T) {
	const requests, both = "cert-manager", "cert-manager,cert-manager-acme"
	const ofIssuer = ".spec.issuerRef.group,.spec.issuerRef.kind,.spec.issuerRef.name"
	type facts struct{ Scope, Short, Categories, Columns, Selectable, Conditions string }
	want := map[string]facts{
		"certificaterequests.cert-manager.io": {"Namespaced", "cr,crs", requests, "Approved,Denied,Ready,Issuer,Requester,*Status,Age", ofIssuer, "type"},
		"certificates.cert-manager.io":        {"Namespaced", "cert,certs", requests, "Ready,Secret,*Issuer,*Status,*Expiration,Age", ofIssuer, "type"},
		"issuers.cert-manager.io":             {"Namespaced", "iss", requests, "Ready,*Status,Age", "", "type"},
		"clusterissuers.cert-manager.io":      {"Cluster", "ciss", requests, "Ready,*Status,Age", "", "type"},
		"orders.acme.cert-manager.io":         {"Namespaced", "", both, "State,*Issuer,*Reason,Age", ofIssuer, ""},
		"challenges.acme.cert-manager.io":     {"Namespaced", "", both, "State,Domain,*Reason,Age", ofIssuer, ""},
	}
	got := map[string]facts{}
	for name := range want {
		definition := read(t, name)
		version := definition.Spec.Versions[0]
		if len(definition.Spec.Versions) != 1 || version.Name != "v1" || !version.Storage || version.Subresources.Status == nil {
			t.Errorf("%s is not served as v1 with a status", name)
		}
		schema := version.Schema.OpenAPIV3Schema
		got[name] = facts{
			string(definition.Spec.Scope), strings.Join(definition.Spec.Names.ShortNames, ","), strings.Join(definition.Spec.Names.Categories, ","),
			columns(version), selectable(version), strings.Join(schema.Properties["status"].Properties["conditions"].XListMapKeys, ","),
		}
		for field, property := range schema.Properties["spec"].Properties["issuerRef"].Properties {
			if property.Default != nil {
				t.Errorf("%s: issuerRef.%s has a default", name, field)
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// The definitions say which cert-manager they are of: that of go.mod.
func TestCertManagerVersion(t *testing.T) {
	text, err := os.ReadFile("../../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	required := regexp.MustCompile(`\n\tgithub.com/cert-manager/cert-manager (\S+)\n`).FindSubmatch(text)
	if required == nil {
		t.Fatal("go.mod does not require cert-manager")
	}
	for _, name := range crds.Names() {
		want := string(required[1])
		if strings.HasSuffix(name, ".certplane.dev") || strings.HasSuffix(name, ".trust.cert-manager.io") {
			want = ""
		}
		if got := read(t, name).Labels["app.kubernetes.io/version"]; got != want {
			t.Errorf("%s: version %q, want %q; run make generate", name, got, want)
		}
	}
}

func columns(version apiextensionsv1.CustomResourceDefinitionVersion) string {
	var names []string
	for _, column := range version.AdditionalPrinterColumns {
		names = append(names, strings.Repeat("*", int(column.Priority))+column.Name)
	}
	return strings.Join(names, ",")
}

func selectable(version apiextensionsv1.CustomResourceDefinitionVersion) string {
	var paths []string
	for _, f := range version.SelectableFields {
		paths = append(paths, f.JSONPath)
	}
	return strings.Join(paths, ",")
}

func read(t *testing.T, name string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	text, err := crds.Read(name)
	if err != nil {
		t.Fatal(err)
	}
	definition := &apiextensionsv1.CustomResourceDefinition{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(text.Object, definition); err != nil {
		t.Fatal(err)
	}
	return definition
}

// What users and clients know of the kind of approver-policy.
func TestApproverPolicy(t *testing.T) {
	if slices.Contains(crds.Names(), crds.CertificateRequestPolicies) || !slices.Contains(crds.Optional(), crds.CertificateRequestPolicies) {
		t.Error("it is not optional")
	}
	definition := read(t, crds.CertificateRequestPolicies)
	version, names := definition.Spec.Versions[0], definition.Spec.Names
	if version.Name != "v1alpha1" || version.Subresources.Status == nil || definition.Spec.Scope != "Cluster" {
		t.Errorf("it is not served as v1alpha1 in the cluster with a status: %+v", version)
	}
	if names.Kind != "CertificateRequestPolicy" || !slices.Equal(names.ShortNames, []string{"crp"}) || !slices.Equal(names.Categories, []string{"cert-manager"}) {
		t.Errorf("names %+v", names)
	}
	if columns(version) != "Ready,Age" {
		t.Errorf("columns %s", columns(version))
	}
}

func TestNames(t *testing.T) {
	for _, name := range append(crds.Names(), crds.Optional()...) {
		definition, err := crds.Read(name)
		if err != nil {
			t.Fatal(err)
		}
		if definition.GetName() != name {
			t.Errorf("the file of %s is about %s", name, definition.GetName())
		}
	}
}

// Read returns numbers as clients of an API read them. Otherwise a definition never
// equals the stored one, and each start of a server writes all of them.
func TestIntegers(t *testing.T) {
	var check func(at string, value any)
	check = func(at string, value any) {
		switch value := value.(type) {
		case map[string]any:
			for key, field := range value {
				check(at+"."+key, field)
			}
		case []any:
			for _, item := range value {
				check(at+"[]", item)
			}
		case float64:
			if value == float64(int64(value)) {
				t.Errorf("%s: %v is a floating-point number", at, value)
			}
		}
	}
	for _, name := range append(crds.Names(), crds.Optional()...) {
		definition, err := crds.Read(name)
		if err != nil {
			t.Fatal(err)
		}
		check(name, definition.Object)
	}
}

// What users and clients know of the kind of trust-manager.
func TestTrustManager(t *testing.T) {
	definition := read(t, "bundles.trust.cert-manager.io")
	version := definition.Spec.Versions[0]
	if version.Name != "v1alpha1" || version.Subresources.Status == nil || definition.Spec.Scope != "Cluster" || definition.Spec.Names.Kind != "Bundle" {
		t.Errorf("it is not served as v1alpha1 in the cluster with a status: %+v", version)
	}
	if columns(version) != "ConfigMap Target,Secret Target,Synced,Reason,Age" {
		t.Errorf("columns %s", columns(version))
	}
}
