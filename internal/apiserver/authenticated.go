package apiserver

import (
	"context"
	"net/http"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/certplane/certplane/internal/admission/certpolicy"
	"github.com/certplane/certplane/internal/process/stack"
)

// authenticatedKey is the key for the *authenticated of a request.
type authenticatedKey struct{}

// authenticated holds the authenticated user of a request, even if the request then acts as
// another user. The library's filters replace the former by the impersonated user.
type authenticated struct {
	user user.Info
	// call holds the decision of admission on an approval in the request.
	call certpolicy.Call
}

// withAuthenticated makes room for the user in the context of each request. It
// must be before the filter that authenticates.
func withAuthenticated(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handler.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), authenticatedKey{}, &authenticated{})))
	})
}

// noted notes the user whom next authenticates.
func noted(next authenticator.Request) authenticator.Request {
	return authenticator.RequestFunc(func(r *http.Request) (*authenticator.Response, bool, error) {
		stack.Grow() // the rest of the request is handled by this goroutine
		response, ok, err := next.AuthenticateRequest(r)
		if who, has := r.Context().Value(authenticatedKey{}).(*authenticated); has && ok && err == nil {
			who.user = response.User
		}
		return response, ok, err
	})
}

// authenticatedIn returns the authenticated user; nil if none is noted.
func authenticatedIn(ctx context.Context) user.Info {
	if who, ok := ctx.Value(authenticatedKey{}).(*authenticated); ok {
		return who.user
	}
	return nil
}

// callIn returns the record that admission keeps of a request; nil if the context has none.
func callIn(ctx context.Context) *certpolicy.Call {
	if who, ok := ctx.Value(authenticatedKey{}).(*authenticated); ok {
		return &who.call
	}
	return nil
}
