package explain

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/certificates"
	apievents "github.com/certplane/certplane/internal/api/events"
	"github.com/certplane/certplane/internal/cli/advice"
	"github.com/certplane/certplane/internal/cli/exit"
	"github.com/certplane/certplane/internal/cli/shell"
	"github.com/certplane/certplane/internal/policy/approval"
)

// facts are what the API tells of a request.
type facts struct {
	Config
	csr *csr
	now time.Time
	// known are the recognisers that know the request; permitted tells for
	// each whether the requester has the permission that it takes.
	known     []approval.Recogniser
	permitted []Result
	// mayGrant reports whether the caller may give a permission that is missing.
	mayGrant Result
	// declared is the Signer that declares the request's signer; nil if there
	// is none. It is unknown to whoever may not list Signers.
	declared         *v1alpha1.Signer
	declarersUnknown bool
	// referral is about the issuer that the request names as its signer; nil if it
	// names none.
	referral *referral
	// objection is what the signer has against the request, or nil.
	objection error
	// mayApprove tells whether the caller may approve the request.
	mayApprove Result
	// signers are those of signerAccounts that may sign it. They are unknown
	// if the caller may not ask.
	signers        []string
	signersUnknown bool
	// events are unknown if the caller may not list them.
	events        []eventsv1.Event
	eventsUnknown bool
}

// signerAccounts are the service accounts that sign: those of certplane's
// server, those of its controllers in a cluster, and that of
// kube-controller-manager.
var signerAccounts = []string{
	"kube-system/csr-signer", "kube-system/csr-webhook-signer",
	"certplane-system/csr-signer", "certplane-system/csr-webhook-signer",
	"kube-system/certificate-controller",
}

func gather(ctx context.Context, clients *Clients, cfg Config) (*facts, error) {
	client, now := clients.Kubernetes, cfg.Now()
	c, err := client.CertificatesV1().CertificateSigningRequests().Get(ctx, cfg.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) && !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse) {
		return nil, exit.WithNext(fmt.Errorf("there is no certificate signing request named %s", cfg.Name), append(others(ctx, clients, cfg, "csr"),
			"A request is deleted some time after it was decided. To see which there are:", "  "+shell.Line(cfg.kubectl("get", "csr")...))...)
	}
	if err != nil {
		return nil, advice.On("reading the request", err)
	}
	f := &facts{Config: cfg, csr: c, now: now, objection: objection(c, now)}
	if err := f.findDeclared(ctx, clients); err != nil {
		return nil, advice.On("looking for the signer", err)
	}
	if err := f.findReferral(ctx, clients); err != nil {
		return nil, advice.On("looking for the issuer", err)
	}
	for _, part := range []func(context.Context, kubernetes.Interface) error{f.askPermission, f.askApproval, f.askSigners, f.listEvents} {
		if err := part(ctx, client); err != nil {
			return nil, advice.On("finding out about the request", err)
		}
	}
	return f, nil
}

// askPermission asks what the approver asks.
func (f *facts) askPermission(ctx context.Context, client kubernetes.Interface) error {
	if certificates.Judge(f.csr).State != certificates.Pending {
		return nil
	}
	known, err := approval.Policy{}.Recognise(f.csr)
	if err != nil {
		return nil // policy tells why
	}
	f.known = known
	for _, recogniser := range known {
		allowed, err := may(ctx, client, recogniser.Permission(f.csr))
		if err != nil {
			return err
		}
		f.permitted = append(f.permitted, allowed)
	}
	if f.permission() == No {
		f.mayGrant, err = mayGrant(ctx, client, "")
	}
	return err
}

// mayGrant asks whether the caller may bind roles in a namespace; in none: in the
// whole cluster.
func mayGrant(ctx context.Context, client kubernetes.Interface, namespace string) (Result, error) {
	bindings := "clusterrolebindings"
	if namespace != "" {
		bindings = "rolebindings"
	}
	return mayI(ctx, client, authorizationv1.ResourceAttributes{
		Verb: "create", Group: rbacv1.GroupName, Version: "*", Resource: bindings, Namespace: namespace,
	})
}

func (f *facts) askApproval(ctx context.Context, client kubernetes.Interface) error {
	if certificates.Judge(f.csr).State != certificates.Pending {
		return nil
	}
	allowed, err := mayI(ctx, client, certificateAccess("update", "certificatesigningrequests/approval", f.csr.Name))
	if err == nil && allowed == Yes {
		allowed, err = anySigner(f.csr.Spec.SignerName, func(name string) (Result, error) {
			return mayI(ctx, client, certificateAccess("approve", "signers", name))
		})
	}
	f.mayApprove = allowed
	return err
}

// anySigner asks about a signer by each of the names under which a right on it
// can be granted.
func anySigner(signerName string, ask func(name string) (Result, error)) (Result, error) {
	domain, _, _ := strings.Cut(signerName, "/")
	for _, name := range []string{signerName, domain + "/*"} {
		if answer, err := ask(name); err != nil || answer != No {
			return answer, err
		}
	}
	return No, nil
}

func (f *facts) askSigners(ctx context.Context, client kubernetes.Interface) error {
	if state := certificates.Judge(f.csr).State; state != certificates.Pending && state != certificates.Approved {
		return nil
	}
	accounts := signerAccounts
	switch {
	case f.referral != nil:
		accounts = issuerAccounts
	case f.declared != nil: // those may sign for any signer, and do so for declared ones
		accounts = declaredAccounts
	case f.declarersUnknown:
		accounts = slices.Concat(signerAccounts, declaredAccounts)
	}
	signers, known, err := whoMaySign(ctx, client, accounts, f.csr.Spec.SignerName)
	f.signers, f.signersUnknown = signers, !known
	return err
}

// whoMaySign returns which accounts may sign for a signer. It is not known to
// whoever may not ask.
func whoMaySign(ctx context.Context, client kubernetes.Interface, accounts []string, signerName string) (signers []string, known bool, err error) {
	for _, account := range accounts {
		allowed, err := anySigner(signerName, func(name string) (Result, error) {
			return may(ctx, client, asAccount(account, certificateAccess("sign", "signers", name)))
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

func (f *facts) listEvents(ctx context.Context, client kubernetes.Interface) error {
	return f.listEventsOf(ctx, client, metav1.NamespaceDefault, f.csr.UID)
}

func (f *facts) listEventsOf(ctx context.Context, client kubernetes.Interface, namespace string, uid types.UID) error {
	list, err := client.EventsV1().Events(namespace).List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("regarding.uid", string(uid)).String(),
	})
	if apierrors.IsForbidden(err) {
		f.eventsUnknown = true
		return nil
	}
	if err != nil {
		return err
	}
	f.events = list.Items
	slices.SortStableFunc(f.events, func(a, b eventsv1.Event) int { return apievents.LastSeen(a).Compare(apievents.LastSeen(b)) })
	return nil
}

func certificateAccess(verb, resource, name string) authorizationv1.ResourceAttributes {
	resource, subresource, _ := strings.Cut(resource, "/")
	return authorizationv1.ResourceAttributes{
		Verb: verb, Group: certificatesv1.GroupName, Version: "*", Resource: resource, Subresource: subresource, Name: name,
	}
}

// may asks what somebody else may do. Not everybody may ask that.
func may(ctx context.Context, client kubernetes.Interface, spec authorizationv1.SubjectAccessReviewSpec) (Result, error) {
	review := &authorizationv1.SubjectAccessReview{Spec: spec}
	answer, err := client.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
	return result(answer.Status.Allowed, err)
}

// mayI asks what the caller may do.
func mayI(ctx context.Context, client kubernetes.Interface, access authorizationv1.ResourceAttributes) (Result, error) {
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &access}}
	answer, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
	return result(answer.Status.Allowed, err)
}

func result(allowed bool, err error) (Result, error) {
	switch {
	case apierrors.IsForbidden(err):
		return Unknown, nil
	case err != nil:
		return Unknown, err
	case allowed:
		return Yes, nil
	}
	return No, nil
}
