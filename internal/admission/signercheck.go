package admission

import (
	"context"
	"fmt"

	"k8s.io/apiserver/pkg/admission"
)

// signerCheck lets a user do something only if the user may do it for the
// signer in question.
type signerCheck struct {
	*admission.Handler
	signers signers
	// verb is what the user must be allowed to do with the signer.
	verb string
	// action describes it in a refusal.
	action string
	// about returns the signer. asks is false if the request needs no
	// permission.
	about func(a admission.Attributes) (signerName string, asks bool, err error)
}

var _ admission.ValidationInterface = signerCheck{}

// Validate implements admission.ValidationInterface.
func (p signerCheck) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	signerName, asks, err := p.about(a)
	if err != nil || !asks {
		return err
	}
	if !p.signers.allow(ctx, a.GetUserInfo(), p.verb, signerName) {
		return admission.NewForbidden(a, fmt.Errorf("user not permitted to %s signerName %q", p.action, signerName))
	}
	return nil
}
