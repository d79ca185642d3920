package issuer

import (
	"testing"

	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func sampleKinds() kinds {
	gvk := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Sample"}
	forAll := gvk
	forAll.Kind = "SampleForAll"
	return kinds{
		{GroupVersionKind: gvk, plural: "samples", namespaced: true},
		{GroupVersionKind: forAll, plural: "samplesforall"},
	}
}

func TestNamed(t *testing.T) {
	tests := []struct {
		signerName, kind, namespace, name string // without a kind it is not one of ours
	}{
		{"samples.example.com/team.ca", "Sample", "team", "ca"},
		{"samples.example.com/team.ca.of.us", "Sample", "team", "ca.of.us"},
		{"samplesforall.example.com/ca.of.us", "SampleForAll", "", "ca.of.us"},
		{signerName: "samples.example.com/ca"},
		{signerName: "samples.example.com/.ca"},
		{signerName: "samples.example.com/team."},
		{signerName: "samples.example.com/"},
		{signerName: "samples.example.com"},
		{signerName: "samples.example.com/a.b/c"},
		{signerName: "samplesforall.example.com/a/b"},
		{signerName: "issuers.cert-manager.io/team.ca"},
		{signerName: "other.example.com/team.ca"},
		{signerName: ".example.com/team.ca"},
	}
	for _, tc := range tests {
		got, ok := sampleKinds().named(tc.signerName)
		if ok != (tc.kind != "") {
			t.Errorf("%s: ours: %v", tc.signerName, ok)
			continue
		}
		if ok && (got.kind.Kind != tc.kind || got.Namespace != tc.namespace || got.Name != tc.name || got.String() != tc.signerName) {
			t.Errorf("%s is %s %v", tc.signerName, got.kind.Kind, got)
		}
	}
}

func TestReferred(t *testing.T) {
	tests := []struct {
		ref  cmmeta.IssuerReference
		want string // empty: none of ours
	}{
		{cmmeta.IssuerReference{Name: "ca", Kind: "Sample", Group: "example.com"}, "samples.example.com/team.ca"},
		{cmmeta.IssuerReference{Name: "ca", Kind: "SampleForAll", Group: "example.com"}, "samplesforall.example.com/ca"},
		{cmmeta.IssuerReference{Name: "ca", Kind: "Sample"}, ""},
		{cmmeta.IssuerReference{Name: "ca", Group: "example.com"}, ""},
		{cmmeta.IssuerReference{Name: "ca", Kind: "Issuer", Group: "example.com"}, ""},
		{cmmeta.IssuerReference{Name: "ca", Kind: "Sample", Group: "cert-manager.io"}, ""},
	}
	for _, tc := range tests {
		got, ok := sampleKinds().referred(tc.ref, "team")
		if ok != (tc.want != "") || ok && got.String() != tc.want {
			t.Errorf("%+v: %v, ours: %v", tc.ref, got, ok)
		}
	}
}
