package server_test

import (
	"fmt"
	"strings"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
)

// Whoever has a bootstrap token can make any number of nodes. Together they do not fill the
// store for others.
func TestNodesLeaveRoom(t *testing.T) {
	t.Parallel()
	s := apitest.Start(t, smallStore)
	w := spaceWorld{s, apitest.Client(t, s.Admin(t))}
	w.newEditor(t, "a")
	key, refusal := apitest.NewKey(t), ""
	for node := 0; node < 60 && refusal == ""; node++ {
		user := rest.CopyConfig(s.Admin(t))
		user.Impersonate = rest.ImpersonationConfig{UserName: fmt.Sprint("system:node:n", node), Groups: []string{"system:nodes", "system:authenticated"}}
		requests := apitest.Client(t, user).CertificatesV1().CertificateSigningRequests()
		for i := 0; i < 8 && refusal == ""; i++ {
			csr := apitest.NewCSR(t, fmt.Sprintf("n%d-%d", node, i), certificatesv1.KubeletServingSignerName, pki.Subject{CommonName: user.Impersonate.UserName, Organizations: []string{"system:nodes"}}, key)
			csr.Annotations = map[string]string{"example.com/note": large[:60<<10]}
			if _, err := requests.Create(t.Context(), csr, metav1.CreateOptions{}); err != nil {
				refusal = err.Error()
			}
		}
	}
	if !strings.Contains(refusal, "all nodes together have") || !strings.Contains(refusal, "bootstrap tokens") {
		t.Errorf("the refusal is %q", refusal)
	}
	for i := range 4 {
		if err := w.add(t, w.editor(t, "a"), "a", i); err != nil {
			t.Errorf("a namespace: %v", err)
		}
	}
}
