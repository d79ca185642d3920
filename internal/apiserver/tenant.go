package apiserver

import (
	"context"
	"net/http"

	apirequest "k8s.io/apiserver/pkg/endpoints/request"

	"github.com/certplane/certplane/internal/share"
	"github.com/certplane/certplane/internal/tenants"
)

// tenantOf returns the tenant of a request.
func tenantOf(ctx context.Context) share.Tenant {
	if exempt, inside := ctx.Value(insideKey{}).(bool); inside && exempt {
		return tenants.Exempt
	}
	who, known := apirequest.UserFrom(ctx)
	if !known {
		return tenants.Anonymous
	}
	return tenants.OfUser(who.GetName(), who.GetGroups())
}

// insideKey is the key for a bool: whether limits of tenants do not hold.
type insideKey struct{}

// fromInside marks requests that come from this process and not from a network. exempt
// says that they are those of its own parts, for which there are no limits.
func fromInside(handler http.Handler, exempt bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handler.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), insideKey{}, exempt)))
	})
}

func isInside(ctx context.Context) bool { return ctx.Value(insideKey{}) != nil }
