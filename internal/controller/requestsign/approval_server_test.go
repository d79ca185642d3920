package requestsign_test

import (
	"strings"
	"testing"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/apitest"
)

// An approval must be written back unchanged, even if it is more precise than
// Go programs write: clients in other languages write microseconds.
func TestApprovalStaysAsItIs(t *testing.T) {
	w := share(t, &byHand)
	key := apitest.NewKey(t)
	cr := request(t, "web", cmmeta.IssuerReference{Name: "ca"}, key)
	w.create(t, newCA(t, "", "ca", apitest.NewKey(t)), caIssuer("ca", "ca"), cr)
	const since = "2026-03-01T12:00:00.123456Z"
	patch := `{"status":{"conditions":[{"type":"Approved","status":"True","reason":"Elsewhere","message":"m","lastTransitionTime":"` + since + `"}]}}`
	if err := w.admin.Status().Patch(t.Context(), cr, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		t.Fatal(err)
	}
	verified(t, w.becomes(t, "web", cmv1.CertificateRequestReasonIssued), key)
	raw, err := apitest.Client(t, w.Admin(t)).Discovery().RESTClient().Get().
		RequestURI("/apis/cert-manager.io/v1/namespaces/" + w.namespace + "/certificaterequests/web").DoRaw(t.Context())
	if err != nil || !strings.Contains(string(raw), since) {
		t.Errorf("the approval has changed: %s, %v", raw, err)
	}
}
