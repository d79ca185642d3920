package explain

import (
	"context"
	"fmt"
	"strings"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/policy/requests"
)

// RequestFacts are the API's data about a CertificateRequest.
type RequestFacts struct {
	Query
	Request *cmv1.CertificateRequest
	Events  Events

	issuer *IssuerFacts
	// mayApprove reports whether the caller may approve the request.
	mayApprove Result
	// approvers are the accounts in approverAccounts that may approve the
	// request. approver is one that may approve, but not for this issuer. Both
	// are unknown if the caller may not ask.
	approvers        []string
	approver         string
	approversUnknown bool
	// mayGrant reports whether the caller may permit that approver to approve.
	mayGrant Result
	// key is whether the Secret with the key for a SelfSigned issuer exists. It
	// is Unknown if the caller may not know, and empty if no Secret is needed.
	key Result
	// otherwise is what to do if the issuer is the wrong one.
	otherwise string
}

// get reads the object of cert-manager.io to explain.
func get(ctx context.Context, api Reader, q Query, kind string, into client.Object) error {
	resource := strings.ToLower(kind) + "s." + certmanager.Group
	switch err := api.Get(ctx, client.ObjectKey{Namespace: q.Namespace, Name: q.Name}, into); {
	case lacksKind(err):
		return &NotFoundError{Message: "the server has no " + resource, KindMissing: true, Next: []Step{{Text: "Install the kinds of cert-manager.io there."}}}
	case apierrors.IsNotFound(err):
		return &NotFoundError{
			Message: fmt.Sprintf("there is no %s named %s in the namespace %s", kind, q.Name, q.Namespace),
			Next: append(others(ctx, api, q, strings.ToLower(kind)),
				step("To see which there are:", q.kubectl("get", resource, "--all-namespaces"))),
		}
	default:
		return reading("reading the "+kind, err)
	}
}

func gatherRequest(ctx context.Context, api Reader, cr *cmv1.CertificateRequest, q Query) (*RequestFacts, error) {
	f := &RequestFacts{Query: q, Request: cr, otherwise: anotherRequest}
	var err error
	if f.issuer, err = findIssuer(ctx, api, cr.Spec.IssuerRef, cr.Namespace); err != nil {
		return nil, err
	}
	for _, part := range []func(context.Context, Reader) error{f.askApproval, f.askApprovers, f.findKey} {
		if err := part(ctx, api); err != nil {
			return nil, err
		}
	}
	f.Events, err = eventsOf(ctx, api, cr)
	return f, err
}

// askApproval asks whether the caller may approve.
func (f *RequestFacts) askApproval(ctx context.Context, api Reader) error {
	if !requests.Undecided(f.Request) {
		return nil
	}
	allowed, err := mayI(ctx, api, f.update())
	if err == nil && allowed == Yes {
		allowed, err = f.anyName(func(access authorizationv1.ResourceAttributes) (Result, error) {
			return mayI(ctx, api, access)
		})
	}
	f.mayApprove = allowed
	return err
}

// update returns the attributes of the update that approves a request.
func (f *RequestFacts) update() authorizationv1.ResourceAttributes {
	return authorizationv1.ResourceAttributes{
		Verb: "update", Group: certmanager.Group, Version: "*", Resource: "certificaterequests", Subresource: "status",
		Namespace: f.Request.Namespace, Name: f.Request.Name,
	}
}

// names returns the names under which the permission to approve is granted;
// none while no API has the issuer's kind.
func (f *RequestFacts) names() []string {
	if f.issuer.resource.Name == "" {
		return nil
	}
	return certmanager.ApprovalNames(f.Request.Spec.IssuerRef, f.issuer.resource, f.Request.Namespace)
}

// anyName asks about the permission to approve by each of its names.
func (f *RequestFacts) anyName(ask func(authorizationv1.ResourceAttributes) (Result, error)) (Result, error) {
	for _, name := range f.names() {
		access := authorizationv1.ResourceAttributes{Verb: "approve", Group: certmanager.Group, Version: "*", Resource: "signers", Name: name}
		if answer, err := ask(access); err != nil || answer != No {
			return answer, err
		}
	}
	return No, nil
}

// askApprovers asks which approvers may act without a person.
func (f *RequestFacts) askApprovers(ctx context.Context, api Reader) error {
	if !requests.Undecided(f.Request) || len(f.names()) == 0 {
		return nil
	}
	for _, account := range approverAccounts {
		ask := func(access authorizationv1.ResourceAttributes) (Result, error) {
			return may(ctx, api, asAccount(account, access))
		}
		writes, err := ask(f.update())
		if err != nil {
			return err
		}
		if writes == No {
			continue // this approver does not exist here
		}
		switch allowed, err := f.anyName(ask); {
		case err != nil:
			return err
		case writes == Unknown, allowed == Unknown:
			f.approversUnknown = true
			return nil
		case allowed == Yes:
			f.approvers = append(f.approvers, account)
		default:
			f.approver = account
		}
	}
	if f.approver == "" || len(f.approvers) > 0 {
		return nil
	}
	var err error
	f.mayGrant, err = mayGrant(ctx, api, "")
	return err
}

// findKey looks for the Secret with the key that a SelfSigned issuer signs with.
func (f *RequestFacts) findKey(ctx context.Context, api Reader) error {
	name := f.keySecret()
	if !f.issuer.selfSigned() || name == "" {
		return nil
	}
	_, found, err := findSecret(ctx, api, f.Request.Namespace, name, false)
	f.key = found
	return err
}

func (f *RequestFacts) keySecret() string {
	return f.Request.Annotations[cmv1.CertificateRequestPrivateKeyAnnotationKey]
}

// findSecret reads the metadata of a Secret, and its data only with contents.
func findSecret(ctx context.Context, api Reader, namespace, name string, contents bool) (*corev1.Secret, Result, error) {
	key := client.ObjectKey{Namespace: namespace, Name: name}
	found, metadata := &corev1.Secret{}, &metav1.PartialObjectMetadata{}
	metadata.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	var answer Result
	var err error
	if contents {
		answer, err = exists(ctx, api, key, found)
	} else {
		answer, err = exists(ctx, api, key, metadata)
		found.ObjectMeta = metadata.ObjectMeta
	}
	if answer != Yes {
		return nil, answer, err
	}
	return found, Yes, nil
}
