package explain_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/certplane/certplane/internal/apitest"
	verb "github.com/certplane/certplane/internal/client/cli/explain"
	"github.com/certplane/certplane/internal/client/explain"
	"github.com/certplane/certplane/internal/pki"
)

// csr creates a CertificateSigningRequest as a user.
func (w issuing) csr(t *testing.T, user, name, signerName string, annotations map[string]string) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	c := apitest.NewCSR(t, name, signerName, pki.Subject{CommonName: name}, apitest.NewKey(t))
	c.Annotations = annotations
	return apitest.Create(t, apitest.Client(t, w.As(t, user)), c)
}

func (w issuing) explainCSR(t *testing.T, name string) (explain.Explanation, string) {
	t.Helper()
	return ask[explain.Explanation](t, verb.Run, w.Admin(t), name, time.Now())
}

// The explanation of a request to an issuer says what the issuer will answer,
// before a user approves the request in vain: which users may refer to the
// issuer, and what it accepts.
func TestRequestsToIssuers(t *testing.T) {
	w := startIssuing(t)
	admin := apitest.Client(t, w.Admin(t))
	w.create(t, newIssuer("self", cmv1.IssuerConfig{SelfSigned: &cmv1.SelfSignedIssuer{}}))
	w.Grant(t, "eve", apitest.Allow("create", "certificatesigningrequests"))
	const self, key = "issuers.cert-manager.io/default.self", "experimental.cert-manager.io/private-key-secret-name"

	stranger := w.csr(t, "eve", "stranger", self, map[string]string{key: "key"})
	var e explain.Explanation
	var text string
	apitest.Eventually(t, "the issuer is ready", func() bool {
		e, text = w.explainCSR(t, "stranger")
		return check(t, e, "issuer").Result == explain.Yes
	})
	const denied = `user "eve" may not refer to the Issuer "self" in namespace "default": grant the verb reference on signers.cert-manager.io named "self" there`
	if want := "stranger waits for approval, and its signer would refuse it: " + denied; e.Verdict != want {
		t.Errorf("%s, want %s", e.Verdict, want)
	}
	says(t, text, "may sign: kube-system/cert-manager-certificatesigningrequests", "Issuer self in the namespace default is ready", "certplane kubectl --context c apply -f - <<'END'\napiVersion: rbac")
	if c := check(t, e, "reference"); c.Result != explain.No || c.Message != denied {
		t.Errorf("%+v", c)
	}
	apitest.Decide(t, admin, stranger, certificatesv1.CertificateApproved)
	apitest.Eventually(t, "it fails", func() bool {
		e, text = w.explainCSR(t, "stranger")
		return e.State == "Failed"
	})
	says(t, text, "stranger failed at its signer: "+denied, "This is final.")

	// The printed input is enough to permit the request.
	i := slices.IndexFunc(e.Next, func(s explain.Step) bool { return s.Input != "" })
	if i < 0 {
		t.Fatal(e.Next)
	}
	says(t, e.Next[i].Input, `name: reference-self-eve`)
	applyYAML(t, w.admin, e.Next[i].Input)
	apitest.Decide(t, admin, w.csr(t, "eve", "again", self, map[string]string{key: "key"}), certificatesv1.CertificateApproved)
	apitest.Eventually(t, "it waits for its key", func() bool {
		e, text = w.explainCSR(t, "again")
		return strings.HasPrefix(e.Verdict, "again is approved, and its signer cannot sign: Referenced secret default/key not found")
	})
	says(t, text, `user "eve" may refer to the Issuer "self" in namespace "default"`, "continues automatically when the missing objects exist")

	for _, tc := range []struct{ name, signer, verdict, says string }{
		{"keyless", self, `its signer would refuse it: annotation "` + key + `" is missing or empty`, "terms"},
		{"nobody", "clusterissuers.cert-manager.io/no.body", `waits for approval, and its issuer cannot sign: Referenced "ClusterIssuer" not found`, "Create the issuer, or create a request that names another issuer."},
		{"misnamed", "issuers.cert-manager.io/self", "waits for a person to approve or deny it; no signer has the name issuers.cert-manager.io/self", "no signer has the name issuers.cert-manager.io/self: issuers have names of the form issuers.cert-manager.io/<namespace>.<name>"},
	} {
		w.csr(t, "eve", tc.name, tc.signer, nil)
		e, text := w.explainCSR(t, tc.name)
		if !strings.Contains(e.Verdict, tc.verdict) || !strings.Contains(text, tc.says) {
			t.Errorf("%s: it does not say %q and %q:\n%s", tc.name, tc.verdict, tc.says, text)
		}
	}
}
