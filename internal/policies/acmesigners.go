package policies

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/api/rfc8555"
	"github.com/certplane/certplane/internal/policy/acmeorder"
	"github.com/certplane/certplane/internal/policy/profile"
)

// ACMESigners returns the function that looks up facts about the signer or issuer of an
// ACME profile: Signers in the cache stored, issuers in the API live. issuers:
// certplane answers requests for issuers of cert-manager.io. The function takes the
// namespace of the account, and is safe for concurrent use.
func ACMESigners(stored, live client.Reader, issuers bool, now func() time.Time) func(context.Context, *v1alpha1.AcmeProfile, string) (acmeorder.SignerFacts, error) {
	return (&acmeSigners{stored: stored, live: live, issuers: issuers, now: now}).facts
}

type acmeSigners struct {
	stored, live client.Reader
	// issuers: those of cert-manager.io are answered by certplane.
	issuers bool
	now     func() time.Time

	mu       sync.Mutex // guards compiled
	compiled map[types.UID]compiledSigner
}

type compiledSigner struct {
	generation int64
	profile    *profile.Profile // nil if the spec is invalid
}

// facts returns the facts about the signer of a profile. Signers of kubernetes.io, whose
// certificates the API honours, may be those of another program: they count as signers that
// copy what clients have written.
func (s *acmeSigners) facts(ctx context.Context, by *v1alpha1.AcmeProfile, namespace string) (acmeorder.SignerFacts, error) {
	if by.Issuer != nil {
		if by.Issuer.Group != certmanager.Group {
			return acmeorder.SignerFacts{}, nil
		}
		return s.ofIssuer(ctx, certmanager.Signer{Kind: by.Issuer.Kind, Namespace: namespace, Name: by.Issuer.Name})
	}
	if issuer, ofIssuer := certmanager.ParseSignerName(by.Signer.Name); ofIssuer {
		return s.ofIssuer(ctx, issuer)
	}
	if strings.HasPrefix(by.Signer.Name, "kubernetes.io/") {
		return acmeorder.SignerFacts{}, nil
	}
	all := &v1alpha1.SignerList{}
	if err := s.stored.List(ctx, all, client.UnsafeDisableDeepCopy); err != nil {
		return acmeorder.SignerFacts{}, fmt.Errorf("reading the Signers: %w", err)
	}
	var declared *v1alpha1.Signer
	for i := range all.Items {
		if found := &all.Items[i]; found.Spec.SignerName == by.Signer.Name && (declared == nil || profile.Older(found, declared)) {
			declared = found
		}
	}
	if declared == nil {
		return acmeorder.SignerFacts{}, nil
	}
	return acmeorder.SignerFacts{TakesNamesOnly: true, Refuse: s.refuses(s.profileOf(declared))}, nil
}

// ofIssuer returns the facts about an issuer of cert-manager.io. One that cannot be read
// refuses itself what it cannot sign.
func (s *acmeSigners) ofIssuer(ctx context.Context, of certmanager.Signer) (acmeorder.SignerFacts, error) {
	if !s.issuers {
		return acmeorder.SignerFacts{}, nil
	}
	issuer, err := certmanager.NewIssuer(of.Kind)
	if err != nil {
		return acmeorder.SignerFacts{}, nil // nobody signs for it
	}
	key := client.ObjectKey{Name: of.Name}
	if of.Kind == cmv1.IssuerKind {
		key.Namespace = of.Namespace
	}
	err = s.live.Get(ctx, key, issuer)
	switch {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err), meta.IsNoMatchError(err):
		return acmeorder.SignerFacts{TakesNamesOnly: true}, nil
	case err != nil:
		return acmeorder.SignerFacts{}, fmt.Errorf("reading the %s of the profile: %w", of.Kind, err)
	}
	kind := certmanager.TypeOf(issuer.GetSpec())
	verbatim := kind == certmanager.TypeVault || kind == certmanager.TypeVenafi
	return acmeorder.SignerFacts{TakesNamesOnly: true, Verbatim: verbatim}, nil
}

func (s *acmeSigners) profileOf(of *v1alpha1.Signer) *profile.Profile {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known, ok := s.compiled[of.UID]; ok && known.generation == of.Generation {
		return known.profile
	}
	compiled, errs := profile.Compile(of.Spec, field.NewPath("spec"))
	if len(errs) > 0 {
		compiled = nil
	}
	if s.compiled == nil {
		s.compiled = map[types.UID]compiledSigner{}
	}
	s.compiled[of.UID] = compiledSigner{of.Generation, compiled}
	return compiled
}

// refuses returns the check of a Signer, as it decides before it signs. Errors that
// are not about the request, such as an expression that fails, are left to the Signer.
func (s *acmeSigners) refuses(by *profile.Profile) func(acmeorder.Planned) *rfc8555.Problem {
	if by == nil {
		return nil
	}
	return func(planned acmeorder.Planned) *rfc8555.Problem {
		r, err := planned.Request(s.now())
		if err != nil {
			return nil
		}
		r = r.ForSigner()
		r.Order = planned.Proven()
		var refusal *profile.Refusal
		if _, err := by.Decide(r); !errors.As(err, &refusal) {
			return nil
		}
		if p := acmeorder.RefusedBySigner(acmeorder.Said{Reason: refusal.Reason, Message: refusal.Message}); p.Status < 500 {
			return p
		}
		return nil
	}
}
