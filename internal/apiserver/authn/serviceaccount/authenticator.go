package serviceaccount

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/golang-jwt/jwt/v5"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/klog/v2"
)

// leeway is how far clocks may differ, and how long an object that is being
// deleted still counts.
const leeway = time.Minute

// Authenticator accepts the tokens of an issuer while the objects that they are
// bound to exist.
type Authenticator struct {
	// Issuers are the issuer names that tokens may have.
	Issuers []string
	// Keys verify the signatures.
	Keys *Keys
	// Audiences are the audiences of the API server.
	Audiences authenticator.Audiences
	// Lookup finds the objects that a token is bound to.
	Lookup Lookup
	// Now returns the current time.
	Now func() time.Time
}

var _ authenticator.Token = Authenticator{}

// AuthenticateToken has no opinion on tokens of other issuers. It returns an error for an
// invalid token of one of its Issuers.
func (a Authenticator) AuthenticateToken(ctx context.Context, token string) (*authenticator.Response, bool, error) {
	if !issuedBy(token, a.Issuers...) {
		return nil, false, nil
	}
	now := a.Now()
	var claims Claims
	if err := a.verify(token, &claims, now, jwt.WithExpirationRequired()); err != nil {
		return nil, false, err
	}
	audiences, err := a.matchAudiences(ctx, claims.Audience)
	if err != nil {
		return nil, false, err
	}
	if err := a.checkAll(ctx, claims.Kubernetes, now); err != nil {
		return nil, false, err
	}
	if claims.Kubernetes.isStale(now) {
		late := now.Unix() - claims.Kubernetes.WarnAfter.Unix()
		audit.AddAuditAnnotation(ctx, "authentication.k8s.io/stale-token",
			fmt.Sprintf("subject: %s, seconds after warning threshold: %d", claims.Subject, late))
	}
	return &authenticator.Response{User: claims.user(), Audiences: audiences}, true, nil
}

// issuedBy reports whether a token names one of issuers. It does not verify the
// token.
func issuedBy(token string, issuers ...string) bool {
	var claims jwt.RegisteredClaims
	_, _, err := jwt.NewParser().ParseUnverified(token, &claims)
	return err == nil && slices.Contains(issuers, claims.Issuer)
}

// verify reads claims after verifying the signature and the times.
func (a Authenticator) verify(token string, claims jwt.Claims, now time.Time, more ...jwt.ParserOption) error {
	parser := jwt.NewParser(append(more,
		jwt.WithTimeFunc(func() time.Time { return now }),
		jwt.WithStrictDecoding(),
		jwt.WithLeeway(leeway),
		jwt.WithIssuedAt(),
	)...)
	_, err := parser.ParseWithClaims(token, claims, a.Keys.verifier)
	return explain(err)
}

// explain returns an error without details that the bearer must not see.
func explain(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, jwt.ErrTokenExpired):
		return errors.New("service account token has expired")
	case errors.Is(err, jwt.ErrTokenNotValidYet):
		return errors.New("service account token is not valid yet")
	case errors.Is(err, jwt.ErrTokenUsedBeforeIssued):
		return errors.New("service account token is issued in the future")
	}
	return errors.New("service account token has an invalid signature or claim")
}

// matchAudiences returns the audiences of both the token and the request.
func (a Authenticator) matchAudiences(ctx context.Context, audiences []string) (authenticator.Audiences, error) {
	wanted, ok := authenticator.AudiencesFrom(ctx)
	if !ok {
		wanted = a.Audiences
	}
	both := authenticator.Audiences(audiences).Intersect(wanted)
	if len(both) == 0 {
		return nil, fmt.Errorf("token audiences %q is invalid for the target audiences %q", audiences, wanted)
	}
	return both, nil
}

// Bound returns the user of a credential that is not a token. Its issuer has
// been verified, but the objects that it is bound to have not.
func (a Authenticator) Bound(ctx context.Context, binding Binding, credentialID string) (user.Info, error) {
	if err := a.checkAll(ctx, binding, a.Now()); err != nil {
		return nil, err
	}
	return binding.user(credentialID), nil
}

func (a Authenticator) checkAll(ctx context.Context, binding Binding, now time.Time) error {
	for _, required := range binding.requirements() {
		if err := a.check(ctx, required, now); err != nil {
			return err
		}
	}
	return nil
}

func (a Authenticator) check(ctx context.Context, required requirement, now time.Time) error {
	object, err := a.Lookup(ctx, required.kind, required.namespace, required.ref)
	if err != nil {
		klog.FromContext(ctx).V(4).Info("Token is bound to an object that cannot be found",
			"kind", required.kind, "namespace", required.namespace, "name", required.ref.Name, "err", err)
		return required.refusal()
	}
	return required.judge(object, now)
}

// judge reports whether object is the one that the token is bound to.
func (r requirement) judge(object metav1.Object, now time.Time) error {
	if object.GetUID() != r.ref.UID {
		return fmt.Errorf("UID of %s %q does not match the token's", r.kind, r.ref.Name)
	}
	if deleted := object.GetDeletionTimestamp(); deleted != nil && deleted.Time.Before(now.Add(-leeway)) {
		return r.refusal()
	}
	return nil
}

func (r requirement) refusal() error {
	if r.kind == Accounts {
		return fmt.Errorf("service account %s/%s does not exist or has been deleted", r.namespace, r.ref.Name)
	}
	return errInvalidated
}

// errInvalidated refuses a token whose object has been deleted.
var errInvalidated = errors.New("service account token has been invalidated")
