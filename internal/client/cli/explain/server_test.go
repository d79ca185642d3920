package explain_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/client-go/rest"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/client/cli/exit"
	verb "github.com/certplane/certplane/internal/client/cli/explain"
	"github.com/certplane/certplane/internal/client/explain"
	"github.com/certplane/certplane/internal/pki"
)

const kubeletClient = certificatesv1.KubeAPIServerClientKubeletSignerName

type world struct{ *apitest.Server }

func TestServer(t *testing.T) {
	w := world{apitest.Start(t)}
	t.Run("not permitted", w.testNotPermitted)
	t.Run("issued", w.testIssued)
	t.Run("rights of the caller", w.testCallers)
	t.Run("no such request", w.testAbsent)
}

// explainAs asks as a user and returns the explanation for machines.
func explainAs(t *testing.T, who *rest.Config, name string) explain.Explanation {
	t.Helper()
	data, err := run(t, who, name)
	if err != nil {
		t.Fatal(err)
	}
	var e explain.Explanation
	if err := json.Unmarshal(data, &e); err != nil {
		t.Fatalf("%v in:\n%s", err, data)
	}
	return e
}

func run(t *testing.T, who *rest.Config, name string) ([]byte, error) {
	t.Helper()
	var out bytes.Buffer
	err := verb.Run(t.Context(), verb.Config{
		Name: name, Output: "json", Now: time.Now, Stdout: &out, Kubectl: []string{"kubectl"},
		Connect: func() (explain.Reader, error) { return explain.Connect(who) },
	})
	return out.Bytes(), err
}

// ask creates a request for a node's client certificate as a user.
func (w world) ask(t *testing.T, user, name string) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	subject := pki.Subject{CommonName: "system:node:" + name, Organizations: []string{"system:nodes"}}
	return apitest.Create(t, apitest.Client(t, w.As(t, user)), apitest.NewCSR(t, name, kubeletClient, subject, apitest.NewKey(t)))
}

func check(t *testing.T, e explain.Explanation, name string) explain.Check {
	t.Helper()
	for _, c := range e.Checks {
		if c.Name == name {
			return c
		}
	}
	t.Fatalf("there is no check %s in %+v", name, e.Checks)
	return explain.Check{}
}

// testNotPermitted checks that the approver and the explanation say the same.
func (w world) testNotPermitted(t *testing.T) {
	w.Grant(t, "nobody", apitest.Allow("create", "certificatesigningrequests"))
	created := w.ask(t, "nobody", "n1")
	var e explain.Explanation
	apitest.Eventually(t, "the approver has told of the request", func() bool {
		e = explainAs(t, w.Admin(t), created.Name)
		return len(e.Events) > 0
	})
	if e.State != "Pending" || e.UID != string(created.UID) || e.Request.Username != "nobody" {
		t.Errorf("got %+v", e)
	}
	permission := check(t, e, "permission")
	if permission.Result != explain.No || e.Events[0].Reason != "NotPermitted" || !strings.Contains(e.Events[0].Note, permission.Message) {
		t.Errorf("the approver says %q, the explanation %q", e.Events[0].Note, permission.Message)
	}
	if signer := check(t, e, "signer"); !strings.Contains(signer.Message, "kube-system/csr-signer") || strings.Contains(signer.Message, "certplane-system") {
		t.Errorf("signer: %s", signer.Message)
	}
}

func (w world) testIssued(t *testing.T) {
	w.Grant(t, "installer", apitest.Allow("create get list watch", "certificatesigningrequests"), apitest.Allow("create", "certificatesigningrequests/nodeclient"))
	created := w.ask(t, "installer", "n2")
	apitest.Issued(t, apitest.Client(t, w.Admin(t)), created)
	e := explainAs(t, w.Admin(t), created.Name)
	if e.State != "Issued" || e.Certificate == nil || e.Certificate.Subject != "CN=system:node:n2,O=system:nodes" {
		t.Errorf("got %+v", e)
	}
	if approval := check(t, e, "approval"); approval.Result != explain.Yes || !strings.HasSuffix(approval.Message, "(AutoApproved)") {
		t.Errorf("approval: %+v", approval)
	}
}

// testCallers checks that a user who may read the request gets an answer, in
// which everything that the user may not ask is unknown.
func (w world) testCallers(t *testing.T) {
	w.Grant(t, "requester", apitest.Allow("create get", "certificatesigningrequests"))
	w.Grant(t, "approver", apitest.Allow("get", "certificatesigningrequests"),
		apitest.Allow("update", "certificatesigningrequests/approval"), apitest.Allow("approve", "signers", "kubernetes.io/*"))
	w.Grant(t, "halfway", apitest.Allow("get", "certificatesigningrequests"), apitest.Allow("update", "certificatesigningrequests/approval"))
	w.ask(t, "requester", "n3")
	for user, want := range map[string]string{
		"requester": "not decided yet; you may not decide: that requires update on certificatesigningrequests/approval and approve on signer " + kubeletClient,
		"halfway":   "not decided yet; you may not decide: that requires update on certificatesigningrequests/approval and approve on signer " + kubeletClient,
		"approver":  "not decided yet; you may decide",
	} {
		e := explainAs(t, w.As(t, user), "n3")
		if got := check(t, e, "approval").Message; got != want {
			t.Errorf("to %s approval is %q, want %q", user, got, want)
		}
		for _, name := range []string{"permission", "events"} {
			if got := check(t, e, name).Result; got != explain.Unknown {
				t.Errorf("to %s %s is %s", user, name, got)
			}
		}
	}
}

func (w world) testAbsent(t *testing.T) {
	_, err := run(t, w.Admin(t), "nosuch")
	var known *exit.Error
	if !errors.As(err, &known) || known.Code != exit.General || err.Error() != "found no certificate signing request named nosuch" {
		t.Errorf("error %v", err)
	}
	if _, err := run(t, w.As(t, "stranger"), "n1"); err == nil || !strings.Contains(err.Error(), `User "stranger" cannot get resource`) {
		t.Errorf("error %v", err)
	}
}

// A server without the API leads to the same exit code as a server without the
// request.
func TestAnotherSortOfServer(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	_, err := run(t, &rest.Config{Host: server.URL}, "n1")
	if err == nil || !strings.HasPrefix(err.Error(), "reading the certificate signing request: ") {
		t.Errorf("error %v", err)
	}
}
