package acmeserver

import (
	"encoding/json"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
)

// An order in the cache has neither its request nor its chain, and what another cache
// may share stays as it is.
func TestOrdersInTheCacheAreSmall(t *testing.T) {
	chain := strings.Repeat("x", 8<<10)
	certificate := &v1alpha1.AcmeCertificate{Serial: "1", Chain: chain}
	o := &v1alpha1.AcmeOrder{
		ObjectMeta: metav1.ObjectMeta{Name: "a", ManagedFields: []metav1.ManagedFieldsEntry{{Manager: strings.Repeat("m", 4<<10)}}},
		Status:     v1alpha1.AcmeOrderStatus{State: v1alpha1.AcmeOrderValid, CSR: []byte(chain), Certificate: certificate},
	}
	trimmed, err := TransformOrder(o)
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(trimmed)
	if err != nil {
		t.Fatal(err)
	}
	if len(data) > 1<<10 || certificate.Chain != chain {
		t.Errorf("%d bytes are left, and of the chain of others %d", len(data), len(certificate.Chain))
	}
}
