package acmeserver

import (
	"errors"
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/rfc8555"
)

// event records what has happened to an object, if anybody is told.
func (x *exchange) event(about runtime.Object, kind, reason, action, message string) {
	if x.Events != nil {
		x.Events.Eventf(about, nil, kind, reason, action, "%s", message)
	}
}

// refused records that a client was refused something.
func (x *exchange) refused(about runtime.Object, action string, p *rfc8555.Problem) {
	x.event(about, corev1.EventTypeWarning, "Refused", action, p.Detail)
}

// refusedBy is refused if an error is a refusal, and not a fault of ours.
func (x *exchange) refusedBy(about runtime.Object, action string, err error) {
	if p := new(rfc8555.Problem); errors.As(err, &p) {
		x.refused(about, action, p)
	}
}

// revoked records that a client has revoked a certificate.
func (x *exchange) revoked(o *v1alpha1.AcmeOrder) {
	r := o.Status.Certificate.Revoked
	x.event(o, corev1.EventTypeWarning, "Revoked", "Revoke", fmt.Sprintf("the revocation of the certificate %s is recorded, for the reason %d, by %s: no revocation list has it", o.Status.Certificate.Serial, r.Reason, r.By))
}

// bound records that an external key was used.
func (x *exchange) bound(k *v1alpha1.AcmeExternalKey) {
	x.event(k, corev1.EventTypeNormal, "AccountBound", "Bind", "an account was made with the key, from "+addressText(x.address))
	if k.Spec.MaxAccounts > 0 && k.Status.Accounts >= k.Spec.MaxAccounts {
		x.event(k, corev1.EventTypeNormal, "LastUseTaken", "Bind", "no further accounts can be made with the key (maxAccounts)")
	}
}

// addressText is empty if the address is not known.
func addressText(a netip.Addr) string {
	if !a.IsValid() {
		return ""
	}
	return a.String()
}
