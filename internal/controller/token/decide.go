package token

import (
	"bytes"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// verdict is the action for a Secret for a token.
type verdict int

const (
	// leave means that it is as it should be.
	leave verdict = iota
	// remove means that the service account that it names no longer exists.
	remove
	// fill means that something is missing.
	fill
	// refuse means that something is missing, and the Secret is immutable.
	refuse
)

// decide judges a Secret of type kubernetes.io/service-account-token. account
// is the UID of the service account that it names, or "" if that does not
// exist; ca is the wanted value of ca.crt.
func decide(secret *corev1.Secret, account types.UID, ca []byte) verdict {
	named := types.UID(secret.Annotations[corev1.ServiceAccountUIDKey])
	switch {
	case secret.DeletionTimestamp != nil:
		return leave
	case account == "" || named != "" && named != account:
		return remove
	case !needsToken(secret) && bytes.Equal(secret.Data[corev1.ServiceAccountRootCAKey], ca) &&
		string(secret.Data[corev1.ServiceAccountNamespaceKey]) == secret.Namespace:
		return leave
	case ptr.Deref(secret.Immutable, false):
		return refuse
	default:
		return fill
	}
}

// needsToken reports whether the Secret has no token, or one from before the
// Secret had an account: it is unknown whose token that is.
func needsToken(secret *corev1.Secret) bool {
	return len(secret.Data[corev1.ServiceAccountTokenKey]) == 0 || secret.Annotations[corev1.ServiceAccountUIDKey] == ""
}
