package apiserver

import (
	"context"
	"net/http"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
)

// authenticatedKey is the key for the *authenticated of a request.
type authenticatedKey struct{}

// authenticated is who has authenticated, whoever the request then acts as. The
// library's filters replace it by the impersonated user.
type authenticated struct{ user user.Info }

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
