package issuance

import (
	"crypto"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/request"
)

// MarkKeyID asks in the request of a CA that keeps its key for the key identifier of
// its certificate in the Secret: the certificates that it has issued name it.
func MarkKeyID(s Situation, cr *cmv1.CertificateRequest, key crypto.PublicKey) {
	if !cr.Spec.IsCA || s.Secret == nil {
		return
	}
	former, err := pki.ParseBundle(s.Secret.Data[corev1.TLSCertKey])
	if err != nil {
		return
	}
	if id := request.KeptKeyID(former, key); id != "" {
		cr.Annotations[request.AnnotationSubjectKeyID] = id
	}
}
