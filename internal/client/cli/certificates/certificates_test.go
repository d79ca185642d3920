package certificates_test

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	inventoryv1alpha1 "github.com/certplane/certplane/api/inventory/v1alpha1"
	"github.com/certplane/certplane/internal/client/cli/certificates"
	"github.com/certplane/certplane/internal/client/cli/print"
	"github.com/certplane/certplane/internal/inventory"
)

var now = time.Date(2030, 6, 1, 12, 0, 0, 0, time.UTC)

// newRecord returns the record of a certificate that is valid for a day.
func newRecord(name string) *inventoryv1alpha1.IssuedCertificate {
	r := &inventoryv1alpha1.IssuedCertificate{
		SignerName:  "example.com/hosts",
		Certificate: inventoryv1alpha1.CertificateFacts{CommonName: name, Subject: "CN=" + name, Fingerprint: strings.Repeat(name[:1], 64), NotAfter: metav1.NewTime(now.Add(24 * time.Hour))},
		Request:     inventoryv1alpha1.RequestFacts{Kind: "CertificateRequest", Namespace: "shop", Name: name},
	}
	inventory.Complete(r)
	return r
}

// shown returns what the verb shows of records.
func shown(t *testing.T, cfg certificates.Config, records ...client.Object) string {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := inventoryv1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	api := fake.NewClientBuilder().WithScheme(scheme).WithObjects(records...).WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			all := (&client.ListOptions{}).ApplyOptions(options)
			all.FieldSelector = nil // the fake cannot select by fields
			return c.List(ctx, list, all)
		},
	}).Build()
	var out, problems bytes.Buffer
	cfg.Connect = func() (client.Client, error) { return api, nil }
	cfg.Now, cfg.Stdout, cfg.Stderr, cfg.Limit = now, &out, &problems, 10
	if err := certificates.Run(t.Context(), cfg); err != nil || problems.Len() > 0 {
		t.Fatalf("%v, %s", err, &problems)
	}
	return out.String()
}

// A location that only the requester says is marked as such.
func TestClaimedLocation(t *testing.T) {
	claimed, known := newRecord("claimed"), newRecord("known")
	claimed.Location = &inventoryv1alpha1.Location{Kind: "Certificate", Namespace: "shop", Name: "web", Claimed: true}
	known.Location = &inventoryv1alpha1.Location{Kind: "Node", Name: "edge-1"}
	for _, format := range []string{print.Wide, print.CSV} {
		got := shown(t, certificates.Config{Output: format}, claimed, known)
		if !strings.Contains(got, "Certificate shop/web (as the request says)") || !strings.Contains(got, "Node edge-1") || strings.Count(got, "as the request says") != 1 {
			t.Errorf("-o %s:\n%s", format, got)
		}
	}
}

// --revoked leaves out what is not revoked, on each page, and the file says who has revoked.
func TestRevoked(t *testing.T) {
	valid, revoked, other := newRecord("valid"), newRecord("revoked"), newRecord("other")
	for _, r := range []*inventoryv1alpha1.IssuedCertificate{revoked, other} {
		r.Revocation = &inventoryv1alpha1.RevocationFacts{Time: metav1.NewTime(now), Reason: "keyCompromise", By: "account-1"}
	}
	other.Labels["team"] = "shop"
	cfg := certificates.Config{Revoked: true, Output: print.CSV, Selector: labels.SelectorFromSet(labels.Set{"team": "shop"})}
	if got := shown(t, cfg, valid, revoked, other); strings.Count(got, "\n") != 2 || !strings.Contains(got, "CN=other") || !strings.HasSuffix(got, ",2030-06-01T12:00:00Z,keyCompromise,account-1,\n") {
		t.Errorf("with another filter:\n%s", got)
	}
	if got := shown(t, certificates.Config{Revoked: true}, valid, revoked, other); strings.Contains(got, "CN=valid") || strings.Count(got, "-          revoked  2030-06-02T12:00:00Z  24h") != 2 {
		t.Errorf("all:\n%s", got)
	}
}

// A revoked certificate stays revoked after its end.
func TestState(t *testing.T) {
	valid, ended, revoked := newRecord("valid"), newRecord("ended"), newRecord("revoked")
	ended.Certificate.NotAfter, revoked.Certificate.NotAfter = metav1.NewTime(now), metav1.NewTime(now.Add(-time.Hour))
	revoked.Revocation = &inventoryv1alpha1.RevocationFacts{Time: metav1.NewTime(now)}
	got := shown(t, certificates.Config{Ended: true}, valid, ended, revoked)
	for _, want := range []string{
		"STATE    ENDS                  IN ", "CN=valid    example.com/hosts  -          valid    2030-06-02T12:00:00Z  24h",
		"ended    2030-06-01T12:00:00Z  -\n", "revoked  2030-06-01T11:00:00Z  -\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in:\n%s", want, got)
		}
	}
}
