package installcrds_test

import (
	"context"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	crdclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/ptr"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/run/server"
)

const name = "signers.certplane.dev"

// A server that is ready serves its own kinds, whatever happens to their
// definitions.
func TestDefinitionsAreKept(t *testing.T) {
	s := apitest.Start(t)
	crds, err := crdclient.NewForConfig(s.Admin(t))
	if err != nil {
		t.Fatal(err)
	}
	objects, err := dynamic.NewForConfig(s.Admin(t))
	if err != nil {
		t.Fatal(err)
	}
	definitions, signers := crds.ApiextensionsV1().CustomResourceDefinitions(), objects.Resource(v1alpha1.GroupVersion.WithResource("signers"))
	if _, err := signers.List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Fatalf("the server is ready, and Signers are not served: %v", err)
	}
	get := func() *apiextensionsv1.CustomResourceDefinition {
		t.Helper()
		definition, err := definitions.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
		return definition
	}
	first := get()

	damage := []byte(`[{"op": "remove", "path": "/spec/versions/0/additionalPrinterColumns"}, {"op": "add", "path": "/metadata/labels", "value": {"my": "label"}}]`)
	if _, err := definitions.Patch(t.Context(), name, types.JSONPatchType, damage, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	apitest.Eventually(t, "the definition is mended", func() bool {
		return len(get().Spec.Versions[0].AdditionalPrinterColumns) == len(first.Spec.Versions[0].AdditionalPrinterColumns)
	})
	if get().Labels["my"] != "label" {
		t.Error("a label of somebody else is gone")
	}

	if err := definitions.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	apitest.Eventually(t, "the definition is back", func() bool {
		again := get()
		return again.UID != "" && again.UID != first.UID
	})
	apitest.Eventually(t, "Signers are served again", func() bool {
		_, err := signers.List(t.Context(), metav1.ListOptions{})
		return err == nil
	})
}

// After a restart, the definition is already as it is to be.
func TestRestartWritesNothing(t *testing.T) {
	s := apitest.Start(t)
	version := func() string {
		t.Helper()
		crds, err := crdclient.NewForConfig(s.Admin(t))
		if err != nil {
			t.Fatal(err)
		}
		definition, err := crds.ApiextensionsV1().CustomResourceDefinitions().Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return definition.ResourceVersion
	}
	before := version()
	s.Restart(t)
	if after := version(); before != after {
		t.Errorf("the definition was version %s and is %s", before, after)
	}
}

// A definition that is missing at a start, and refused, keeps neither the API nor the
// other controllers from their work. The server is not ready before the kind is served,
// says which one is missing, and installs it when that is possible.
func TestRefusedAtStart(t *testing.T) {
	s := apitest.Start(t, func(cfg *server.Config) { cfg.Serving.Listen = apitest.FreeAddress(t) })
	admin := apitest.Client(t, s.Admin(t))
	crds, err := crdclient.NewForConfig(s.Admin(t))
	if err != nil {
		t.Fatal(err)
	}
	webhooks := admin.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	fail, none := admissionregistrationv1.Fail, admissionregistrationv1.SideEffectClassNone
	refusing := &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "refusing"},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "refusing.example.com", FailurePolicy: &fail, SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
			ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: ptr.To("https://127.0.0.1:1/")},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{"apiextensions.k8s.io"}, APIVersions: []string{"*"}, Resources: []string{"customresourcedefinitions"}},
			}},
		}},
	}
	if _, err := webhooks.Create(t.Context(), refusing, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	definitions := crds.ApiextensionsV1().CustomResourceDefinitions()
	apitest.Eventually(t, "the definition is gone, and cannot be made again", func() bool {
		if err := definitions.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
		_, err := definitions.Get(t.Context(), name, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
	s.Stop(t)

	ready, ended := make(chan struct{}), make(chan error, 1)
	ctx, stop := context.WithCancel(t.Context())
	defer func() { stop(); <-ended }()
	go func() { ended <- server.Run(ctx, s.Config, func(server.Ready) { close(ready) }) }()
	apitest.Eventually(t, "/readyz says which kind is missing", func() bool {
		answer, err := admin.Discovery().RESTClient().Get().AbsPath("/readyz/own-kinds").DoRaw(t.Context())
		return err != nil && strings.HasSuffix(strings.TrimSpace(string(answer)), "not served yet: "+name)
	})
	// Controllers work meanwhile.
	if _, err := admin.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "early"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	apitest.Eventually(t, "a controller has seen the namespace", func() bool {
		_, err := admin.CoreV1().ConfigMaps("early").Get(t.Context(), "kube-root-ca.crt", metav1.GetOptions{})
		return err == nil
	})
	select {
	case <-ready:
		t.Fatal("the server says that it is ready")
	case err := <-ended:
		t.Fatalf("the server has ended: %v", err)
	default:
	}
	if err := webhooks.Delete(t.Context(), "refusing", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	apitest.Eventually(t, "the server is ready", func() bool {
		select {
		case <-ready:
			return true
		default:
			return false
		}
	})
	if _, err := definitions.Get(t.Context(), name, metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
}
