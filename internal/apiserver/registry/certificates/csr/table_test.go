package csr

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/utils/ptr"
)

func newTable() table {
	return table{
		now:   func() time.Time { return now },
		other: rest.NewDefaultTableConvertor(certificatesv1.Resource("certificatesigningrequests")),
	}
}

func TestTableRows(t *testing.T) {
	created := func(ago time.Duration) func(*csr) {
		return func(c *csr) { c.CreationTimestamp = metav1.NewTime(now.Add(-ago)) }
	}
	issued := func(c *csr) { c.Status.Certificate = []byte("certificate") }
	asked := func(seconds int32) func(*csr) {
		return func(c *csr) { c.Spec.ExpirationSeconds = ptr.To(seconds) }
	}
	row := func(age, signer, requestor, duration, condition string) []any {
		return []any{"test", age, signer, requestor, duration, condition}
	}
	const signer = "example.com/signer"

	for _, tc := range []struct {
		reason string
		edits  []func(*csr)
		want   []any
	}{
		{"a new request", []func(*csr){created(5 * time.Second)}, row("5s", signer, "alice", "<none>", "Pending")},
		{"a request that knows little", []func(*csr){func(c *csr) {
			c.CreationTimestamp, c.Spec = metav1.Time{}, certificatesv1.CertificateSigningRequestSpec{}
		}},
			row("<unknown>", "<none>", "", "<none>", "Pending")},
		{"a request of another clock, almost now", []func(*csr){created(-time.Second)}, row("0s", signer, "alice", "<none>", "Pending")},
		{"a request of the future", []func(*csr){created(-3 * time.Second)}, row("<invalid>", signer, "alice", "<none>", "Pending")},
		{"ten minutes", []func(*csr){asked(600)}, row("60m", signer, "alice", "10m", "Pending")},
		{"an hour is sixty minutes", []func(*csr){asked(3600)}, row("60m", signer, "alice", "60m", "Pending")},
		{"a day is 24 hours", []func(*csr){asked(86400)}, row("60m", signer, "alice", "24h", "Pending")},
		{"a week and an hour", []func(*csr){asked(608400)}, row("60m", signer, "alice", "7d1h", "Pending")},
		{"a year is 365 days", []func(*csr){asked(31536000)}, row("60m", signer, "alice", "365d", "Pending")},
		{"approved", []func(*csr){conditions(decided("Approved", ""))}, row("60m", signer, "alice", "<none>", "Approved")},
		{"approved and issued", []func(*csr){conditions(decided("Approved", "")), issued}, row("60m", signer, "alice", "<none>", "Approved,Issued")},
		{"denied", []func(*csr){conditions(decided("Denied", ""))}, row("60m", signer, "alice", "<none>", "Denied")},
		{"a denial outweighs an approval", []func(*csr){conditions(decided("Approved", ""), decided("Denied", ""))}, row("60m", signer, "alice", "<none>", "Denied")},
		{"issued without approval", []func(*csr){issued}, row("60m", signer, "alice", "<none>", "Pending,Issued")},
		{"failed after all", []func(*csr){conditions(decided("Failed", ""), decided("Approved", "")), issued}, row("60m", signer, "alice", "<none>", "Approved,Failed,Issued")},
		{"the status of a condition does not count, nor do other types", []func(*csr){conditions(condition{Type: "Denied", Status: "False"}, condition{Type: "Custom", Status: "True"})},
			row("60m", signer, "alice", "<none>", "Denied")},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			obj := newCSR(t, tc.edits...)
			got, err := newTable().ConvertToTable(context.Background(), obj, &metav1.TableOptions{})
			if err != nil {
				t.Fatal(err)
			}
			want := []metav1.TableRow{{Cells: tc.want, Object: runtime.RawExtension{Object: obj}}}
			if diff := cmp.Diff(want, got.Rows); diff != "" {
				t.Errorf("rows (-want +got):\n%s", diff)
			}
		})
	}
}

// The descriptions are those of the v1beta1 API, which kubectl users know.
func TestTableColumns(t *testing.T) {
	got, err := newTable().ConvertToTable(context.Background(), newCSR(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []metav1.TableColumnDefinition{
		{Name: "Name", Type: "string", Format: "name", Description: "Name must be unique within a namespace. Is required when creating resources, although some resources may allow a client to request the generation of an appropriate name automatically. Name is primarily intended for creation idempotence and configuration definition. Cannot be updated. More info: https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names"},
		{Name: "Age", Type: "string", Description: "CreationTimestamp is a timestamp representing the server time when this object was created. It is not guaranteed to be set in happens-before order across separate operations. Clients may not set this value. It is represented in RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null for lists. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata"},
		{Name: "SignerName", Type: "string", Description: "Requested signer for the request. It is a qualified name in the form: `scope-hostname.io/name`. If empty, it will be defaulted:\n 1. If it's a kubelet client certificate, it is assigned\n    \"kubernetes.io/kube-apiserver-client-kubelet\".\n 2. If it's a kubelet serving certificate, it is assigned\n    \"kubernetes.io/kubelet-serving\".\n 3. Otherwise, it is assigned \"kubernetes.io/legacy-unknown\".\nDistribution of trust for signers happens out of band. You can select on this field using `spec.signerName`."},
		{Name: "Requestor", Type: "string", Description: "Base64-encoded PKCS#10 CSR data"},
		{Name: "RequestedDuration", Type: "string", Description: "expirationSeconds is the requested duration of validity of the issued certificate. The certificate signer may issue a certificate with a different validity duration so a client must check the delta between the notBefore and and notAfter fields in the issued certificate to determine the actual duration.\n\nThe v1.22+ in-tree implementations of the well-known Kubernetes signers will honor this field as long as the requested duration is not greater than the maximum duration they will honor per the --cluster-signing-duration CLI flag to the Kubernetes controller manager.\n\nCertificate signers may not honor this field for various reasons:\n\n  1. Old signer that is unaware of the field (such as the in-tree\n     implementations prior to v1.22)\n  2. Signer whose configured maximum is shorter than the requested duration\n  3. Signer whose configured minimum is longer than the requested duration\n\nThe minimum valid value for expirationSeconds is 600, i.e. 10 minutes."},
		{Name: "Condition", Type: "string", Description: "Conditions applied to the request, such as approval or denial."},
	}
	if diff := cmp.Diff(want, got.ColumnDefinitions); diff != "" {
		t.Errorf("columns (-want +got):\n%s", diff)
	}
}

func TestTableOfList(t *testing.T) {
	list := &certificatesv1.CertificateSigningRequestList{
		ListMeta: metav1.ListMeta{ResourceVersion: "7", Continue: "more", RemainingItemCount: ptr.To[int64](3)},
		Items:    []certificatesv1.CertificateSigningRequest{*newCSR(t, func(c *csr) { c.Name = "b" }), *newCSR(t, func(c *csr) { c.Name = "a" })},
	}
	got, err := newTable().ConvertToTable(context.Background(), list, &metav1.TableOptions{NoHeaders: true})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(list.ListMeta, got.ListMeta); diff != "" {
		t.Errorf("list metadata (-want +got):\n%s", diff)
	}
	if len(got.Rows) != 2 || got.Rows[0].Cells[0] != "b" || got.Rows[1].Cells[0] != "a" {
		t.Errorf("rows are not those of the list, in its order: %v", got.Rows)
	}
	if got.ColumnDefinitions != nil {
		t.Errorf("headers nobody asked for: %v", got.ColumnDefinitions)
	}
}

func TestTableOfOneObjectCopiesItsVersion(t *testing.T) {
	got, err := newTable().ConvertToTable(context.Background(), newCSR(t), nil)
	if err != nil || got.ResourceVersion != "1" {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestTableOfSomethingElse(t *testing.T) {
	if _, err := newTable().ConvertToTable(context.Background(), &metav1.Status{}, nil); err == nil {
		t.Error("a Status has become a table")
	}
}
