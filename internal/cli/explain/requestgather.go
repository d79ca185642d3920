package explain

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/cli/advice"
	"github.com/certplane/certplane/internal/cli/exit"
	"github.com/certplane/certplane/internal/cli/shell"
	"github.com/certplane/certplane/internal/policy/requests"
)

// requestFacts are what the API tells of a CertificateRequest.
type requestFacts struct {
	Config
	cr     *cmv1.CertificateRequest
	now    time.Time
	issuer *issuerFacts
	// mayApprove tells whether the caller may approve the request.
	mayApprove Result
	// approvers are those of approverAccounts that may approve it, approver is one
	// that may approve, but not for this issuer. Which may is unknown if the caller
	// may not ask.
	approvers        []string
	approver         string
	approversUnknown bool
	// mayGrant reports whether the caller may let that approver approve.
	mayGrant Result
	// key is whether the Secret exists that a SelfSigned issuer signs with; it is
	// Unknown if the caller may not know, and empty if none is needed.
	key Result
	// events are unknown if the caller may not list them.
	events facts
	// otherwise is what to do where the issuer is the wrong one.
	otherwise string
}

// approverAccounts approve every request that they may approve: those of
// certplane's server and of its controllers in a cluster, and that of
// cert-manager.
var approverAccounts = []string{
	"kube-system/cert-manager-certificaterequests-approver",
	"certplane-system/cert-manager-certificaterequests-approver",
	"cert-manager/cert-manager",
}

// get reads the object that is to be explained.
func get(ctx context.Context, clients *Clients, resource schema.GroupVersionResource, cfg Config, kind string, into any) error {
	object, err := clients.Dynamic.Resource(resource).Namespace(cfg.Namespace).Get(ctx, cfg.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse):
		return exit.WithNext(fmt.Errorf("the server has no %s", resource.GroupResource()), "Install the kinds of cert-manager.io there.")
	case apierrors.IsNotFound(err):
		return exit.WithNext(fmt.Errorf("there is no %s named %s in the namespace %s", kind, cfg.Name, cfg.Namespace), append(others(ctx, clients, cfg, strings.ToLower(kind)),
			"To see which there are:", "  "+shell.Line(cfg.kubectl("get", resource.GroupResource().String(), "--all-namespaces")...))...)
	case err != nil:
		return advice.On("reading the "+kind, err)
	}
	return runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, into)
}

func gatherRequest(ctx context.Context, clients *Clients, cr *cmv1.CertificateRequest, cfg Config) (*requestFacts, error) {
	f := &requestFacts{Config: cfg, cr: cr, now: cfg.Now(), otherwise: anotherRequest}
	var err error
	if f.issuer, err = findIssuer(ctx, clients, cr.Spec.IssuerRef, cr.Namespace); err != nil {
		return nil, err
	}
	for _, part := range []func(context.Context, *Clients) error{f.askApproval, f.askApprovers, f.findKey} {
		if err := part(ctx, clients); err != nil {
			return nil, err
		}
	}
	return f, f.events.listEventsOf(ctx, clients.Kubernetes, cr.Namespace, cr.UID)
}

// askApproval asks whether the caller may approve.
func (f *requestFacts) askApproval(ctx context.Context, clients *Clients) error {
	if !requests.Undecided(f.cr) {
		return nil
	}
	allowed, err := mayI(ctx, clients.Kubernetes, f.update())
	if err == nil && allowed == Yes {
		allowed, err = f.anyName(func(access authorizationv1.ResourceAttributes) (Result, error) {
			return mayI(ctx, clients.Kubernetes, access)
		})
	}
	f.mayApprove = allowed
	return err
}

// update is the write by which a request is approved.
func (f *requestFacts) update() authorizationv1.ResourceAttributes {
	return authorizationv1.ResourceAttributes{
		Verb: "update", Group: certmanager.Group, Version: "*", Resource: "certificaterequests", Subresource: "status",
		Namespace: f.cr.Namespace, Name: f.cr.Name,
	}
}

// names are those under which the right to approve is granted; there are none
// while nobody serves the issuer's kind.
func (f *requestFacts) names() []string {
	if f.issuer.resource.Name == "" {
		return nil
	}
	return certmanager.ApprovalNames(f.cr.Spec.IssuerRef, f.issuer.resource, f.cr.Namespace)
}

// anyName asks about the right to approve by each of its names.
func (f *requestFacts) anyName(ask func(authorizationv1.ResourceAttributes) (Result, error)) (Result, error) {
	for _, name := range f.names() {
		access := authorizationv1.ResourceAttributes{Verb: "approve", Group: certmanager.Group, Version: "*", Resource: "signers", Name: name}
		if answer, err := ask(access); err != nil || answer != No {
			return answer, err
		}
	}
	return No, nil
}

// askApprovers asks who approves without a person.
func (f *requestFacts) askApprovers(ctx context.Context, clients *Clients) error {
	if !requests.Undecided(f.cr) || len(f.names()) == 0 {
		return nil
	}
	for _, account := range approverAccounts {
		ask := func(access authorizationv1.ResourceAttributes) (Result, error) {
			return may(ctx, clients.Kubernetes, asAccount(account, access))
		}
		writes, err := ask(f.update())
		if err != nil {
			return err
		}
		if writes == No {
			continue // there is no such approver here
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
	f.mayGrant, err = mayGrant(ctx, clients.Kubernetes, "")
	return err
}

// asAccount is about a service account.
func asAccount(account string, access authorizationv1.ResourceAttributes) authorizationv1.SubjectAccessReviewSpec {
	namespace, name, _ := strings.Cut(account, "/")
	return authorizationv1.SubjectAccessReviewSpec{
		User:               "system:serviceaccount:" + namespace + ":" + name,
		Groups:             []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"},
		ResourceAttributes: &access,
	}
}

// findKey looks for the Secret with the key that a SelfSigned issuer signs with.
func (f *requestFacts) findKey(ctx context.Context, clients *Clients) error {
	name := f.keySecret()
	if !f.issuer.selfSigned() || name == "" {
		return nil
	}
	_, exists, err := secretMetadata(ctx, clients, f.cr.Namespace, name)
	f.key = exists
	return err
}

func (f *requestFacts) keySecret() string {
	return f.cr.Annotations[cmv1.CertificateRequestPrivateKeyAnnotationKey]
}

// secretMetadata tells of a Secret without reading what it holds.
func secretMetadata(ctx context.Context, clients *Clients, namespace, name string) (*corev1.Secret, Result, error) {
	data, err := clients.Kubernetes.CoreV1().RESTClient().Get().Namespace(namespace).Resource("secrets").Name(name).
		SetHeader("Accept", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1").DoRaw(ctx)
	switch {
	case apierrors.IsNotFound(err):
		return nil, No, nil
	case apierrors.IsForbidden(err):
		return nil, Unknown, nil
	case err != nil:
		return nil, Unknown, err
	}
	found := &metav1.PartialObjectMetadata{}
	if err := json.Unmarshal(data, found); err != nil {
		return nil, Unknown, fmt.Errorf("reading the metadata of secret %s/%s: %w", namespace, name, err)
	}
	return &corev1.Secret{ObjectMeta: found.ObjectMeta}, Yes, nil
}
