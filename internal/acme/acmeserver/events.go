package acmeserver

import (
	"errors"
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/rfc8555"
)

// eventRecorder records what clients do to objects. Without an EventRecorder it records
// nothing.
type eventRecorder struct{ events.EventRecorder }

// event records what has happened to an object.
func (r eventRecorder) event(about runtime.Object, kind, reason, action, message string) {
	if r.EventRecorder != nil {
		r.Eventf(about, nil, kind, reason, action, "%s", message)
	}
}

// refused records that a client was refused something.
func (r eventRecorder) refused(about runtime.Object, action string, p *rfc8555.Problem) {
	r.event(about, corev1.EventTypeWarning, "Refused", action, p.Detail)
}

// refusedBy calls refused if an error is a refusal, not a fault of this server.
func (r eventRecorder) refusedBy(about runtime.Object, action string, err error) {
	if p := new(rfc8555.Problem); errors.As(err, &p) {
		r.refused(about, action, p)
	}
}

// revoked records that a client has revoked a certificate.
func (r eventRecorder) revoked(o *v1alpha1.AcmeOrder, published bool) {
	revoked := o.Status.Certificate.Revoked
	text := fmt.Sprintf("the revocation of the certificate %s is recorded, for the reason %d, by %s", o.Status.Certificate.Serial, revoked.Reason, revoked.By)
	if !published {
		text += ": no revocation list has it"
	}
	r.event(o, corev1.EventTypeWarning, "Revoked", "Revoke", text)
}

// bound records that an external key was used.
func (r eventRecorder) bound(k *v1alpha1.AcmeExternalKey, address netip.Addr) {
	r.event(k, corev1.EventTypeNormal, "AccountBound", "Bind", "an account was made with the key, from "+addressText(address))
	if k.Spec.MaxAccounts > 0 && k.Status.Accounts >= k.Spec.MaxAccounts {
		r.event(k, corev1.EventTypeNormal, "LastUseTaken", "Bind", "no further accounts can be made with the key (maxAccounts)")
	}
}

// addressText is empty if the address is not known.
func addressText(a netip.Addr) string {
	if !a.IsValid() {
		return ""
	}
	return a.String()
}
