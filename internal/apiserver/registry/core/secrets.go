package core

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/api/core"
	"github.com/certplane/certplane/internal/apiserver/registry/kind"
)

func secrets() kind.Kind[corev1.Secret, corev1.SecretList] {
	return kind.Kind[corev1.Secret, corev1.SecretList]{
		Version: corev1.SchemeGroupVersion, Plural: "secrets", Singular: "secret",
		Namespaced: true,
		// A server-side apply sets stringData without the decoder.
		PrepareCreate: core.MergeStringData,
		Validate:      core.ValidateSecret,
		Update: kind.Update[corev1.Secret]{
			PrepareUpdate:  func(secret, _ *corev1.Secret) { core.MergeStringData(secret) },
			ValidateUpdate: core.ValidateSecretUpdate,
		},
		Fields: core.SecretFields,
		Table: kind.Table[corev1.Secret]{
			Columns: []metav1.TableColumnDefinition{
				kind.Name(),
				kind.Column("Type", corev1.Secret{}.SwaggerDoc()["type"]),
				kind.Column("Data", corev1.Secret{}.SwaggerDoc()["data"]),
				kind.AgeColumn(),
			},
			Cells: func(secret *corev1.Secret, now time.Time) []any {
				return []any{secret.Name, string(secret.Type), int64(len(secret.Data)), kind.Age(secret.CreationTimestamp, now)}
			},
		},
	}
}
