package decisionlog

import (
	"encoding/json"
	"fmt"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/policy/request"
)

// Object returns the JSON of the object that a request was made from, with its
// metadata and its spec. The spec has the requester that the decision was about,
// which admission knows before it is stored.
func Object(r *request.Request) ([]byte, error) {
	switch object := r.Object.(type) {
	case *certificatesv1.CertificateSigningRequest:
		csr := &certificatesv1.CertificateSigningRequest{ObjectMeta: metadata(object.ObjectMeta), Spec: object.Spec}
		csr.SetGroupVersionKind(certificatesv1.SchemeGroupVersion.WithKind("CertificateSigningRequest"))
		csr.Spec.Username, csr.Spec.UID, csr.Spec.Groups = r.Requester.Username, r.Requester.UID, r.Requester.Groups
		csr.Spec.Extra = extra[certificatesv1.ExtraValue](r.Requester)
		return json.Marshal(csr)
	case *cmv1.CertificateRequest:
		cr := &cmv1.CertificateRequest{ObjectMeta: metadata(object.ObjectMeta), Spec: object.Spec}
		cr.SetGroupVersionKind(cmv1.SchemeGroupVersion.WithKind(cmv1.CertificateRequestKind))
		cr.Spec.Username, cr.Spec.UID, cr.Spec.Groups = r.Requester.Username, r.Requester.UID, r.Requester.Groups
		cr.Spec.Extra = extra[[]string](r.Requester)
		return json.Marshal(cr)
	case *certificatesv1beta1.PodCertificateRequest:
		pcr := &certificatesv1beta1.PodCertificateRequest{ObjectMeta: metadata(object.ObjectMeta), Spec: object.Spec}
		pcr.SetGroupVersionKind(certificatesv1beta1.SchemeGroupVersion.WithKind("PodCertificateRequest"))
		return json.Marshal(pcr)
	default:
		return nil, fmt.Errorf("a request made from a %T cannot be logged", object)
	}
}

func metadata(object metav1.ObjectMeta) metav1.ObjectMeta {
	object.ManagedFields = nil
	return object
}

func extra[V ~[]string](who request.Requester) map[string]V {
	var all map[string]V
	for key, values := range who.Extra {
		if all == nil {
			all = map[string]V{}
		}
		all[key] = values
	}
	return all
}
