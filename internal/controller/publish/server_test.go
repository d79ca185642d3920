package publish_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/run/server"
	"github.com/certplane/certplane/internal/store/datadir"
)

func TestEveryNamespaceHasTheCA(t *testing.T) {
	s := apitest.Start(t)
	admin := apitest.Client(t, s.Admin(t))
	apitest.NewNamespace(t, admin, "blue")
	ca, err := os.ReadFile(filepath.Join(datadir.Dir(s.Config.DataDir).PKI(), "serving-ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	for _, namespace := range []string{"kube-system", "default", "blue"} {
		apitest.Eventually(t, "namespace "+namespace+" has the CA", func() bool {
			config, err := admin.CoreV1().ConfigMaps(namespace).Get(t.Context(), "kube-root-ca.crt", metav1.GetOptions{})
			return err == nil && cmp.Equal(config.Data, map[string]string{"ca.crt": string(ca)}) &&
				config.Annotations["kubernetes.io/description"] != ""
		})
	}
	for reason, damage := range map[string]func() error{
		"deleted": func() error {
			return admin.CoreV1().ConfigMaps("blue").Delete(t.Context(), "kube-root-ca.crt", metav1.DeleteOptions{})
		},
		"changed": func() error {
			_, err := admin.CoreV1().ConfigMaps("blue").Patch(t.Context(), "kube-root-ca.crt", types.MergePatchType,
				[]byte(`{"data":{"ca.crt":"nothing","more":"data"},"metadata":{"annotations":null}}`), metav1.PatchOptions{})
			return err
		},
	} {
		if err := damage(); err != nil {
			t.Fatal(err)
		}
		apitest.Eventually(t, "it is fixed after it was "+reason, func() bool {
			config, err := admin.CoreV1().ConfigMaps("blue").Get(t.Context(), "kube-root-ca.crt", metav1.GetOptions{})
			return err == nil && len(config.Data) == 1 && config.Data["ca.crt"] == string(ca) && len(config.Annotations) == 1
		})
	}
}

// New roots are published together with the old ones, without a restart.
func TestRootCAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "roots.pem")
	older, newer := newRoot(t), newRoot(t)
	write := func(data []byte) {
		t.Helper()
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(older)
	s := apitest.Start(t, func(c *server.Config) {
		c.Publishing.RootCAFile = path
		c.Publishing.Overlap.Duration = 8 * time.Second
	})
	admin := apitest.Client(t, s.Admin(t))
	publishes := func(what string, want ...[]byte) {
		t.Helper()
		apitest.Eventually(t, "published is "+what, func() bool {
			config, err := admin.CoreV1().ConfigMaps("default").Get(t.Context(), "kube-root-ca.crt", metav1.GetOptions{})
			return err == nil && config.Data["ca.crt"] == string(bytes.Join(want, nil))
		})
	}
	publishes("the first root", older)
	write(newer)
	publishes("both", newer, older)
	write([]byte("nothing"))
	publishes("the second root, whatever is in the file now", newer)
}

// An immutable config map cannot be changed; an Event reports it.
func TestImmutable(t *testing.T) {
	s := apitest.Start(t)
	admin := apitest.Client(t, s.Admin(t))
	configs := admin.CoreV1().ConfigMaps("default")
	patch := func(patch string) error {
		_, err := configs.Patch(t.Context(), "kube-root-ca.crt", types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		return err
	}
	// The publisher can be faster than the second of two changes, so this is a
	// single one.
	apitest.Eventually(t, "there is an immutable config map with other data", func() bool {
		return patch(`{"data":{"ca.crt":"x"},"immutable":true}`) == nil
	})
	apitest.Eventually(t, "there is an event", func() bool {
		list, err := admin.EventsV1().Events("default").List(t.Context(), metav1.ListOptions{FieldSelector: "regarding.name=kube-root-ca.crt"})
		return err == nil && len(list.Items) > 0 && list.Items[0].Reason == "CannotPublish" && strings.Contains(list.Items[0].Note, "immutable")
	})
	if err := configs.Delete(t.Context(), "kube-root-ca.crt", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	apitest.Eventually(t, "it is made again", func() bool {
		config, err := configs.Get(t.Context(), "kube-root-ca.crt", metav1.GetOptions{})
		return err == nil && strings.HasPrefix(config.Data["ca.crt"], "-----BEGIN")
	})
}

func newRoot(t *testing.T) []byte {
	t.Helper()
	root, err := pki.NewRoot(pki.UnrecordedSigning, "root", apitest.NewKey(t), time.Hour, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return pki.EncodeCertificates(root.Certificate())
}
