package inbox

import (
	"fmt"
	"math"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/api/certificates"
	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/explain"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/quorum"
	"github.com/certplane/certplane/internal/policy/request"
)

func ofSigningRequest(csr *certificatesv1.CertificateSigningRequest) Entry {
	e := entry(csr, request.FromCSR(csr))
	if c := certificates.Condition(csr, quorum.AwaitingApproval); c != nil && e.State == string(certificates.Pending) {
		e.Reason = c.Message
	}
	return e
}

func ofIssuerRequest(cr *cmv1.CertificateRequest) Entry {
	e := entry(cr, request.FromCertificateRequest(cr))
	e.Signer = certmanager.SignerText(cr)
	if c := certmanager.RequestCondition(cr, quorum.AwaitingApproval); c != nil && e.State == string(certificates.Pending) {
		e.Reason = c.Message
	}
	return e
}

func ofPodRequest(req *certificatesv1beta1.PodCertificateRequest) Entry {
	e := entry(req, request.FromPodRequest(req))
	e.Subject = fmt.Sprintf("pod %s, service account %s", req.Spec.PodName, req.Spec.ServiceAccountName)
	return e
}

// entry returns what requests of all kinds have in common.
func entry(object client.Object, r request.Request) Entry {
	state, reason := explain.StateOf(object)
	e := Entry{
		Namespace: r.Namespace, Name: r.Name, UID: object.GetUID(),
		Signer: r.SignerName, Requester: r.Requester.Username,
		Usages: r.Usages, ExpirationSeconds: seconds(r.Duration), Created: r.Created,
		State: string(state), Reason: reason, object: object,
	}
	switch {
	case r.PKCS10 != nil:
		e.Subject, e.Names, e.Key = r.PKCS10.Subject.String(), pki.RequestNames(r.PKCS10), pki.KeyName(r.Key)
	case r.Unreadable != nil:
		e.Subject = "cannot be read: " + r.Unreadable.Error()
	}
	return e
}

func seconds(d *time.Duration) *int32 {
	if d == nil {
		return nil
	}
	return new(int32(min(*d/time.Second, math.MaxInt32)))
}
