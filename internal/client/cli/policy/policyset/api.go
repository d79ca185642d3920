package policyset

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/certpolicy"
)

// FromAPI reads the policies and exceptions of an API.
func FromAPI(ctx context.Context, api client.Reader) (*certpolicy.Set, error) {
	policies, exceptions, err := List(ctx, api)
	if err != nil {
		return nil, err
	}
	return certpolicy.NewSet(policies, exceptions), nil
}

// List returns the policies and exceptions of an API.
func List(ctx context.Context, api client.Reader) ([]*v1alpha1.CertificatePolicy, []*v1alpha1.CertificatePolicyException, error) {
	policies, exceptions := &v1alpha1.CertificatePolicyList{}, &v1alpha1.CertificatePolicyExceptionList{}
	for _, list := range []client.ObjectList{policies, exceptions} {
		switch err := api.List(ctx, list); {
		case meta.IsNoMatchError(err):
			return nil, nil, fmt.Errorf("the server has no kind CertificatePolicy of %s: it is not certplane, or an older version", v1alpha1.GroupVersion)
		case err != nil:
			return nil, nil, err
		}
	}
	var p []*v1alpha1.CertificatePolicy
	for i := range policies.Items {
		p = append(p, &policies.Items[i])
	}
	var x []*v1alpha1.CertificatePolicyException
	for i := range exceptions.Items {
		x = append(x, &exceptions.Items[i])
	}
	return p, x, nil
}
