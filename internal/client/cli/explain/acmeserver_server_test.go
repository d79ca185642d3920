package explain_test

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/apitest/acmetest"
	verb "github.com/certplane/certplane/internal/client/cli/explain"
	"github.com/certplane/certplane/internal/client/explain"
)

// explained returns the text about an object of the ACME server.
func explained(w *acmetest.World, run func(context.Context, verb.Config) error, namespace, name string) string {
	w.Helper()
	var out strings.Builder
	api, err := explain.Connect(w.Server.Admin(w))
	if err != nil {
		w.Fatal(err)
	}
	err = run(w.Context(), verb.Config{
		Name: name, Namespace: namespace, Kubectl: []string{"kubectl"}, Now: time.Now, Stdout: io.Writer(&out),
		Connect: func() (explain.Reader, error) { return api, nil },
	})
	if err != nil {
		w.Fatal(err)
	}
	return out.String()
}

// tells checks that a text has all of these, with one blank between words.
func tells(t testing.TB, text string, wanted ...string) {
	t.Helper()
	text = strings.Join(strings.Fields(text), " ")
	for _, want := range wanted {
		if !strings.Contains(text, want) {
			t.Errorf("the text lacks %q:\n%s", want, text)
		}
	}
}

// An order is explained with its gates, each challenge, its request and who may approve
// that; a refusal with what the approver has said.
func TestACMEOrder(t *testing.T) {
	w := acmetest.New(t, apitest.Start(t))
	open := w.Order("www." + w.Namespace + ".example")
	open.Status.Authorizations[0].Challenges[0].State = "processing"
	open.Status.Authorizations[0].Challenges[0].Attempts = 2
	open.Status.Authorizations[0].Challenges[0].NextAttempt = &metav1.Time{Time: time.Now().Add(time.Hour)}
	open.Status.Authorizations[0].Challenges[0].Error = &v1alpha1.AcmeProblem{Type: "connection", Detail: "refused"}
	w.UpdateStatus(open)
	tells(t, explained(w, verb.ACMEOrder, w.Namespace, open.Name),
		" waits for its client to prove control of all names", "yes account", "yes use", "yes request", "no person", "control of 0 of 1 names is proven",
		"tried 2 times: connection: refused")

	waiting := w.Order(w.Preauthorized("www"))
	w.Finalize(waiting)
	waiting = w.Until(waiting, "has a request", func(o *v1alpha1.AcmeOrder) bool { return o.Status.Request != nil && o.Status.Request.UID != "" })
	apitest.Eventually(t, "the order says that it waits", func() bool {
		text := explained(w, verb.ACMEOrder, w.Namespace, waiting.Name)
		return strings.Contains(text, "is processing: the request waits for its approval")
	})
	tells(t, explained(w, verb.ACMEOrder, w.Namespace, waiting.Name), "preauthorized", "Request "+waiting.Status.Request.Name, "lacks autoapprove on acmeendpoints/"+w.Namespace+": a person", "certplane approve "+waiting.Status.Request.Name)

	csr := &certificatesv1.CertificateSigningRequest{}
	if err := w.Objects.Get(t.Context(), client.ObjectKey{Name: waiting.Status.Request.Name}, csr); err != nil {
		t.Fatal(err)
	}
	csr.Status.Conditions = append(csr.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateDenied, Status: corev1.ConditionTrue, Reason: "Unknown", Message: "nobody knows this host",
	})
	if err := w.Objects.SubResource("approval").Update(t.Context(), csr); err != nil {
		t.Fatal(err)
	}
	w.Ended(waiting)
	tells(t, explained(w, verb.ACMEOrder, w.Namespace, waiting.Name), "has failed (unauthorized): denied: Unknown: nobody knows this host")

	tells(t, explained(w, verb.ACMEAccount, "", w.Account.Name), w.Account.Name+" can order: it is in force", "external key "+w.Namespace+"/fleet")
	w.Change(w.Key, func() { w.Key.Spec.Revoked = true })
	tells(t, explained(w, verb.ACMEAccount, "", w.Account.Name), "cannot order: account revoked: its external account key has ended")
	tells(t, explained(w, verb.ACMEEndpoint, "", w.Namespace), "no ACME server is configured")
}
