package explain

import (
	"context"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/certificates"
	"github.com/certplane/certplane/internal/policy/approval"
)

// facts are the API's data about a request.
type facts struct {
	Query
	csr *csr
	// known are the recognisers that know the request; permitted says for each
	// of them whether the requester has the permission that it requires.
	known     []approval.Recogniser
	permitted []Result
	// mayGrant reports whether the caller may grant a missing permission.
	mayGrant Result
	// declared is the Signer that declares the request's signer; nil if there
	// is none. It is unknown if the caller may not list Signers.
	declared         *v1alpha1.Signer
	declarersUnknown bool
	// referral is about the issuer that the request names as its signer; nil if it
	// names none.
	referral *referral
	// objection is the signer's objection to the request, or nil.
	objection error
	// mayApprove reports whether the caller may approve the request.
	mayApprove Result
	// signers are the accounts in signerAccounts that may sign the request.
	// They are unknown if the caller may not ask.
	signers        []string
	signersUnknown bool
	events         Events
}

func gather(ctx context.Context, api Reader, q Query) (*facts, error) {
	c := &csr{}
	err := api.Get(ctx, client.ObjectKey{Name: q.Name}, c)
	if apierrors.IsNotFound(err) && !lacksKind(err) {
		return nil, &NotFoundError{Message: "there is no certificate signing request named " + q.Name, Next: append(others(ctx, api, q, "csr"),
			step("A request is deleted some time after it was decided. To see which there are:", q.kubectl("get", "csr")))}
	}
	if err != nil {
		return nil, reading("reading the request", err)
	}
	f := &facts{Query: q, csr: c, objection: objection(c, q.Now)}
	if err := f.findDeclared(ctx, api); err != nil {
		return nil, reading("looking for the signer", err)
	}
	if err := f.findReferral(ctx, api); err != nil {
		return nil, reading("looking for the issuer", err)
	}
	for _, part := range []func(context.Context, Reader) error{f.askPermission, f.askApproval, f.askSigners} {
		if err := part(ctx, api); err != nil {
			return nil, reading("finding out about the request", err)
		}
	}
	f.events, err = eventsOf(ctx, api, c)
	return f, reading("finding out about the request", err)
}

// askPermission asks for the permission that the approver checks.
func (f *facts) askPermission(ctx context.Context, api Reader) error {
	if certificates.Judge(f.csr).State != certificates.Pending {
		return nil
	}
	known, err := approval.Policy{}.Recognise(f.csr)
	if err != nil {
		return nil // the check "policy" says why
	}
	f.known = known
	for _, recogniser := range known {
		allowed, err := may(ctx, api, recogniser.Permission(f.csr))
		if err != nil {
			return err
		}
		f.permitted = append(f.permitted, allowed)
	}
	if f.permission() == No {
		f.mayGrant, err = mayGrant(ctx, api, "")
	}
	return err
}

// mayGrant asks whether the caller may bind roles in a namespace, or in the
// whole cluster if namespace is empty.
func mayGrant(ctx context.Context, api Reader, namespace string) (Result, error) {
	bindings := "clusterrolebindings"
	if namespace != "" {
		bindings = "rolebindings"
	}
	return mayI(ctx, api, authorizationv1.ResourceAttributes{
		Verb: "create", Group: rbacv1.GroupName, Version: "*", Resource: bindings, Namespace: namespace,
	})
}

func (f *facts) askApproval(ctx context.Context, api Reader) error {
	if certificates.Judge(f.csr).State != certificates.Pending {
		return nil
	}
	allowed, err := mayI(ctx, api, certificateAccess("update", "certificatesigningrequests/approval", f.csr.Name))
	if err == nil && allowed == Yes {
		allowed, err = anySigner(f.csr.Spec.SignerName, func(name string) (Result, error) {
			return mayI(ctx, api, certificateAccess("approve", "signers", name))
		})
	}
	f.mayApprove = allowed
	return err
}

// anySigner asks about a signer by each of the names under which a permission
// for it can be granted.
func anySigner(signerName string, ask func(name string) (Result, error)) (Result, error) {
	domain, _, _ := strings.Cut(signerName, "/")
	for _, name := range []string{signerName, domain + "/*"} {
		if answer, err := ask(name); err != nil || answer != No {
			return answer, err
		}
	}
	return No, nil
}

func (f *facts) askSigners(ctx context.Context, api Reader) error {
	if state := certificates.Judge(f.csr).State; state != certificates.Pending && state != certificates.Approved {
		return nil
	}
	accounts := signerAccounts
	switch {
	case f.referral != nil:
		accounts = issuerAccounts
	case f.declared != nil: // these accounts may sign for any signer, and do so for declared ones
		accounts = declaredAccounts
	case f.declarersUnknown:
		accounts = slices.Concat(signerAccounts, declaredAccounts)
	}
	signers, known, err := whoMaySign(ctx, api, accounts, f.csr.Spec.SignerName)
	f.signers, f.signersUnknown = signers, !known
	return err
}

// whoMaySign returns which accounts may sign for a signer. known is false if
// the caller may not ask.
func whoMaySign(ctx context.Context, api Reader, accounts []string, signerName string) (signers []string, known bool, err error) {
	for _, account := range accounts {
		allowed, err := anySigner(signerName, func(name string) (Result, error) {
			return may(ctx, api, asAccount(account, certificateAccess("sign", "signers", name)))
		})
		switch {
		case err != nil:
			return nil, false, err
		case allowed == Unknown:
			return nil, false, nil
		case allowed == Yes:
			signers = append(signers, account)
		}
	}
	return signers, true, nil
}

func certificateAccess(verb, resource, name string) authorizationv1.ResourceAttributes {
	resource, subresource, _ := strings.Cut(resource, "/")
	return authorizationv1.ResourceAttributes{
		Verb: verb, Group: certificatesv1.GroupName, Version: "*", Resource: resource, Subresource: subresource, Name: name,
	}
}

// may asks whether another user may do something. Not every caller may ask
// that.
func may(ctx context.Context, api Reader, user authorizationv1.SubjectAccessReviewSpec) (Result, error) {
	return result(api.May(ctx, user))
}

// mayI asks whether the caller may do something.
func mayI(ctx context.Context, api Reader, access authorizationv1.ResourceAttributes) (Result, error) {
	return result(api.MayI(ctx, access))
}
