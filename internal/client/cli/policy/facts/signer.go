package facts

import (
	"cmp"
	"context"
	"crypto/x509"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/client/explain"
	"github.com/certplane/certplane/internal/policy/profile"
	"github.com/certplane/certplane/internal/policy/request"
)

// Prospective implements Source.
func (f *Finder) Prospective(ctx context.Context, r *request.Request, now time.Time) (cert *x509.Certificate, own bool) {
	if r.Kind != v1alpha1.PodCertificateRequests {
		return nil, false
	}
	declaration := f.declarer(ctx, r.SignerName)
	if declaration == nil || r.Pod == nil {
		return nil, declaration != nil
	}
	cert, err := explain.Prospective(ctx, declaration, *r, now)
	if err != nil {
		f.failed(fmt.Errorf("the signer %s would refuse the request %s: %w", r.SignerName, r.Name, err))
		return nil, true
	}
	return cert, true
}

// declarer returns the Signer that declares a signer, the oldest of several; nil if none
// is known.
func (f *Finder) declarer(ctx context.Context, name string) *v1alpha1.Signer {
	all := &v1alpha1.SignerList{}
	if err := f.Objects.List(ctx, all); err != nil {
		if !meta.IsNoMatchError(err) {
			f.failed(fmt.Errorf("listing signers: %w", err))
		}
		return nil
	}
	named := slices.DeleteFunc(all.Items, func(s v1alpha1.Signer) bool { return s.Spec.SignerName != name })
	if len(named) == 0 {
		return nil
	}
	oldest := slices.MinFunc(named, func(a, b v1alpha1.Signer) int {
		return cmp.Or(a.CreationTimestamp.Time.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return &oldest
}

// signerNeedsServices reports whether a signer issues certificates for Services.
func (f *Finder) signerNeedsServices(ctx context.Context, name string) bool {
	declaration := f.declarer(ctx, name)
	if declaration == nil {
		return false
	}
	compiled, errs := profile.Compile(declaration.Spec, field.NewPath("spec"))
	return len(errs) == 0 && compiled.NeedsServices()
}
