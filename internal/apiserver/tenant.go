package apiserver

import (
	"context"
	"net/http"

	apirequest "k8s.io/apiserver/pkg/endpoints/request"

	"github.com/certplane/certplane/internal/tenant"
	"github.com/certplane/certplane/internal/tenant/fairshare"
)

// tenantOf returns the tenant of a request.
func tenantOf(ctx context.Context) fairshare.Tenant {
	if isOwnCall(ctx) {
		return tenant.Exempt
	}
	who, known := apirequest.UserFrom(ctx)
	if !known {
		return tenant.Anonymous
	}
	return tenant.OfUser(who.GetName(), who.GetGroups())
}

// insideKey is the key for a bool: whether limits of tenants do not hold.
type insideKey struct{}

// fromInside marks requests that come from this process and not from a network. exempt is
// true for requests of the process's own components, which have no limits.
func fromInside(handler http.Handler, exempt bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handler.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), insideKey{}, exempt)))
	})
}

// orOwnCall returns a check for the library's filters in front of the authentication, for
// which the calls of the process's own parts are like watches: they need no other goroutine
// that answers when the time is up, and no count of requests (see serveOwn). The filters
// behind it, such as audit, treat them like any request.
func orOwnCall(isWatch apirequest.LongRunningRequestCheck) apirequest.LongRunningRequestCheck {
	return func(r *http.Request, info *apirequest.RequestInfo) bool {
		_, authenticated := apirequest.UserFrom(r.Context())
		return !authenticated && isOwnCall(r.Context()) || isWatch(r, info)
	}
}

// isOwnCall reports whether a request comes from the process's own components.
func isOwnCall(ctx context.Context) bool {
	exempt, inside := ctx.Value(insideKey{}).(bool)
	return inside && exempt
}

func isInside(ctx context.Context) bool { return ctx.Value(insideKey{}) != nil }
