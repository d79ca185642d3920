package certmetrics_test

import (
	"regexp"
	"strings"
	"testing"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/apitest"
)

// Dashboards and alerts that were made for cert-manager find their series, and
// the series disappear with their objects.
func TestMetrics(t *testing.T) {
	s := apitest.Start(t)
	admin := apitest.Client(t, s.Admin(t))
	kinds := runtime.NewScheme()
	if err := certmanager.AddToScheme(kinds); err != nil {
		t.Fatal(err)
	}
	api, err := client.New(s.Admin(t), client.Options{Scheme: kinds})
	if err != nil {
		t.Fatal(err)
	}
	in := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "default", Name: name} }
	own := &cmv1.Issuer{ObjectMeta: in("own"), Spec: cmv1.IssuerSpec{IssuerConfig: cmv1.IssuerConfig{SelfSigned: &cmv1.SelfSignedIssuer{}}}}
	lost := &cmv1.ClusterIssuer{ObjectMeta: metav1.ObjectMeta{Name: "lost"}, Spec: cmv1.IssuerSpec{IssuerConfig: cmv1.IssuerConfig{CA: &cmv1.CAIssuer{SecretName: "nowhere"}}}}
	web := &cmv1.Certificate{ObjectMeta: in("web"), Spec: cmv1.CertificateSpec{
		SecretName: "web", CommonName: "web", IssuerRef: cmmeta.IssuerReference{Name: "own", Kind: "Issuer"},
		PrivateKey: &cmv1.CertificatePrivateKey{Algorithm: cmv1.ECDSAKeyAlgorithm},
	}}
	for _, object := range []client.Object{own, lost, web} {
		if err := api.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}

	const of = `issuer_group="",issuer_kind="Issuer",issuer_name="own",name="web",namespace="default"`
	for _, series := range []string{
		`certmanager_certificate_ready_status{condition="True",` + of + `} 1`,
		`certmanager_certificate_ready_status{condition="False",` + of + `} 0`,
		`certmanager_certificate_ready_status{condition="Unknown",` + of + `} 0`,
		`certmanager_issuer_ready_status{condition="True",name="own",namespace="default"} 1`,
		`certmanager_issuer_ready_status{condition="False",name="own",namespace="default"} 0`,
		`certmanager_clusterissuer_ready_status{condition="False",name="lost"} 1`,
		`certmanager_clusterissuer_ready_status{condition="Unknown",name="lost"} 0`,
	} {
		apitest.Eventually(t, series, func() bool { return strings.Contains(scrape(t, admin), "\n"+series+"\n") })
	}
	if err := api.Get(t.Context(), client.ObjectKeyFromObject(web), web); err != nil {
		t.Fatal(err)
	}
	const number = ` [0-9.e+]+\n`
	for _, pattern := range []string{
		`certmanager_certificate_expiration_timestamp_seconds\{` + of + `\} 1\.[0-9]+e\+09`,
		`certmanager_certificate_not_after_timestamp_seconds\{` + of + `\} 1\.[0-9]+e\+09`,
		`certmanager_certificate_not_before_timestamp_seconds\{` + of + `\} 1\.[0-9]+e\+09`,
		`certmanager_certificate_renewal_timestamp_seconds\{` + of + `\} 1\.[0-9]+e\+09`,
		`# TYPE certmanager_controller_sync_call_count counter`,
		`certmanager_controller_sync_call_count\{controller="certificates"\}` + number,
		`certmanager_controller_sync_call_count\{controller="issuers"\}` + number,
		`certmanager_controller_sync_error_count\{controller="certificates"\}` + number,
		`# TYPE certmanager_clock_time_seconds counter`,
		`# TYPE certmanager_clock_time_seconds_gauge gauge`,
	} {
		if text := scrape(t, admin); !regexp.MustCompile(pattern).MatchString(text) {
			t.Errorf("no %s among\n%s", pattern, ours(text))
		}
	}

	for _, object := range []client.Object{web, own, lost} {
		if err := api.Delete(t.Context(), object); err != nil {
			t.Fatal(err)
		}
		apitest.Eventually(t, object.GetName()+" is gone", func() bool {
			return !regexp.MustCompile(`[{,]name="` + object.GetName() + `"`).MatchString(ours(scrape(t, admin)))
		})
	}
}

func scrape(t *testing.T, admin kubernetes.Interface) string {
	t.Helper()
	text, err := admin.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// ours are the series of cert-manager.io.
func ours(text string) string {
	var lines strings.Builder
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "certmanager_") {
			lines.WriteString(line)
		}
	}
	return lines.String()
}
