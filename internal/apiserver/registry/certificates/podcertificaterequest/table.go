package podcertificaterequest

import (
	"maps"
	"slices"
	"strings"
	"time"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/api/certificates"
	"github.com/certplane/certplane/internal/apiserver/registry/kind"
)

// newTable prints requests as Kubernetes does, and their age in wide output.
func newTable() kind.Table[podRequest] {
	spec := certificatesv1beta1.PodCertificateRequestSpec{}.SwaggerDoc()
	age := kind.AgeColumn()
	age.Priority = 1
	return kind.Table[podRequest]{
		Columns: []metav1.TableColumnDefinition{
			kind.Name(),
			kind.Column("PodName", spec["podName"]),
			kind.Column("ServiceAccountName", spec["serviceAccountName"]),
			kind.Column("NodeName", spec["nodeName"]),
			kind.Column("SignerName", spec["signerName"]),
			kind.Column("State", certificatesv1beta1.PodCertificateRequestStatus{}.SwaggerDoc()["conditions"]),
			kind.Column("UnverifiedUserAnnotations", spec["unverifiedUserAnnotations"]),
			age,
		},
		Cells: cells,
	}
}

func cells(request *podRequest, now time.Time) []any {
	return []any{
		request.Name,
		request.Spec.PodName,
		request.Spec.ServiceAccountName,
		string(request.Spec.NodeName),
		request.Spec.SignerName,
		state(request.Status.Conditions),
		annotations(request.Spec.UnverifiedUserAnnotations),
		kind.Age(request.CreationTimestamp, now),
	}
}

func state(conditions []metav1.Condition) string {
	if outcome := certificates.PodRequestOutcome(conditions); outcome != "" {
		return outcome
	}
	return "Pending"
}

func annotations(all map[string]string) string {
	if len(all) == 0 {
		return "<none>"
	}
	var pairs []string
	for _, key := range slices.Sorted(maps.Keys(all)) {
		pairs = append(pairs, key+"="+all[key])
	}
	return strings.Join(pairs, ",")
}
