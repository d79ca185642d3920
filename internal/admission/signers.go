package admission

import (
	"context"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/klog/v2"
)

// signers checks the rights of users on signers. A signer is not an object: its name is
// only a resource name in authorization rules.
type signers struct {
	authz authorizer.UnconditionalAuthorizer
}

// MaySign returns a function that reports whether a user may sign for a signer,
// for kinds whose storage checks this itself.
func MaySign(authz authorizer.UnconditionalAuthorizer) func(ctx context.Context, who user.Info, signerName string) bool {
	return func(ctx context.Context, who user.Info, signerName string) bool {
		return signers{authz}.allow(ctx, who, "sign", signerName)
	}
}

// allow reports whether requester may do verb with the signer, by its name or
// by "<domain>/*". Each is asked separately: refusing the name does not refuse
// the domain.
func (s signers) allow(ctx context.Context, requester user.Info, verb, signerName string) bool {
	if requester == nil {
		return false
	}
	domain, _, _ := strings.Cut(signerName, "/")
	return s.allowName(ctx, requester, verb, signerName) || s.allowName(ctx, requester, verb, domain+"/*")
}

// allowName fails closed: with an error the answer is no, whatever the decision
// is.
func (s signers) allowName(ctx context.Context, requester user.Info, verb, name string) bool {
	decision, reason, err := s.authz.Authorize(ctx, authorizer.AttributesRecord{
		User:            requester,
		Verb:            verb,
		APIGroup:        certificatesv1.GroupName,
		APIVersion:      "*",
		Resource:        "signers",
		Name:            name,
		ResourceRequest: true,
	})
	logger := klog.FromContext(ctx)
	switch {
	case err != nil:
		logger.V(3).Info("Cannot authorize the use of a signer", "user", requester.GetName(), "verb", verb, "signer", name, "err", err)
		return false
	case decision != authorizer.DecisionAllow:
		logger.V(4).Info("Use of a signer is not allowed", "user", requester.GetName(), "verb", verb, "signer", name, "reason", reason)
		return false
	default:
		return true
	}
}
