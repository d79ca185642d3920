package cluster_test

import (
	"bytes"
	"io"
	"net/http"
	"regexp"
	"testing"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/run/cluster"
)

// The metrics of cert-manager.io and of its webhook are served by the process
// that does the work. A series disappears with its object.
func TestMetricsOfCertManager(t *testing.T) {
	chosen := []string{"*", "issuers", "certificates", "certificaterequests", "certificaterequests-approver"}
	w := startWith(t, chosen...)
	cfg := w.config(t)
	cfg.Controllers, cfg.Webhook.BindAddress = chosen, apitest.FreeAddress(t)
	cfg.Metrics.BindAddress, cfg.Metrics.Anonymous = apitest.FreeAddress(t), true
	run(t, cfg)
	w.reachWebhook(t, cfg.Webhook.BindAddress)

	admin := connect(t, w.Admin(t))
	in := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "default", Name: name} }
	own := &cmv1.Issuer{ObjectMeta: in("own"), Spec: cmv1.IssuerSpec{IssuerConfig: cmv1.IssuerConfig{SelfSigned: &cmv1.SelfSignedIssuer{}}}}
	lost := &cmv1.ClusterIssuer{ObjectMeta: metav1.ObjectMeta{Name: "lost"}, Spec: cmv1.IssuerSpec{IssuerConfig: cmv1.IssuerConfig{CA: &cmv1.CAIssuer{SecretName: "nowhere"}}}}
	web := &cmv1.Certificate{ObjectMeta: in("web"), Spec: cmv1.CertificateSpec{
		SecretName: "web", CommonName: "web", IssuerRef: cmmeta.IssuerReference{Name: "own", Kind: "Issuer"},
		PrivateKey: &cmv1.CertificatePrivateKey{Algorithm: cmv1.ECDSAKeyAlgorithm},
	}}
	apitest.Eventually(t, "the webhook is reached", func() bool { return admin.Create(t.Context(), own) == nil })
	for _, object := range []client.Object{lost, web} {
		if err := admin.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	const of = `issuer_group="",issuer_kind="Issuer",issuer_name="own",name="web",namespace="default"`
	for _, series := range []string{
		`certmanager_certificate_ready_status\{condition="True",` + of + `\} 1`,
		`certmanager_certificate_expiration_timestamp_seconds\{` + of + `\} 1\.[0-9]+e\+09`,
		`certmanager_certificate_renewal_timestamp_seconds\{` + of + `\} 1\.[0-9]+e\+09`,
		`certmanager_issuer_ready_status\{condition="True",name="own",namespace="default"\} 1`,
		`certmanager_clusterissuer_ready_status\{condition="False",name="lost"\} 1`,
		`certmanager_controller_sync_call_count\{controller="certificates"\} [1-9]`,
		`certmanager_clock_time_seconds_gauge 1\.[0-9]+e\+09`,
		`certplane_admission_webhook_reviews_total\{path="validate",resource="certificates",result="allowed"\} [1-9]`,
		`certplane_admission_webhook_review_duration_seconds_count\{path="mutate"\} [1-9]`,
		`certplane_admission_webhook_certificate_not_after_seconds 1\.[0-9]+e\+09`,
	} {
		apitest.Eventually(t, series, func() bool { return regexp.MustCompile(`\n` + series).Match(scrape(t, cfg)) })
	}
	for _, object := range []client.Object{web, own, lost} {
		if err := admin.Delete(t.Context(), object); err != nil {
			t.Fatal(err)
		}
		gone := []byte(`name="` + object.GetName() + `"`)
		apitest.Eventually(t, object.GetName()+" is gone", func() bool { return !bytes.Contains(scrape(t, cfg), gone) })
	}
}

func scrape(t *testing.T, cfg cluster.Config) []byte {
	t.Helper()
	response, err := http.Get("http://" + cfg.Metrics.BindAddress + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%s, %v", response.Status, err)
	}
	return text
}
