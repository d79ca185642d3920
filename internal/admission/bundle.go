package admission

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/certplane/certplane/internal/api/trustmanager"
)

// bundle refuses Bundles that cannot work.
type bundle struct{ *admission.Handler }

var _ admission.ValidationInterface = &bundle{}

func newBundle(authorizer.UnconditionalAuthorizer) admission.Interface {
	return &bundle{admission.NewHandler(admission.Create, admission.Update)}
}

// Validate implements admission.ValidationInterface.
func (*bundle) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	object, _ := a.GetObject().(*unstructured.Unstructured)
	if err := trustmanager.Check(a.GetResource().GroupResource(), a.GetSubresource(), object); err != nil {
		return admission.NewForbidden(a, err)
	}
	return nil
}
