package apiserver

import (
	"context"
	"net/http"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/certplane/certplane/internal/admission/certpolicy"
)

// authenticatedKey is the key for the *authenticated of a request.
type authenticatedKey struct{}

// authenticated is who has authenticated, whoever the request then acts as. The
// library's filters replace it by the impersonated user.
type authenticated struct {
	user user.Info
	// call has what admission has decided about an approval in the request.
	call certpolicy.Call
}

// withAuthenticated makes room for the user in the context of each request. It
// must be before the filter that authenticates.
func withAuthenticated(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handler.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), authenticatedKey{}, &authenticated{})))
	})
}

// noted notes whom next authenticates.
func noted(next authenticator.Request) authenticator.Request {
	return authenticator.RequestFunc(func(r *http.Request) (*authenticator.Response, bool, error) {
		response, ok, err := next.AuthenticateRequest(r)
		if who, has := r.Context().Value(authenticatedKey{}).(*authenticated); has && ok && err == nil {
			who.user = response.User
		}
		return response, ok, err
	})
}

// authenticatedIn returns who has authenticated; nil if that is not known.
func authenticatedIn(ctx context.Context) user.Info {
	if who, ok := ctx.Value(authenticatedKey{}).(*authenticated); ok {
		return who.user
	}
	return nil
}

// callIn returns what admission keeps of a request; nil if there is no room for it.
func callIn(ctx context.Context) *certpolicy.Call {
	if who, ok := ctx.Value(authenticatedKey{}).(*authenticated); ok {
		return &who.call
	}
	return nil
}
