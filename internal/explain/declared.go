package explain

import (
	"cmp"
	"context"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/profile"
	"github.com/certplane/certplane/internal/policy/request"
)

// declarer returns the Signer that declares a signer name, the oldest if there
// are several, or nil. It is not known if the caller may not list Signers.
func declarer(ctx context.Context, api Reader, signerName string) (signer *v1alpha1.Signer, known bool, err error) {
	list := &v1alpha1.SignerList{}
	switch err := api.List(ctx, list, forSigner(signerName)); {
	case apierrors.IsForbidden(err):
		return nil, false, nil
	case apierrors.IsNotFound(err), err == nil && len(list.Items) == 0:
		return nil, true, nil
	case err != nil:
		return nil, false, err
	}
	oldest := slices.MinFunc(list.Items, func(a, b v1alpha1.Signer) int {
		return cmp.Or(a.CreationTimestamp.Time.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return &oldest, true, nil
}

// findDeclared finds the objection of a declared signer to the request.
func (f *facts) findDeclared(ctx context.Context, api Reader) error {
	if profiled(f.csr.Spec.SignerName) {
		return nil
	}
	signer, known, err := declarer(ctx, api, f.csr.Spec.SignerName)
	if f.declarersUnknown = !known; err != nil || signer == nil {
		return err
	}
	f.declared = signer
	compiled, errs := profile.Compile(signer.Spec, field.NewPath("spec"))
	if len(errs) > 0 {
		f.objection = errs.ToAggregate()
		return nil
	}
	facts := request.FromCSR(f.csr)
	if _, err = facts.Parsed(); err == nil {
		_, err = compiled.Decide(facts)
	}
	f.objection = err
	return nil
}
