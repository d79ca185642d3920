package cluster_test

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/google/go-cmp/cmp"

	inventoryv1alpha1 "github.com/certplane/certplane/api/inventory/v1alpha1"
	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/client/cli/certificates"
	"github.com/certplane/certplane/internal/pki"
)

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// withoutInventory returns a client configuration for which the API server serves no inventory,
// as in a cluster.
func withoutInventory(cfg *rest.Config) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if !strings.HasPrefix(r.URL.Path, "/apis/inventory.certplane.dev") {
				return next.RoundTrip(r)
			}
			return &http.Response{
				StatusCode: http.StatusNotFound, Header: http.Header{"Content-Type": {"text/plain"}}, Body: io.NopCloser(strings.NewReader("404 page not found\n")), Request: r,
			}, nil
		})
	})
	return cfg
}

// records returns the records in CertificatePacks that a search finds.
func (w world) records(t *testing.T, search certificates.Config) []inventoryv1alpha1.IssuedCertificate {
	t.Helper()
	c, err := certificates.Connect(withoutInventory(w.Admin(t)))
	if err != nil {
		t.Fatal(err)
	}
	search.Limit, search.Now, search.Ended = 10_000, time.Now(), true
	found, _, err := certificates.Find(t.Context(), c, search)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// awaitRecord returns the only record of a request.
func (w world) awaitRecord(t *testing.T, request string) (record inventoryv1alpha1.IssuedCertificate) {
	t.Helper()
	apitest.Eventually(t, "the certificate of "+request+" is recorded", func() bool {
		found := w.records(t, certificates.Config{RequestName: request})
		if len(found) > 1 {
			t.Fatalf("%s has %d records", request, len(found))
		}
		if len(found) == 1 {
			record = found[0]
		}
		return len(found) == 1
	})
	return record
}

// foreign issues a certificate for a request like another program.
func (w world) foreign(t *testing.T, name string) {
	t.Helper()
	csr := apitest.Decide(t, w.admin, apitest.Create(t, w.admin, apitest.NewCSR(t, name, "example.com/foreign", pki.Subject{CommonName: name}, apitest.NewKey(t))), certificatesv1.CertificateApproved)
	csr.Status.Certificate = newCAText(t)
	if _, err := w.admin.CertificatesV1().CertificateSigningRequests().UpdateStatus(t.Context(), csr, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// foreignRequest is foreign for a CertificateRequest of an external issuer.
func (w world) foreignRequest(t *testing.T, name string) {
	t.Helper()
	kinds := runtime.NewScheme()
	if err := certmanager.AddToScheme(kinds); err != nil {
		t.Fatal(err)
	}
	api, err := client.New(w.Admin(t), client.Options{Scheme: kinds})
	if err != nil {
		t.Fatal(err)
	}
	csr, err := pki.NewRequest(pki.Subject{CommonName: name}, apitest.NewKey(t))
	if err != nil {
		t.Fatal(err)
	}
	cr := &cmv1.CertificateRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       cmv1.CertificateRequestSpec{Request: csr, IssuerRef: cmmeta.IssuerReference{Group: "example.com", Kind: "Issuer", Name: "external"}},
	}
	if err := api.Create(t.Context(), cr); err != nil {
		t.Fatal(err)
	}
	cr.Status.Certificate = newCAText(t)
	certmanager.SetRequestCondition(cr, cmv1.CertificateRequestConditionReady, cmmeta.ConditionTrue, cmv1.CertificateRequestReasonIssued, "issued", metav1.Now())
	if err := api.Status().Update(t.Context(), cr); err != nil {
		t.Fatal(err)
	}
}

// Certificates of our signers and of others are recorded, with the same facts as by the server
// itself, also those that were issued while no controller ran.
func TestInventory(t *testing.T) {
	w := startWith(t, "*")
	w.foreign(t, "before") // the first start in an old cluster
	w.foreignRequest(t, "before-external")
	p := run(t, w.config(t))
	w.awaitRecord(t, "before")
	w.awaitRecord(t, "before-external")

	w.sign(t, "alice")
	if found := w.records(t, certificates.Config{RequestName: "alice"}); len(found) != 1 { // at once: it was recorded first
		t.Fatalf("alice has %d records", len(found))
	}
	const inTime = 10 * time.Second // two seconds, and the searches
	for name, issue := range map[string]func(*testing.T, string){"foreign": w.foreign, "external": w.foreignRequest} {
		watch := apitest.StartStopwatch(t)
		issue(t, name)
		w.awaitRecord(t, name)
		if took := watch.Elapsed(); took > inTime {
			t.Errorf("%s was recorded after %s", name, took)
		}
	}
	p.stop()
	<-p.ended
	w.foreign(t, "meanwhile")
	run(t, w.config(t))
	w.awaitRecord(t, "meanwhile")

	c, err := certificates.Connect(w.Admin(t))
	if err != nil {
		t.Fatal(err)
	}
	want, _, err := certificates.Find(t.Context(), c, certificates.Config{Limit: 1000, Now: time.Now(), Requester: "certplane:admin"})
	if err != nil {
		t.Fatal(err)
	}
	got := w.records(t, certificates.Config{Requester: "certplane:admin"})
	if diff := cmp.Diff(known(want), known(got)); diff != "" || len(got) != 6 {
		t.Errorf("%d records; -of the server, +in packs:\n%s", len(got), diff)
	}
}

// known returns what packs and the server both know: the server also knows who has approved,
// which tenant pays, and when it has stored a certificate.
func known(records []inventoryv1alpha1.IssuedCertificate) []inventoryv1alpha1.IssuedCertificate {
	for i := range records {
		r := &records[i]
		r.CreationTimestamp, r.ResourceVersion, r.Annotations = metav1.Time{}, "", nil
		delete(r.Labels, inventoryv1alpha1.ChargedLabel)
		if r.Approval != nil {
			r.Approval.Approvers, r.Approval.Time = nil, nil
		}
	}
	slices.SortFunc(records, func(a, b inventoryv1alpha1.IssuedCertificate) int {
		return strings.Compare(a.Request.Name, b.Request.Name)
	})
	return records
}

// Without the right to write records, certificates are issued with a warning, and recorded when
// the right is back. With inventory.required, they are held until then.
func TestInventoryNotWritable(t *testing.T) {
	for _, required := range []bool{false, true} {
		t.Run(fmt.Sprintf("required %t", required), func(t *testing.T) {
			w := startWith(t, "*")
			cfg := w.config(t)
			cfg.Inventory.Required = required
			roles := w.admin.RbacV1().RoleBindings("certplane-system")
			binding, err := roles.Get(t.Context(), "certificate-recorder", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if err := roles.Delete(t.Context(), binding.Name, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			apitest.Eventually(t, "the right is gone", func() bool {
				return !w.Allowed(t, "system:serviceaccount:certplane-system:certificate-recorder", nil, authorizationv1.ResourceAttributes{
					Namespace: "certplane-system", Verb: "create", Group: "records.certplane.dev", Resource: "certificatepacks",
				})
			})
			run(t, cfg)
			if !required {
				w.sign(t, "alice")
				w.awaitWarning(t, "alice", "NotRecorded")
			} else {
				request := apitest.NewCSR(t, "alice", certificatesv1.KubeAPIServerClientSignerName, pki.Subject{CommonName: "alice"}, apitest.NewKey(t))
				apitest.Decide(t, w.admin, apitest.Create(t, w.admin, request), certificatesv1.CertificateApproved)
				apitest.Eventually(t, "the request waits for the inventory", func() bool {
					csr, err := w.admin.CertificatesV1().CertificateSigningRequests().Get(t.Context(), "alice", metav1.GetOptions{})
					return err == nil && len(csr.Status.Certificate) == 0 && slices.ContainsFunc(csr.Status.Conditions, func(c certificatesv1.CertificateSigningRequestCondition) bool {
						return c.Reason == "NotRecorded"
					})
				})
			}
			binding.ResourceVersion, binding.UID = "", ""
			if _, err := roles.Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			apitest.Eventually(t, "the request has its certificate", func() bool {
				csr, err := w.admin.CertificatesV1().CertificateSigningRequests().Get(t.Context(), "alice", metav1.GetOptions{})
				return err == nil && len(csr.Status.Certificate) > 0
			})
			w.awaitRecord(t, "alice")
		})
	}
}
