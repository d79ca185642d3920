package apiserver

import (
	"strings"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api"
	"github.com/certplane/certplane/internal/tenant"
	"github.com/certplane/certplane/internal/tenant/fairshare"
)

// An object is charged to the same tenant when it is counted in the store and
// when it is written.
func TestOwners(t *testing.T) {
	request := func(user string, groups ...string) runtime.Object {
		return &certificatesv1.CertificateSigningRequest{Spec: certificatesv1.CertificateSigningRequestSpec{Username: user, Groups: groups}}
	}
	podRequest := &certificatesv1beta1.PodCertificateRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team-a"}, Spec: certificatesv1beta1.PodCertificateRequestSpec{NodeName: "edge-1"},
	}
	custom := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"namespace": "team-a"}}}
	account := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "certplane.dev/v1alpha1", "kind": "AcmeAccount", "metadata": map[string]any{"labels": map[string]any{v1alpha1.AcmeNamespaceLabel: "team-a"}},
	}}
	namespace := fairshare.Tenant{Class: tenant.ClassNamespace, Name: "team-a"}
	versions := storedVersions()
	tests := []struct {
		key    string
		object runtime.Object // nil if the key is sufficient
		want   fairshare.Tenant
	}{
		{"/registry/certificatesigningrequests/a", request("alice"), fairshare.Tenant{Class: tenant.ClassUser, Name: "alice"}},
		{"/registry/certificatesigningrequests/b", request("system:serviceaccount:team-a:x"), namespace},
		{"/registry/certificatesigningrequests/c", request("system:node:edge-1", "system:nodes"), fairshare.Tenant{Class: tenant.ClassNode, Name: "system:node:edge-1"}},
		{"/registry/certificatesigningrequests/d", request("admin", "system:masters"), tenant.Exempt},
		{"/registry/certificatesigningrequests/encrypted", nil, fairshare.Tenant{}},
		{"/registry/podcertificaterequests/team-a/a", podRequest, fairshare.Tenant{Class: tenant.ClassNode, Name: "system:node:edge-1"}},
		{"/registry/podcertificaterequests/team-a/encrypted", nil, namespace},
		{"/registry/configmaps/team-a/a", nil, namespace},
		{"/registry/services/specs/team-a/a", nil, namespace},
		{"/registry/cert-manager.io/certificates/team-a/a", custom, namespace},
		{"/registry/cert-manager.io/clusterissuers/a", nil, fairshare.Tenant{}},
		{"/registry/inventory.certplane.dev/issuedcertificates/021915/5da32ee5975204b6bd1309df9891759f", nil, fairshare.Tenant{}},
		{"/registry/inventory.certplane.dev/packs/021915/00000001", nil, fairshare.Tenant{}},
		{"/registry/certplane.dev/acmeaccounts/a", account, namespace},
		{"/registry/certplane.dev/acmeaccountkeys/a", account, namespace},
		{"/registry/certplane.dev/acmeaccounts/encrypted", nil, fairshare.Tenant{}},
		{"/registry/certplane.dev/signers/a", &unstructured.Unstructured{Object: map[string]any{}}, fairshare.Tenant{}},
		{"/registry/clusterroles/a", nil, fairshare.Tenant{}},
		{"/registry/minions/a", &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, fairshare.Tenant{Class: tenant.ClassNode, Name: "system:node:a"}},
	}
	owner := Owners("/registry")
	for _, tt := range tests {
		value := []byte("k8s:enc:secretbox:v1:key1:nonsense")
		if tt.object != nil {
			if got := tenant.OfObject(tt.object); got != tt.want {
				t.Errorf("%s is written by %v, want %v", tt.key, got, tt.want)
			}
		}
		custom, isCustom := tt.object.(*unstructured.Unstructured)
		if isCustom && custom.GetKind() != "" {
			var err error
			if value, err = custom.MarshalJSON(); err != nil {
				t.Fatal(err)
			}
		}
		if _, isNode := tt.object.(*corev1.Node); tt.object != nil && !isCustom && !isNode {
			resource, _, _ := strings.Cut(strings.TrimPrefix(tt.key, "/registry/"), "/")
			version, err := versions.StorageEncodingFor(certificatesv1.Resource(resource))
			if err != nil {
				t.Fatal(err)
			}
			if value, err = runtime.Encode(api.NewCodecs(false).LegacyCodec(version), tt.object); err != nil {
				t.Fatal(err)
			}
		}
		var got fairshare.Tenant
		owner(tt.key, value, func(tenant fairshare.Tenant, bytes int64) {
			if got = tenant; tenant != (fairshare.Tenant{}) && bytes < int64(len(value)) {
				t.Errorf("%s counts as %d bytes", tt.key, bytes)
			}
		})
		if got != tt.want {
			t.Errorf("%s belongs to %v, want %v", tt.key, got, tt.want)
		}
	}
}

func TestSizeOf(t *testing.T) {
	custom := &unstructured.Unstructured{Object: map[string]any{"a": "0123456789", "b": []any{map[string]any{"c": "0123456789"}, int64(1), true, nil}}}
	if got := sizeOf(custom); got < 20 || got > 100 {
		t.Errorf("size %d of an object of about 60 bytes", got)
	}
	if got := sizeOf(&certificatesv1.CertificateSigningRequest{Spec: certificatesv1.CertificateSigningRequestSpec{Request: make([]byte, 1000)}}); got < 1000 || got > 1100 {
		t.Errorf("size %d of an object of about 1000 bytes", got)
	}
}
