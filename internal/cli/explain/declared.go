package explain

import (
	"cmp"
	"context"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/profile"
)

// declarer returns the Signer that declares a signer name, of several the
// oldest, or nil. It is not known to whoever may not list Signers.
func declarer(ctx context.Context, clients *Clients, signerName string) (signer *v1alpha1.Signer, known bool, err error) {
	list, err := clients.Dynamic.Resource(signersResource).List(ctx, forSigner(signerName))
	switch {
	case apierrors.IsForbidden(err):
		return nil, false, nil
	case apierrors.IsNotFound(err), err == nil && len(list.Items) == 0:
		return nil, true, nil
	case err != nil:
		return nil, false, err
	}
	oldest := slices.MinFunc(list.Items, func(a, b unstructured.Unstructured) int {
		return cmp.Or(a.GetCreationTimestamp().Time.Compare(b.GetCreationTimestamp().Time), cmp.Compare(a.GetName(), b.GetName()))
	})
	signer = &v1alpha1.Signer{}
	return signer, true, runtime.DefaultUnstructuredConverter.FromUnstructured(oldest.Object, signer)
}

// findDeclared asks a declared signer what it has against the request.
func (f *facts) findDeclared(ctx context.Context, clients *Clients) error {
	if profiled(f.csr.Spec.SignerName) || clients.Dynamic == nil {
		return nil
	}
	signer, known, err := declarer(ctx, clients, f.csr.Spec.SignerName)
	if f.declarersUnknown = !known; err != nil || signer == nil {
		return err
	}
	f.declared = signer
	compiled, errs := profile.Compile(signer.Spec, field.NewPath("spec"))
	if len(errs) > 0 {
		f.objection = errs.ToAggregate()
		return nil
	}
	facts, err := profile.FactsOfCSR(f.csr)
	if err == nil {
		_, err = compiled.Decide(facts)
	}
	f.objection = err
	return nil
}
