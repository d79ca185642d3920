package server_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/run/server"
)

const policyKey = "/registry/certplane.dev/certificatepolicies/limit"

// While the stored policies cannot be read, the server is not ready, and nothing
// can be approved. It goes on when they can be read.
func TestUnreadablePolicies(t *testing.T) {
	t.Parallel()
	s := apitest.Start(t, func(c *server.Config) {
		c.Serving.Listen = apitest.FreeAddress(t)
		c.Controllers = append(c.Controllers, "-approve")
	})
	api := apitest.Client(t, s.Admin(t))
	const name = certificatesv1.KubeAPIServerClientSignerName
	waiting := apitest.Create(t, api, apitest.NewCSR(t, "waiting", name, pki.Subject{CommonName: "waiting"}, apitest.NewKey(t)))
	s.Store(t, policyKey, "not an object")
	s.Stop(t)

	started := runAgain(t, s)
	apitest.Eventually(t, "only the policies are missing", func() bool {
		return status(t, api, "/readyz?exclude=certificate-policies") == http.StatusOK
	})
	if got := status(t, api, "/readyz"); got != http.StatusInternalServerError {
		t.Errorf("/readyz: %d", got)
	}
	_, err := api.CertificatesV1().CertificateSigningRequests().UpdateApproval(t.Context(), waiting.Name,
		apitest.With(waiting, certificatesv1.CertificateApproved), metav1.UpdateOptions{})
	if !apierrors.IsServiceUnavailable(err) || !strings.Contains(err.Error(), "the certificate policies are not known yet") {
		t.Errorf("an approval: %v", err)
	}
	select {
	case <-started:
		t.Error("the server says that it is ready")
	default:
	}
	s.Store(t, policyKey, `{"apiVersion":"certplane.dev/v1alpha1","kind":"CertificatePolicy","metadata":{"name":"limit","uid":"1","generation":1},
		"spec":{"effect":"Limit","match":{"signers":["`+name+`"]},"certificate":{"subject":{"commonName":{"patterns":["waiting"]}}}}}`)
	<-started
	if got := status(t, api, "/readyz"); got != http.StatusOK {
		t.Errorf("/readyz: %d", got)
	}
	apitest.Issued(t, api, apitest.Decide(t, api, waiting, certificatesv1.CertificateApproved))
}

// runAgain runs a server that was stopped. The channel is closed when it says
// that it is ready.
func runAgain(t *testing.T, s *apitest.Server) <-chan struct{} {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- server.Run(ctx, s.Config, func(server.Ready) { close(ready) }) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("stopping the server: %v", err)
		}
	})
	return ready
}

func status(t *testing.T, api kubernetes.Interface, path string) (code int) {
	t.Helper()
	api.Discovery().RESTClient().Get().RequestURI(path).Do(t.Context()).StatusCode(&code)
	return code
}
