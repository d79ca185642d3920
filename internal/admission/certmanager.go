package admission

import (
	"context"
	"errors"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	webhookerrors "k8s.io/apiserver/pkg/admission/plugin/webhook/errors"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"

	"github.com/certplane/certplane/internal/admission/certmanager"
	api "github.com/certplane/certplane/internal/api/certmanager"
)

// certManager is the admission webhook of cert-manager.io, called inside the server.
// Its refusals have the webhook's form, because clients recognise it.
type certManager struct {
	*admission.Handler
	authz  authorizer.UnconditionalAuthorizer
	checks *certmanager.Checks
}

var (
	_ admission.MutationInterface            = &certManager{}
	_ admission.ValidationInterface          = &certManager{}
	_ admission.InitializationValidator      = &certManager{}
	_ initializer.WantsExternalKubeClientSet = &certManager{}
)

func newCertManager(authz authorizer.UnconditionalAuthorizer) admission.Interface {
	return &certManager{Handler: admission.NewHandler(admission.Create, admission.Update), authz: authz}
}

// SetExternalKubeClientSet sets the client that finds the kinds of issuers.
func (p *certManager) SetExternalKubeClientSet(client kubernetes.Interface) {
	p.checks = certmanager.New(discovery.ToDiscoveryInterfaceWithContext(client.Discovery()), access{p.authz}.authorize)
}

// ValidateInitialization returns an error if something is missing.
func (p *certManager) ValidateInitialization() error {
	if p.checks == nil {
		return errors.New("CertManager needs a client")
	}
	return nil
}

// Admit records the user who requests a certificate.
func (p *certManager) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if !isCertManager(a) {
		return nil
	}
	r := certManagerRequest(a)
	if r.Changes() {
		r.Object, _ = a.GetObject().(*unstructured.Unstructured)
	}
	if err := p.checks.Mutate(r); err != nil {
		return denied(err)
	}
	return nil
}

// Validate refuses objects that must not be stored.
func (p *certManager) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if !isCertManager(a) {
		return nil
	}
	r := certManagerRequest(a)
	r.Object, r.Old = readObjects(a)
	warnings, err := p.checks.Validate(ctx, r)
	for _, text := range warnings {
		warning.AddWarning(ctx, "", text)
	}
	if err != nil {
		return denied(err)
	}
	return nil
}

func isCertManager(a admission.Attributes) bool {
	group := a.GetResource().Group
	return group == api.Group || group == api.ACMEGroup
}

// certManagerRequest returns a without its objects.
func certManagerRequest(a admission.Attributes) certmanager.Request {
	return certmanager.Request{
		Operation:   admissionv1.Operation(a.GetOperation()),
		Kind:        a.GetKind(),
		Resource:    a.GetResource(),
		Subresource: a.GetSubresource(),
		Namespace:   a.GetNamespace(),
		User:        userOf(a),
	}
}

func denied(err error) error {
	return webhookerrors.ToStatusErr(certmanager.WebhookName, &metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: err.Error(),
	})
}
