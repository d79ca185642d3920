// Package clustertrustbundle serves ClusterTrustBundles.
package clustertrustbundle

import (
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/api/certificates"
	"github.com/certplane/certplane/internal/apiserver/registry/kind"
)

type bundle = certificatesv1.ClusterTrustBundle

// Kind describes trust bundles. Admission decides which users may write a
// bundle of a signer.
func Kind(now func() time.Time) kind.Kind[bundle, certificatesv1.ClusterTrustBundleList] {
	return kind.Kind[bundle, certificatesv1.ClusterTrustBundleList]{
		Version: certificatesv1.SchemeGroupVersion, Plural: "clustertrustbundles", Singular: "clustertrustbundle",
		NeedsResourceVersion: true,
		Validate:             certificates.ValidateTrustBundle,
		Warn: func(b, old *bundle) []string {
			return certificates.TrustBundleWarnings(b, old, now())
		},
		Update: kind.Update[bundle]{ValidateUpdate: certificates.ValidateTrustBundleUpdate},
		Fields: certificates.TrustBundleFields,
		Table:  table(),
	}
}

// table returns Kubernetes' columns, and the age for wide output.
func table() kind.Table[bundle] {
	age := kind.AgeColumn()
	age.Priority = 1
	return kind.Table[bundle]{
		Columns: []metav1.TableColumnDefinition{
			kind.Name(),
			kind.Column("SignerName", certificatesv1.ClusterTrustBundleSpec{}.SwaggerDoc()["signerName"]),
			age,
		},
		Cells: func(b *bundle, now time.Time) []any {
			signerName := b.Spec.SignerName
			if signerName == "" {
				signerName = "<none>"
			}
			return []any{b.Name, signerName, kind.Age(b.CreationTimestamp, now)}
		},
	}
}
