package publish_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/datadir"
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
		apitest.Eventually(t, "it is mended after it was "+reason, func() bool {
			config, err := admin.CoreV1().ConfigMaps("blue").Get(t.Context(), "kube-root-ca.crt", metav1.GetOptions{})
			return err == nil && len(config.Data) == 1 && config.Data["ca.crt"] == string(ca) && len(config.Annotations) == 1
		})
	}
}
