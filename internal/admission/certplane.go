package admission

import (
	"context"
	"errors"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/dynamic"

	"github.com/certplane/certplane/internal/admission/certplane"
)

// signerDeclaration refuses Signers that cannot work.
type signerDeclaration struct {
	*admission.Handler
	checks *certplane.Checks
}

var (
	_ admission.ValidationInterface  = &signerDeclaration{}
	_ initializer.WantsDynamicClient = &signerDeclaration{}
)

func newDeclaration(authorizer.UnconditionalAuthorizer) admission.Interface {
	return &signerDeclaration{Handler: admission.NewHandler(admission.Create, admission.Update)}
}

// SetDynamicClient implements initializer.WantsDynamicClient.
func (p *signerDeclaration) SetDynamicClient(client dynamic.Interface) {
	if client != nil {
		p.checks = certplane.New(client)
	}
}

// ValidateInitialization implements admission.InitializationValidator.
func (p *signerDeclaration) ValidateInitialization() error {
	if p.checks == nil {
		return errors.New("missing the client that finds Signers")
	}
	return nil
}

// Validate implements admission.ValidationInterface.
func (p *signerDeclaration) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetResource().GroupResource() != certplane.Resource.GroupResource() {
		return nil
	}
	object, _ := a.GetObject().(*unstructured.Unstructured)
	old, _ := a.GetOldObject().(*unstructured.Unstructured)
	invalid := p.checks.Validate(ctx, certplane.Request{
		Operation: admissionv1.Operation(a.GetOperation()), Subresource: a.GetSubresource(), Name: a.GetName(), Object: object, Old: old,
	})
	if invalid != nil { // a nil pointer would be an error
		return invalid
	}
	return nil
}
