package certmanager

import (
	"bytes"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ValidateOrderUpdate returns the errors of replacing old by order: fields that
// come from the CA do not change once they are set.
func ValidateOrderUpdate(order, old *acmev1.Order) field.ErrorList {
	var errs field.ErrorList
	statusPath := field.NewPath("status")
	if len(old.Spec.Request) > 0 && !bytes.Equal(order.Spec.Request, old.Spec.Request) {
		errs = append(errs, immutable(specPath.Child("request")))
	}
	errs = append(errs, validateSetOnce(order.Status.URL, old.Status.URL, statusPath.Child("url"))...)
	errs = append(errs, validateSetOnce(order.Status.FinalizeURL, old.Status.FinalizeURL, statusPath.Child("finalizeURL"))...)
	errs = append(errs, validateSetOnce(string(order.Status.Certificate), string(old.Status.Certificate), statusPath.Child("certificate"))...)
	return append(errs, validateAuthorizations(order.Status.Authorizations, old.Status.Authorizations, statusPath.Child("authorizations"))...)
}

func validateAuthorizations(authorizations, old []acmev1.ACMEAuthorization, path *field.Path) field.ErrorList {
	if len(old) == 0 {
		return nil
	}
	if len(authorizations) != len(old) {
		return field.ErrorList{immutable(path)}
	}
	var errs field.ErrorList
	for i, before := range old {
		now, at := authorizations[i], path.Index(i)
		errs = append(errs, validateSetOnce(now.URL, before.URL, at.Child("url"))...)
		errs = append(errs, validateSetOnce(now.Identifier, before.Identifier, at.Child("identifier"))...)
		errs = append(errs, validateSetOnce(now.InitialState, before.InitialState, at.Child("initialState"))...)
		if before.Wildcard != nil && (now.Wildcard == nil || *now.Wildcard != *before.Wildcard) {
			errs = append(errs, immutable(at.Child("wildcard")))
		}
		errs = append(errs, validateChallenges(now.Challenges, before.Challenges, at.Child("challenges"))...)
	}
	return errs
}

func validateChallenges(challenges, old []acmev1.ACMEChallenge, path *field.Path) field.ErrorList {
	if len(old) == 0 {
		return nil
	}
	if len(challenges) != len(old) {
		return field.ErrorList{immutable(path)}
	}
	var errs field.ErrorList
	for i, before := range old {
		now, at := challenges[i], path.Index(i)
		errs = append(errs, validateSetOnce(now.URL, before.URL, at.Child("url"))...)
		errs = append(errs, validateSetOnce(now.Type, before.Type, at.Child("type"))...)
		errs = append(errs, validateSetOnce(now.Token, before.Token, at.Child("token"))...)
	}
	return errs
}

// ValidateChallengeUpdate returns the errors of replacing old by challenge.
func ValidateChallengeUpdate(challenge, old *acmev1.Challenge) field.ErrorList {
	if !apiequality.Semantic.DeepEqual(challenge.Spec, old.Spec) {
		return field.ErrorList{field.Forbidden(specPath, "challenge spec is immutable after creation")}
	}
	return nil
}

// validateSetOnce allows a field to be set if it is empty, and no other change.
func validateSetOnce[T ~string](value, before T, path *field.Path) field.ErrorList {
	if before != "" && value != before {
		return field.ErrorList{immutable(path)}
	}
	return nil
}

func immutable(path *field.Path) *field.Error {
	return field.Forbidden(path, "field is immutable once set")
}
