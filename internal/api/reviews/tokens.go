package reviews

import (
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

// The lifetimes of service account tokens, in seconds.
const (
	minTokenSeconds     = 10 * 60
	maxTokenSeconds     = 1 << 32
	defaultTokenSeconds = 60 * 60
)

func defaultTokenRequest(request *authenticationv1.TokenRequest) {
	if request.Spec.ExpirationSeconds == nil {
		request.Spec.ExpirationSeconds = ptr.To[int64](defaultTokenSeconds)
	}
}

// ValidateTokenRequest checks a request for a service account token.
func ValidateTokenRequest(request *authenticationv1.TokenRequest) field.ErrorList {
	path := specPath.Child("expirationSeconds")
	seconds := request.Spec.ExpirationSeconds
	switch {
	case seconds == nil:
		return field.ErrorList{field.Required(path, "")}
	case *seconds < minTokenSeconds:
		return field.ErrorList{field.Invalid(path, *seconds, "may not specify a duration less than 10 minutes")}
	case *seconds > maxTokenSeconds:
		return field.ErrorList{field.Invalid(path, *seconds, "may not specify a duration larger than 2^32 seconds")}
	}
	return nil
}
