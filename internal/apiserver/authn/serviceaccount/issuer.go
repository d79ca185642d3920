package serviceaccount

import (
	"fmt"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	tokenjwt "k8s.io/apiserver/pkg/authentication/token/jwt"
)

// Issuer issues tokens.
type Issuer struct {
	// Name is the issuer's URL.
	Name string
	// Keys signs the tokens.
	Keys *Keys
}

// Grant is the content of a token to be issued.
type Grant struct {
	Binding
	// Audiences are those that the token is meant for.
	Audiences []string
	// Lifetime begins when the token is issued.
	Lifetime time.Duration
	// WarnAfter, if not zero, is the time after issue at which a token should have been
	// replaced.
	WarnAfter time.Duration
}

// Issue returns a signed token and the identifier under which it appears in
// audit logs.
func (i Issuer) Issue(grant Grant, now time.Time) (token, credentialID string, err error) {
	claims := grant.claims(i.Name, string(uuid.NewUUID()), now)
	token, err = i.Keys.sign(claims)
	if err != nil {
		return "", "", fmt.Errorf("signing a service account token: %w", err)
	}
	return token, tokenjwt.CredentialIDForJTI(claims.ID), nil
}

func (g Grant) claims(issuer, id string, now time.Time) Claims {
	claims := Claims{
		RegisteredClaims: jwt.RegisteredClaims{
			Issuer:    issuer,
			Subject:   serviceaccount.MakeUsername(g.Namespace, g.Account.Name),
			Audience:  g.Audiences,
			ExpiresAt: jwt.NewNumericDate(now.Add(g.Lifetime)),
			NotBefore: jwt.NewNumericDate(now),
			IssuedAt:  jwt.NewNumericDate(now),
			ID:        id,
		},
		Kubernetes: g.Binding,
	}
	if g.WarnAfter > 0 {
		claims.Kubernetes.WarnAfter = jwt.NewNumericDate(now.Add(g.WarnAfter))
	}
	return claims
}
