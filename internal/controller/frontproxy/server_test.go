package frontproxy_test

import (
	"crypto/x509"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/controller/frontproxy"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/run/server"
)

// The server publishes the ConfigMap, undoes edits, and lets those read it that
// Kubernetes lets read it.
func TestPublished(t *testing.T) {
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	proxies, err := pki.NewRoot(pki.UnrecordedSigning, "proxies", key, time.Hour, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	before := filepath.Join(t.TempDir(), "proxies.crt")
	if err := os.WriteFile(before, pki.EncodeCertificates(proxies.Certificate()), 0o600); err != nil {
		t.Fatal(err)
	}
	s := apitest.Start(t, func(c *server.Config) { c.Authentication.RequestHeader.CAFile = before })
	admin := apitest.Client(t, s.Admin(t))
	configs := admin.CoreV1().ConfigMaps(frontproxy.Namespace)
	var good map[string]string
	apitest.Eventually(t, "the ConfigMap is published", func() bool {
		config, err := configs.Get(t.Context(), frontproxy.ConfigMapName, metav1.GetOptions{})
		if err != nil {
			return false
		}
		good = config.Data
		return good["client-ca-file"] != "" && good["requestheader-client-ca-file"] != ""
	})
	if !strings.Contains(good["client-ca-file"], string(pki.EncodeCertificates(s.ClientCA(t).Certificate()))) {
		t.Errorf("client-ca-file has not the CA of users: %s", good["client-ca-file"])
	}
	for _, cert := range bundle(t, good["client-ca-file"]) {
		if cert.Equal(proxies.Certificate()) {
			t.Error("certificates of a proxy in front of this server authenticate users of others")
		}
	}
	patch := func(patch string) func() error {
		return func() error {
			_, err := configs.Patch(t.Context(), frontproxy.ConfigMapName, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
			return err
		}
	}
	for _, damage := range []struct {
		reason string
		do     func() error
	}{
		{"changed", patch(`{"data":{"requestheader-allowed-names":"[]","client-ca-file":null,"more":"data"}}`)},
		{"made immutable with other data", patch(`{"data":{"requestheader-client-ca-file":"x"},"immutable":true}`)},
		{"deleted", func() error {
			return configs.Delete(t.Context(), frontproxy.ConfigMapName, metav1.DeleteOptions{})
		}},
	} {
		if err := damage.do(); err != nil {
			t.Fatalf("%s: %v", damage.reason, err)
		}
		apitest.Eventually(t, "it is right after it was "+damage.reason, func() bool {
			config, err := configs.Get(t.Context(), frontproxy.ConfigMapName, metav1.GetOptions{})
			return err == nil && maps.Equal(config.Data, good)
		})
	}
	// A new CA at once, by hand.
	if err := admin.CoreV1().Secrets(frontproxy.Namespace).Delete(t.Context(), frontproxy.SecretName, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	apitest.Eventually(t, "another CA is published", func() bool {
		config, err := configs.Get(t.Context(), frontproxy.ConfigMapName, metav1.GetOptions{})
		return err == nil && config.Data["requestheader-client-ca-file"] != good["requestheader-client-ca-file"] &&
			config.Data["client-ca-file"] == good["client-ca-file"]
	})
	secret, err := admin.CoreV1().Secrets(frontproxy.Namespace).Get(t.Context(), frontproxy.SecretName, metav1.GetOptions{})
	if err != nil || secret.Type != corev1.SecretTypeTLS {
		t.Errorf("the Secret: %v, %v", secret.Type, err)
	}
	for user, allowed := range map[string]bool{"system:kube-scheduler": true, "ann": false} {
		mine := apitest.Client(t, s.As(t, user)).CoreV1().ConfigMaps(frontproxy.Namespace)
		_, err := mine.Get(t.Context(), frontproxy.ConfigMapName, metav1.GetOptions{})
		if allowed && err != nil || !allowed && !apierrors.IsForbidden(err) {
			t.Errorf("%s gets it: %v", user, err)
		}
		_, err = mine.List(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + frontproxy.ConfigMapName})
		if allowed && err != nil || !allowed && !apierrors.IsForbidden(err) {
			t.Errorf("%s lists it: %v", user, err)
		}
	}
}

func bundle(t *testing.T, certs string) []*x509.Certificate {
	t.Helper()
	parsed, err := pki.ParseBundle([]byte(certs))
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}
