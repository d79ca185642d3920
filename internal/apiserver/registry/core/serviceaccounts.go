package core

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/api/core"
	"github.com/certplane/certplane/internal/apiserver/registry/kind"
)

func serviceAccounts() kind.Kind[corev1.ServiceAccount, corev1.ServiceAccountList] {
	return kind.Kind[corev1.ServiceAccount, corev1.ServiceAccountList]{
		Version: corev1.SchemeGroupVersion, Plural: "serviceaccounts", Singular: "serviceaccount",
		ShortNames:           []string{"sa"},
		Namespaced:           true,
		NeedsResourceVersion: true,
		ShowsDeleted:         true,
		PrepareCreate:        keepSecretNames,
		Validate:             core.ValidateServiceAccount,
		Warn:                 core.ServiceAccountWarnings,
		Update: kind.Update[corev1.ServiceAccount]{
			PrepareUpdate:  func(account, _ *corev1.ServiceAccount) { keepSecretNames(account) },
			ValidateUpdate: core.ValidateServiceAccountUpdate,
		},
		Table: kind.Table[corev1.ServiceAccount]{
			Columns: []metav1.TableColumnDefinition{
				kind.Name(),
				kind.AgeColumn(),
			},
			Cells: func(account *corev1.ServiceAccount, now time.Time) []any {
				return []any{account.Name, kind.Age(account.CreationTimestamp, now)}
			},
		},
	}
}

// keepSecretNames keeps only the names: an account's secrets are always in its
// namespace.
func keepSecretNames(account *corev1.ServiceAccount) {
	for i := range account.Secrets {
		account.Secrets[i] = corev1.ObjectReference{Name: account.Secrets[i].Name}
	}
}
