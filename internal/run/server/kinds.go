package server

import (
	"net/http"
	"strings"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
)

// servedKinds are the kinds that controllers work with.
var servedKinds = []struct {
	version schema.GroupVersion
	scope   meta.RESTScope
	kinds   []string
}{
	{corev1.SchemeGroupVersion, meta.RESTScopeRoot, []string{"Namespace", "Node"}},
	{corev1.SchemeGroupVersion, meta.RESTScopeNamespace, []string{"ConfigMap", "Pod", "Secret", "Service", "ServiceAccount"}},
	{certificatesv1.SchemeGroupVersion, meta.RESTScopeRoot, []string{"CertificateSigningRequest", "ClusterTrustBundle"}},
	{certificatesv1.SchemeGroupVersion, meta.RESTScopeNamespace, []string{"PodCertificateRequest"}},
	{certificatesv1beta1.SchemeGroupVersion, meta.RESTScopeNamespace, []string{"PodCertificateRequest"}},
	{authorizationv1.SchemeGroupVersion, meta.RESTScopeRoot, []string{"SubjectAccessReview"}},
	{coordinationv1.SchemeGroupVersion, meta.RESTScopeNamespace, []string{"Lease"}},
	{rbacv1.SchemeGroupVersion, meta.RESTScopeRoot, []string{"ClusterRole"}},
	{apiextensionsv1.SchemeGroupVersion, meta.RESTScopeRoot, []string{"CustomResourceDefinition"}},
	{v1alpha1.GroupVersion, meta.RESTScopeRoot, []string{"AcmeAccount", "AcmeAccountKey", "AcmeEndpoint", "CertificatePolicy", "CertificatePolicyException", "Revocation", "Signer"}},
	{v1alpha1.GroupVersion, meta.RESTScopeNamespace, []string{"AcmeExternalKey", "AcmeOrder"}},
	{cmv1.SchemeGroupVersion, meta.RESTScopeRoot, []string{cmv1.ClusterIssuerKind}},
	{cmv1.SchemeGroupVersion, meta.RESTScopeNamespace, []string{cmv1.CertificateKind, cmv1.CertificateRequestKind, cmv1.IssuerKind}},
}

// newMapper returns a mapper that contains the kinds that controllers use, and requests
// other kinds from the API. Requesting all would delay each start, and such requests cannot
// be canceled: a server that is stopped in its first moments would wait for them.
func newMapper(cfg *rest.Config, client *http.Client) (meta.RESTMapper, error) {
	known := meta.NewDefaultRESTMapper(nil)
	for _, served := range servedKinds {
		for _, kind := range served.kinds {
			if strings.HasSuffix(kind, "Key") { // the library's guess ends in "keies"
				resource := served.version.WithResource(strings.ToLower(kind))
				known.AddSpecific(served.version.WithKind(kind), served.version.WithResource(resource.Resource+"s"), resource, served.scope)
				continue
			}
			known.Add(served.version.WithKind(kind), served.scope)
		}
	}
	others, err := apiutil.NewDynamicRESTMapper(cfg, client)
	if err != nil {
		return nil, err
	}
	return meta.FirstHitRESTMapper{MultiRESTMapper: meta.MultiRESTMapper{known, others}}, nil
}
