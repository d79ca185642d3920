package admission_test

import (
	"context"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/run/server"
)

// violations break the rule of one plugin each.
var violations = map[string]func(*testing.T, world) error{
	"CertificateApproval": func(t *testing.T, w world) error {
		stored := w.create(t, "approval")
		_, err := w.as(t, "writer").CertificatesV1().CertificateSigningRequests().
			UpdateApproval(t.Context(), stored.Name, apitest.With(stored, "Approved"), noUpdate)
		return err
	},
	"CertificateSigning": func(t *testing.T, w world) error {
		stored := w.create(t, "signing")
		stored.Status.Certificate = chain(t)
		_, err := w.as(t, "writer").CertificatesV1().CertificateSigningRequests().UpdateStatus(t.Context(), stored, noUpdate)
		return err
	},
	"ClusterTrustBundleAttest": func(t *testing.T, w world) error {
		_, err := w.as(t, "writer").CertificatesV1().ClusterTrustBundles().Create(t.Context(), newBundle(t, "attest", signerName), metav1.CreateOptions{})
		return err
	},
	"CertificateSubjectRestriction": func(t *testing.T, w world) error {
		request := apitest.NewCSR(t, "subject", "kubernetes.io/kube-apiserver-client", pki.Subject{Organizations: []string{"system:masters"}}, apitest.NewKey(t))
		_, err := w.as(t, "writer").CertificatesV1().CertificateSigningRequests().Create(t.Context(), request, metav1.CreateOptions{})
		return err
	},
}

// Each plugin can be disabled by its name, without the others.
func TestDisabledPlugins(t *testing.T) {
	for disabled := range violations {
		t.Run(disabled, func(t *testing.T) {
			t.Parallel()
			w := start(t, func(c *server.Config) { c.Admission.DisabledPlugins = []string{disabled} })
			w.Grant(t, "writer", apitest.Allow("create", "certificatesigningrequests clustertrustbundles"),
				apitest.Allow("update", "certificatesigningrequests/approval certificatesigningrequests/status"))
			for plugin, violate := range violations {
				err := violate(t, w)
				if plugin == disabled && err != nil {
					t.Errorf("%s is off and refuses: %v", plugin, err)
				}
				if plugin != disabled && !apierrors.IsForbidden(err) {
					t.Errorf("%s is on and says %v", plugin, err)
				}
			}
		})
	}
}

// With a mistyped name, a check would stay enabled or, worse, disabled.
func TestUnknownPlugin(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	cfg := server.DefaultConfig()
	cfg.DataDir = t.TempDir()
	cfg.Admission.DisabledPlugins = []string{"CertificateSigning", "certificateapproval"}
	err := server.Run(ctx, cfg, func(server.Ready) { t.Error("the server started"); cancel() })
	const want = `admission.disabledPlugins[1]: unknown name "certificateapproval"; known: `
	if err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
}
