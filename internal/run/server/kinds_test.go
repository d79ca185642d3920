package server

import (
	"net/http"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// No controller's kind must be requested from the API, which may be stopping.
func TestKindsAreKnown(t *testing.T) {
	mapper, err := newMapper(&rest.Config{Host: "http://127.0.0.1:1"}, http.DefaultClient)
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		kind     schema.GroupKind
		resource string
		scope    meta.RESTScopeName
	}{
		{schema.GroupKind{Group: "certificates.k8s.io", Kind: "CertificateSigningRequest"}, "certificatesigningrequests", meta.RESTScopeNameRoot},
		{schema.GroupKind{Group: "certificates.k8s.io", Kind: "ClusterTrustBundle"}, "clustertrustbundles", meta.RESTScopeNameRoot},
		{schema.GroupKind{Group: "rbac.authorization.k8s.io", Kind: "ClusterRole"}, "clusterroles", meta.RESTScopeNameRoot},
		{schema.GroupKind{Kind: "Namespace"}, "namespaces", meta.RESTScopeNameRoot},
		{schema.GroupKind{Kind: "ConfigMap"}, "configmaps", meta.RESTScopeNameNamespace},
		{schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}, "customresourcedefinitions", meta.RESTScopeNameRoot},
		{schema.GroupKind{Group: "certplane.dev", Kind: "Signer"}, "signers", meta.RESTScopeNameRoot},
		{schema.GroupKind{Group: "certplane.dev", Kind: "CertificatePolicy"}, "certificatepolicies", meta.RESTScopeNameRoot},
		{schema.GroupKind{Group: "certplane.dev", Kind: "CertificatePolicyException"}, "certificatepolicyexceptions", meta.RESTScopeNameRoot},
		{schema.GroupKind{Group: "certplane.dev", Kind: "AcmeAccount"}, "acmeaccounts", meta.RESTScopeNameRoot},
		{schema.GroupKind{Group: "certplane.dev", Kind: "AcmeAccountKey"}, "acmeaccountkeys", meta.RESTScopeNameRoot},
		{schema.GroupKind{Group: "certplane.dev", Kind: "AcmeEndpoint"}, "acmeendpoints", meta.RESTScopeNameRoot},
		{schema.GroupKind{Group: "certplane.dev", Kind: "AcmeExternalKey"}, "acmeexternalkeys", meta.RESTScopeNameNamespace},
		{schema.GroupKind{Group: "certplane.dev", Kind: "AcmeOrder"}, "acmeorders", meta.RESTScopeNameNamespace},
		{schema.GroupKind{Group: "cert-manager.io", Kind: "Issuer"}, "issuers", meta.RESTScopeNameNamespace},
		{schema.GroupKind{Group: "cert-manager.io", Kind: "ClusterIssuer"}, "clusterissuers", meta.RESTScopeNameRoot},
		{schema.GroupKind{Group: "cert-manager.io", Kind: "CertificateRequest"}, "certificaterequests", meta.RESTScopeNameNamespace},
		{schema.GroupKind{Kind: "ServiceAccount"}, "serviceaccounts", meta.RESTScopeNameNamespace},
		{schema.GroupKind{Kind: "Node"}, "nodes", meta.RESTScopeNameRoot},
		{schema.GroupKind{Kind: "Pod"}, "pods", meta.RESTScopeNameNamespace},
		{schema.GroupKind{Kind: "Secret"}, "secrets", meta.RESTScopeNameNamespace},
		{schema.GroupKind{Kind: "Service"}, "services", meta.RESTScopeNameNamespace},
		{schema.GroupKind{Group: "certificates.k8s.io", Kind: "PodCertificateRequest"}, "podcertificaterequests", meta.RESTScopeNameNamespace},
		{schema.GroupKind{Group: "authorization.k8s.io", Kind: "SubjectAccessReview"}, "subjectaccessreviews", meta.RESTScopeNameRoot},
	}
	for _, tc := range tests {
		got, err := mapper.RESTMapping(tc.kind, version(tc.kind))
		if err != nil {
			t.Errorf("%s: %v", tc.kind, err)
			continue
		}
		if got.Resource.Resource != tc.resource || got.Scope.Name() != tc.scope {
			t.Errorf("%s is %s, %s", tc.kind, got.Resource, got.Scope.Name())
		}
	}
	if _, err := mapper.RESTMapping(schema.GroupKind{Group: "example.com", Kind: "Other"}, "v1"); err == nil {
		t.Error("a kind that nobody knows was not asked for")
	}
}

func version(kind schema.GroupKind) string {
	switch {
	case kind.Group == "certplane.dev":
		return "v1alpha1"
	case kind.Kind == "PodCertificateRequest":
		return "v1beta1"
	}
	return "v1"
}
