package certmanager

import (
	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// OwnerCertificate returns the name of the Certificate that controls an object, or
// "".
func OwnerCertificate(o metav1.Object) string {
	owner := metav1.GetControllerOfNoCopy(o)
	if owner == nil || owner.Kind != cmv1.CertificateKind {
		return ""
	}
	return owner.Name
}
