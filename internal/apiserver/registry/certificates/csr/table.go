package csr

import (
	"context"
	"slices"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/apiserver/pkg/registry/rest"
)

// table prints requests as "kubectl get csr" shows them.
type table struct {
	now func() time.Time
	// other prints objects that are not requests.
	other rest.TableConvertor
}

// ConvertToTable implements rest.TableConvertor.
func (t table) ConvertToTable(ctx context.Context, obj, options runtime.Object) (*metav1.Table, error) {
	var out metav1.Table
	switch obj := obj.(type) {
	case *certificatesv1.CertificateSigningRequest:
		out.ResourceVersion = obj.ResourceVersion
		out.Rows = []metav1.TableRow{t.row(obj)}
	case *certificatesv1.CertificateSigningRequestList:
		out.ListMeta = metav1.ListMeta{
			ResourceVersion:    obj.ResourceVersion,
			Continue:           obj.Continue,
			RemainingItemCount: obj.RemainingItemCount,
		}
		out.Rows = make([]metav1.TableRow, 0, len(obj.Items))
		for i := range obj.Items {
			out.Rows = append(out.Rows, t.row(&obj.Items[i]))
		}
	default:
		return t.other.ConvertToTable(ctx, obj, options)
	}
	if opts, ok := options.(*metav1.TableOptions); !ok || !opts.NoHeaders {
		out.ColumnDefinitions = columns()
	}
	return &out, nil
}

// columns returns the columns with the descriptions of v1beta1, as Kubernetes
// does; there the requestor has the description of the request.
func columns() []metav1.TableColumnDefinition {
	metadata := metav1.ObjectMeta{}.SwaggerDoc()
	spec := certificatesv1beta1.CertificateSigningRequestSpec{}.SwaggerDoc()
	status := certificatesv1beta1.CertificateSigningRequestStatus{}.SwaggerDoc()
	return []metav1.TableColumnDefinition{
		{Name: "Name", Type: "string", Format: "name", Description: metadata["name"]},
		{Name: "Age", Type: "string", Description: metadata["creationTimestamp"]},
		{Name: "SignerName", Type: "string", Description: spec["signerName"]},
		{Name: "Requestor", Type: "string", Description: spec["request"]},
		{Name: "RequestedDuration", Type: "string", Description: spec["expirationSeconds"]},
		{Name: "Condition", Type: "string", Description: status["conditions"]},
	}
}

func (t table) row(csr *certificatesv1.CertificateSigningRequest) metav1.TableRow {
	return metav1.TableRow{
		Object: runtime.RawExtension{Object: csr},
		Cells: []any{
			csr.Name,
			age(csr.CreationTimestamp, t.now()),
			signerCell(csr.Spec.SignerName),
			csr.Spec.Username,
			durationCell(csr.Spec.ExpirationSeconds),
			conditionCell(csr.Status),
		},
	}
}

func age(created metav1.Time, now time.Time) string {
	if created.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(now.Sub(created.Time))
}

func signerCell(signerName string) string {
	if signerName == "" {
		return "<none>"
	}
	return signerName
}

func durationCell(seconds *int32) string {
	if seconds == nil {
		return "<none>"
	}
	return duration.HumanDuration(time.Duration(*seconds) * time.Second)
}

// conditionCell summarizes a status, as in "Approved,Issued". The presence of a
// condition counts, not its status.
func conditionCell(status certificatesv1.CertificateSigningRequestStatus) string {
	has := func(t certificatesv1.RequestConditionType) bool {
		return slices.ContainsFunc(status.Conditions, func(c certificatesv1.CertificateSigningRequestCondition) bool {
			return c.Type == t
		})
	}
	cell := "Pending"
	switch {
	case has(certificatesv1.CertificateDenied):
		cell = "Denied"
	case has(certificatesv1.CertificateApproved):
		cell = "Approved"
	}
	if has(certificatesv1.CertificateFailed) {
		cell += ",Failed"
	}
	if len(status.Certificate) > 0 {
		cell += ",Issued"
	}
	return cell
}
