package requestsign_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/rights"
	"github.com/certplane/certplane/internal/run/server"
)

// The answer to the creation of a request to an issuer with a CA in the process has
// the approval and the certificate, and nothing is written after that. Fields of the
// request keep the form in which the client has sent them.
func TestIssuedOnCreate(t *testing.T) {
	w := newWorld(t, apitest.Start(t, apitest.IssueOnCreate), "default")
	w.create(t, newCA(t, "", "ca", apitest.NewKey(t)), caIssuer("ca", "ca"))
	w.answersAtOnce(t, "ca")
	key := apitest.NewKey(t)
	created := request(t, "web", cmmeta.IssuerReference{Name: "ca"}, key)
	w.create(t, created)
	approved, ready := api.RequestCondition(created, cmv1.CertificateRequestConditionApproved), api.RequestCondition(created, cmv1.CertificateRequestConditionReady)
	if approved == nil || ready == nil || ready.Reason != cmv1.CertificateRequestReasonIssued {
		t.Fatalf("the answer has the status %+v", created.Status)
	}
	verified(t, created, key)
	stored := &cmv1.CertificateRequest{}
	if err := w.admin.Get(t.Context(), client.ObjectKeyFromObject(created), stored); err != nil || stored.ResourceVersion != created.ResourceVersion {
		t.Errorf("version %s was stored after %s was answered, %v", stored.ResourceVersion, created.ResourceVersion, err)
	}
}

// Nothing is approved at once if that is left to others, and nothing is signed at
// once by CAs elsewhere.
func TestNotIssuedOnCreate(t *testing.T) {
	w := share(t, &byHand)
	w.create(t, newCA(t, "", "ca", apitest.NewKey(t)), caIssuer("ca", "ca"))
	w.becomesReady(t, "ca")
	created := request(t, "web", cmmeta.IssuerReference{Name: "ca"}, apitest.NewKey(t))
	w.create(t, created)
	if len(created.Status.Conditions) > 0 {
		t.Errorf("the answer has the status %+v", created.Status)
	}

	w = newWorld(t, apitest.Start(t, apitest.IssueOnCreate), "default")
	vault := &cmv1.Issuer{ObjectMeta: meta("", "vault"), Spec: cmv1.IssuerSpec{IssuerConfig: cmv1.IssuerConfig{Vault: &cmv1.VaultIssuer{
		Server: "https://vault.example.com", Path: "pki/sign/web", Auth: cmv1.VaultAuth{TokenSecretRef: &cmmeta.SecretKeySelector{
			LocalObjectReference: cmmeta.LocalObjectReference{Name: "token"}, Key: "token",
		}},
	}}}}
	w.create(t, vault)
	requests := 0
	create := func() (approved bool) {
		requests++
		created := request(t, fmt.Sprintf("web-%d", requests), cmmeta.IssuerReference{Name: "vault"}, apitest.NewKey(t))
		w.create(t, created)
		if ready := api.RequestCondition(created, cmv1.CertificateRequestConditionReady); ready != nil {
			t.Errorf("the answer says %+v", ready)
		}
		return api.RequestCondition(created, cmv1.CertificateRequestConditionApproved) != nil
	}
	apitest.Eventually(t, "an answer has an approval", create) // the approver begins a while after the API
	for range 3 {
		if !create() {
			t.Errorf("the answer has no approval")
		}
	}
}

// The audit log names the approver and the signer, which update the same subresource.
func TestIssuedOnCreateIsAudited(t *testing.T) {
	dir := t.TempDir()
	policy, log := filepath.Join(dir, "policy.yaml"), filepath.Join(dir, "audit.log")
	const rules = `{"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{"level": "Metadata", "resources": [{"group": "cert-manager.io"}]}]}`
	if err := os.WriteFile(policy, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, apitest.Start(t, apitest.IssueOnCreate, func(cfg *server.Config) { cfg.Audit.PolicyFile, cfg.Audit.Log.Path = policy, log }), "default")
	w.create(t, newCA(t, "", "ca", apitest.NewKey(t)), caIssuer("ca", "ca"))
	w.answersAtOnce(t, "ca")
	w.create(t, request(t, "web", cmmeta.IssuerReference{Name: "ca"}, apitest.NewKey(t)))
	const account = "system:serviceaccount:" + rights.ServeNamespace + ":"
	want := fmt.Sprintf("%q:%q", "oncreate.certplane.dev/status", account+rights.ApproveRequests.Account+", "+account+rights.AnswerRequests.Account)
	apitest.Eventually(t, "the audit log has "+want, func() bool {
		text, err := os.ReadFile(log)
		return err == nil && strings.Contains(string(text), want)
	})
}

// becomesReady waits until an Issuer can sign.
func (w world) becomesReady(t *testing.T, issuer string) {
	t.Helper()
	apitest.Eventually(t, "Issuer "+issuer+" is ready", func() bool {
		found := &cmv1.Issuer{}
		return w.admin.Get(t.Context(), client.ObjectKey{Name: issuer}, found) == nil && slices.ContainsFunc(found.Status.Conditions, func(c cmv1.IssuerCondition) bool {
			return c.Type == cmv1.IssuerConditionReady && c.Status == cmmeta.ConditionTrue
		})
	})
}

// answersAtOnce waits until requests to an Issuer are answered when they are created:
// the controllers begin a while after the API.
func (w world) answersAtOnce(t *testing.T, issuer string) {
	t.Helper()
	requests := 0
	apitest.Eventually(t, "requests to Issuer "+issuer+" are answered at once", func() bool {
		requests++
		created := request(t, fmt.Sprintf("early-%d", requests), cmmeta.IssuerReference{Name: issuer}, apitest.NewKey(t))
		w.create(t, created)
		return len(created.Status.Certificate) > 0
	})
}

// answered waits until a request has its certificate.
func (w world) answered(t *testing.T, cr *cmv1.CertificateRequest) {
	t.Helper()
	apitest.Eventually(t, "request "+cr.Name+" is answered", func() bool {
		return w.admin.Get(t.Context(), client.ObjectKeyFromObject(cr), cr) == nil && len(cr.Status.Certificate) > 0
	})
}

// One write equals three steps: the same status and the same owners of fields.
func TestOneWriteEqualsThreeSteps(t *testing.T) {
	var got []*cmv1.CertificateRequest
	for _, oneWrite := range []bool{false, true} {
		w := newWorld(t, apitest.Start(t, func(cfg *server.Config) { cfg.API.IssueOnCreate = oneWrite }), "default")
		w.create(t, newCA(t, "", "ca", apitest.NewKey(t)), caIssuer("ca", "ca"))
		if oneWrite {
			w.answersAtOnce(t, "ca")
		} else { // a request that meets an Issuer which is not ready is told so first
			early := request(t, "early", cmmeta.IssuerReference{Name: "ca"}, apitest.NewKey(t))
			w.create(t, early)
			w.answered(t, early)
		}
		created := request(t, "web", cmmeta.IssuerReference{Name: "ca"}, apitest.NewKey(t))
		w.create(t, created)
		if (len(created.Status.Certificate) > 0) != oneWrite {
			t.Fatalf("the answer has the status %+v", created.Status)
		}
		w.answered(t, created)
		created.Status.Certificate, created.Status.CA = nil, nil
		got = append(got, created)
	}
	times := cmpopts.IgnoreTypes(metav1.Time{}, &metav1.Time{})
	if diff := cmp.Diff(got[0].Status, got[1].Status, times); diff != "" {
		t.Errorf("status (-three steps +one write):\n%s", diff)
	}
	byManager := cmpopts.SortSlices(func(a, b metav1.ManagedFieldsEntry) bool { return a.Manager < b.Manager }) // they are stored by time
	if diff := cmp.Diff(got[0].ManagedFields, got[1].ManagedFields, times, byManager); diff != "" || len(got[1].ManagedFields) != 3 {
		t.Errorf("managed fields (-three steps +one write):\n%s", diff)
	}
}
