package policies_test

import (
	"fmt"
	"regexp"
	"strconv"
	"testing"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/run/server"
)

// On its way from its creation to its certificate, policies are asked five times about a
// request that is issued on create: four times as the metrics count it, and about the
// certificate before it is signed. ARCHITECTURE.md names the questions.
func TestFiveQuestions(t *testing.T) {
	f := startAlone(t, apitest.IssueOnCreate, func(c *server.Config) { c.Policy.CheckIssued = true })
	f.issuerWithCA("ca")
	f.policy("web", func(s *v1alpha1.CertificatePolicySpec) {
		issueOnCreate(s)
		s.Match.Signers = []string{"issuers.cert-manager.io/default.ca"}
	})
	created := 0
	issue := func() bool {
		created++
		pem, err := pki.NewRequest(pki.Subject{CommonName: "web-1"}, apitest.NewKey(t))
		if err != nil {
			t.Fatal(err)
		}
		cr := &cmv1.CertificateRequest{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("web-%d", created)},
			Spec:       cmv1.CertificateRequestSpec{Request: pem, IssuerRef: cmmeta.IssuerReference{Name: "ca"}, Usages: []cmv1.KeyUsage{cmv1.UsageClientAuth}},
		}
		f.create(cr)
		return len(cr.Status.Certificate) > 0
	}
	apitest.Eventually(t, "requests are issued on create", issue)
	apitest.Eventually(t, "the requests before are answered", func() bool {
		all := &cmv1.CertificateRequestList{}
		if err := f.objects.List(t.Context(), all); err != nil {
			t.Fatal(err)
		}
		for i := range all.Items {
			if len(all.Items[i].Status.Certificate) == 0 {
				return false
			}
		}
		return true
	})
	before := f.questions()
	if !issue() {
		t.Fatal("the request is not issued on create")
	}
	asked := map[string]int{}
	for stage, n := range f.questions() {
		if n -= before[stage]; n > 0 {
			asked[stage] = n
		}
	}
	if diff := gocmp.Diff(map[string]int{"Create": 1, "Approver": 1, "Approve": 1, "Sign": 1}, asked); diff != "" {
		t.Errorf("questions to the policies (-want +got):\n%s", diff)
	}
}

var questionsLine = regexp.MustCompile(`(?m)^certplane_policy_duration_seconds_count\{stage="(\w+)"\} (\d+)$`)

// questions returns how often policies were asked at each stage.
func (f *fixture) questions() map[string]int {
	f.Helper()
	found := map[string]int{}
	for _, match := range questionsLine.FindAllStringSubmatch(f.metrics(), -1) {
		n, err := strconv.Atoi(match[2])
		if err != nil {
			f.Fatal(err)
		}
		found[match[1]] = n
	}
	return found
}

// issuerWithCA creates an Issuer whose CA is in a Secret.
func (f *fixture) issuerWithCA(name string) {
	f.Helper()
	key := apitest.NewKey(f)
	root, err := pki.NewRoot(pki.UnrecordedSigning, name, key, pki.DefaultRootLifetime, time.Now())
	if err != nil {
		f.Fatal(err)
	}
	inPEM, err := pki.EncodePrivateKey(key)
	if err != nil {
		f.Fatal(err)
	}
	f.create(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Type: corev1.SecretTypeTLS,
		Data: map[string][]byte{corev1.TLSCertKey: pki.EncodeCertificates(root.Certificate()), corev1.TLSPrivateKeyKey: inPEM},
	})
	f.create(&cmv1.Issuer{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: cmv1.IssuerSpec{IssuerConfig: cmv1.IssuerConfig{CA: &cmv1.CAIssuer{SecretName: name}}}})
}
