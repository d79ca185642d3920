package inbox

import (
	"fmt"
	"math"
	"time"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"

	"github.com/certplane/certplane/internal/api/certificates"
	"github.com/certplane/certplane/internal/client/explain"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/quorum"
)

// entry returns the entry of the request, without YouMayDecide.
func (f found) entry() Entry {
	state, reason := explain.StateOf(f.object)
	r := f.kind.View(f.object)
	e := Entry{
		Kind: string(f.kind.Name), Namespace: r.Namespace, Name: r.Name, UID: f.object.GetUID(),
		Signer: f.kind.Signer(f.object), Requester: r.Requester.Username,
		Usages: r.Usages, ExpirationSeconds: seconds(r.Duration), Created: r.Created,
		State: string(state), Reason: reason, object: f.object, resource: KindOf(f.kind),
	}
	switch {
	case r.PKCS10 != nil:
		e.Subject, e.Names, e.Key = r.PKCS10.Subject.String(), pki.RequestNames(r.PKCS10), pki.KeyName(r.Key)
	case r.Unreadable != nil:
		e.Subject = "cannot be read: " + r.Unreadable.Error()
	}
	if pods, ok := f.object.(*certificatesv1beta1.PodCertificateRequest); ok {
		e.Subject = fmt.Sprintf("pod %s, service account %s", pods.Spec.PodName, pods.Spec.ServiceAccountName)
	}
	for _, c := range f.kind.Conditions(f.object) {
		if c.Type == quorum.AwaitingApproval && state == certificates.Pending {
			e.Reason = c.Message
		}
	}
	return e
}

func seconds(d *time.Duration) *int32 {
	if d == nil {
		return nil
	}
	return new(int32(min(*d/time.Second, math.MaxInt32)))
}
