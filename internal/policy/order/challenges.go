package order

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/certplane/certplane/internal/api/certmanager"
)

// Required is the Challenge that an authorization needs.
type Required struct {
	Choice
	// Domain is the name to be validated, with "*." for a wildcard.
	Domain string
	// Challenge is the object, whose key is still empty.
	Challenge *acmev1.Challenge
}

// SolverError is why an authorization has no solver.
type SolverError struct {
	Domain string
	Choice Choice
	Err    error
}

func (e *SolverError) Error() string { return e.Err.Error() }
func (e *SolverError) Unwrap() error { return e.Err }

// Require returns the Challenge that an authorization of an Order needs. Its
// error is a *SolverError, unless names cannot be computed.
func Require(o *acmev1.Order, issuer *acmev1.ACMEIssuer, authorization acmev1.ACMEAuthorization) (Required, error) {
	wildcard := ptr.Deref(authorization.Wildcard, false)
	needs := Required{Domain: Domain(authorization)}
	needs.Choice = Choose(issuer.Solvers, needs.Domain, o.Labels, authorization.Challenges)
	if needs.Index < 0 {
		return needs, &SolverError{needs.Domain, needs.Choice, ErrNoSolver}
	}
	solver, err := override(&issuer.Solvers[needs.Index], o)
	if err != nil {
		return needs, &SolverError{needs.Domain, needs.Choice, err}
	}
	spec := acmev1.ChallengeSpec{
		URL: needs.Choice.Challenge.URL, AuthorizationURL: authorization.URL, DNSName: authorization.Identifier, Wildcard: wildcard,
		Type: certmanager.ChallengeTypes[needs.Choice.Challenge.Type], Token: needs.Choice.Challenge.Token, Solver: *solver, IssuerRef: o.Spec.IssuerRef,
	}
	name, err := ChallengeName(o.Name, spec)
	if err != nil {
		return needs, fmt.Errorf("naming the Challenge for %s: %w", needs.Domain, err)
	}
	needs.Challenge = &acmev1.Challenge{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: o.Namespace, Name: name,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(o, acmev1.SchemeGroupVersion.WithKind(acmev1.OrderKind))},
		},
		Spec: spec,
	}
	return needs, nil
}

// Domain returns the name that an authorization is for, with "*." for a
// wildcard.
func Domain(authorization acmev1.ACMEAuthorization) string {
	if ptr.Deref(authorization.Wildcard, false) {
		return "*." + authorization.Identifier
	}
	return authorization.Identifier
}

// Key returns spec.key of a Challenge: what its solver shows to the CA.
// authorization returns the key authorization of a token.
func Key(spec acmev1.ChallengeSpec, authorization func(token string) string) string {
	switch spec.Type {
	case acmev1.ACMEChallengeTypeHTTP01, certmanager.TypeTLSALPN01:
		return authorization(spec.Token)
	case certmanager.TypeDNSPersist01: // it has no token
		return ""
	default:
		sum := sha256.Sum256([]byte(authorization(spec.Token)))
		return base64.RawURLEncoding.EncodeToString(sum[:])
	}
}
