package core

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/api/core"
	"github.com/certplane/certplane/internal/apiserver/registry/kind"
)

func configMaps() kind.Kind[corev1.ConfigMap, corev1.ConfigMapList] {
	return kind.Kind[corev1.ConfigMap, corev1.ConfigMapList]{
		Version: corev1.SchemeGroupVersion, Plural: "configmaps", Singular: "configmap",
		ShortNames: []string{"cm"},
		Namespaced: true,
		Validate:   core.ValidateConfigMap,
		Update:     kind.Update[corev1.ConfigMap]{ValidateUpdate: core.ValidateConfigMapUpdate},
		Table: kind.Table[corev1.ConfigMap]{
			Columns: []metav1.TableColumnDefinition{
				kind.Name(),
				kind.Column("Data", corev1.ConfigMap{}.SwaggerDoc()["data"]),
				kind.AgeColumn(),
			},
			Cells: func(config *corev1.ConfigMap, now time.Time) []any {
				return []any{config.Name, int64(len(config.Data) + len(config.BinaryData)), kind.Age(config.CreationTimestamp, now)}
			},
		},
	}
}
