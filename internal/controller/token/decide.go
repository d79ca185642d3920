package token

import (
	"bytes"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// verdict is what is to be done with a Secret for a token.
type verdict int

const (
	// leave: it is as it is to be.
	leave verdict = iota
	// remove: the service account that it names does not exist any more.
	remove
	// fill: something is missing.
	fill
	// refuse: something is missing, and the Secret cannot change.
	refuse
)

// decide judges a Secret of type kubernetes.io/service-account-token. account
// is the UID of the service account that it names, empty if there is none; ca
// is what ca.crt is to be.
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

// needsToken reports whether there is no token, or one that was there before
// the Secret had an account: nobody knows whose it is.
func needsToken(secret *corev1.Secret) bool {
	return len(secret.Data[corev1.ServiceAccountTokenKey]) == 0 || secret.Annotations[corev1.ServiceAccountUIDKey] == ""
}
