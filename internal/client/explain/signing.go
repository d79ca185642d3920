package explain

import (
	"context"
	"crypto/x509"
	"errors"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/issuing/signer"
	"github.com/certplane/certplane/internal/issuing/signer/declared"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policies"
	"github.com/certplane/certplane/internal/policy/profile"
	"github.com/certplane/certplane/internal/policy/request"
)

// BuiltInSigners returns the names of the signers that need no Signer.
func BuiltInSigners() []string { return signer.Names() }

// profiled reports whether certplane implements the requirements of a signer.
func profiled(signerName string) bool { return slices.Contains(signer.Names(), signerName) }

// declarer returns the Signer that declares a signer name, the oldest of several, or nil.
// It is unknown if the caller may not list Signers.
func declarer(ctx context.Context, api Reader, signerName string) (declared *v1alpha1.Signer, known bool, err error) {
	all := &v1alpha1.SignerList{}
	if found, err := list(ctx, api, all, forSigner(signerName)); err != nil || len(all.Items) == 0 {
		return nil, found != Unknown, err
	}
	oldest := &all.Items[0]
	for i := range all.Items {
		if profile.Older(&all.Items[i], oldest) {
			oldest = &all.Items[i]
		}
	}
	return oldest, true, nil
}

// objection returns the objection of a known signer to a request, or nil. To find it, a
// temporary CA signs the request; the CA and the certificate are discarded. The check is
// therefore identical to the signer's and the linter's.
func objection(c *csr, now time.Time) error {
	profile, err := signer.Lookup(c.Spec.SignerName)
	if err != nil {
		return nil
	}
	_, err = signer.Local(profile, throwaway(now), pki.Unrecorded)(context.Background(), request.FromCSR(c).ForSigner(), signer.Permission{}, now)
	var permanent *signer.PermanentError
	if errors.As(err, &permanent) {
		return permanent
	}
	return nil
}

// throwaway returns a function that creates a temporary CA.
func throwaway(now time.Time) func() (*pki.Authority, error) {
	return func() (*pki.Authority, error) {
		key, err := pki.GenerateKey(pki.ECDSAP256)
		if err != nil {
			return nil, err
		}
		return pki.NewRoot(pki.UnrecordedSigning, "throwaway", key, pki.DefaultRootLifetime, now)
	}
}

// Prospective returns the certificate that a declared signer would issue for a request,
// signed by a temporary CA that is discarded. Its errors are the errors of
// declared.Signer.
func Prospective(ctx context.Context, declaration *v1alpha1.Signer, req request.Request, now time.Time) (*x509.Certificate, error) {
	compiled, errs := profile.Compile(declaration.Spec, field.NewPath("spec"))
	if len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	by := declared.Signer{
		Name: declaration.Spec.SignerName, Profile: compiled, CA: throwaway(now), Issuing: pki.Unrecorded, Counts: &declared.Counts{},
	}
	issued, err := by.Sign(ctx, req, signer.Permission{}, now)
	if err != nil {
		return nil, err
	}
	return issued.Certificate, nil
}

// findDeclared finds the objection of a declared signer to the request.
func (f *facts) findDeclared(ctx context.Context, api Reader) error {
	if profiled(f.csr.Spec.SignerName) {
		return nil
	}
	declared, known, err := declarer(ctx, api, f.csr.Spec.SignerName)
	if f.declarersUnknown = !known; err != nil || declared == nil {
		return err
	}
	f.declared = declared
	compiled, errs := profile.Compile(declared.Spec, field.NewPath("spec"))
	if len(errs) > 0 {
		f.objection = errs.ToAggregate()
		return nil
	}
	f.objection = decideBy(ctx, api, compiled, request.FromCSR(f.csr), f.Query)
	return nil
}

// decideBy returns the objection of a declared signer to a request; also nil if the
// signer's decision is unknown.
func decideBy(ctx context.Context, api Reader, compiled *profile.Profile, req request.Request, q Query) (err error) {
	req = req.ForSigner()
	if compiled.NeedsOrder() {
		orders := policies.NewOrders(api, func() time.Time { return q.Now })
		if req.Order, err = orders.Of(ctx, &req); err != nil {
			return nil
		}
	}
	if _, err = req.Parsed(); err == nil {
		_, err = compiled.Decide(req)
	}
	return err
}
