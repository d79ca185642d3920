package server

import (
	"net/http"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
)

// newMapper returns a mapper that knows the kinds that controllers work with,
// and requests others from the API. Requesting all would cost each start some
// time, and such requests cannot be canceled: a server that is stopped in its
// first moments would wait for them.
func newMapper(cfg *rest.Config, client *http.Client) (meta.RESTMapper, error) {
	known := meta.NewDefaultRESTMapper(nil)
	known.Add(certificatesv1.SchemeGroupVersion.WithKind("CertificateSigningRequest"), meta.RESTScopeRoot)
	known.Add(certificatesv1.SchemeGroupVersion.WithKind("ClusterTrustBundle"), meta.RESTScopeRoot)
	known.Add(certificatesv1.SchemeGroupVersion.WithKind("PodCertificateRequest"), meta.RESTScopeNamespace)
	known.Add(rbacv1.SchemeGroupVersion.WithKind("ClusterRole"), meta.RESTScopeRoot)
	known.Add(corev1.SchemeGroupVersion.WithKind("Namespace"), meta.RESTScopeRoot)
	known.Add(corev1.SchemeGroupVersion.WithKind("ConfigMap"), meta.RESTScopeNamespace)
	known.Add(corev1.SchemeGroupVersion.WithKind("ServiceAccount"), meta.RESTScopeNamespace)
	known.Add(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"), meta.RESTScopeRoot)
	known.Add(corev1.SchemeGroupVersion.WithKind("Node"), meta.RESTScopeRoot)
	for _, kind := range []string{"Pod", "Secret", "Service"} {
		known.Add(corev1.SchemeGroupVersion.WithKind(kind), meta.RESTScopeNamespace)
	}
	known.Add(certificatesv1beta1.SchemeGroupVersion.WithKind("PodCertificateRequest"), meta.RESTScopeNamespace)
	known.Add(authorizationv1.SchemeGroupVersion.WithKind("SubjectAccessReview"), meta.RESTScopeRoot)
	known.Add(v1alpha1.GroupVersion.WithKind("Signer"), meta.RESTScopeRoot)
	known.Add(cmv1.SchemeGroupVersion.WithKind(cmv1.ClusterIssuerKind), meta.RESTScopeRoot)
	for _, kind := range []string{cmv1.CertificateKind, cmv1.CertificateRequestKind, cmv1.IssuerKind} {
		known.Add(cmv1.SchemeGroupVersion.WithKind(kind), meta.RESTScopeNamespace)
	}
	others, err := apiutil.NewDynamicRESTMapper(cfg, client)
	if err != nil {
		return nil, err
	}
	return meta.FirstHitRESTMapper{MultiRESTMapper: meta.MultiRESTMapper{known, others}}, nil
}
