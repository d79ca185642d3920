package cluster_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/run/cluster"
	"github.com/certplane/certplane/internal/run/controllermanager"
	"github.com/certplane/certplane/internal/run/server"
)

// shims are the controllers for Ingresses and Gateways, with a client for a namespace of the
// test.
type shims struct {
	world
	api       client.Client
	namespace string
}

// startShims starts a server with Ingresses, and controllers that run until the test ends.
func startShims(t *testing.T, change func(*cluster.Config), chosen ...string) shims {
	t.Helper()
	choose := func(c *cluster.Config) {
		c.Controllers, c.Webhook.Serve = append([]string{"*"}, chosen...), "Never" // the server itself validates
		if change != nil {
			change(c)
		}
	}
	s := shims{world: startInWith(t, apitest.Start(t, func(c *server.Config) { c.Controllers = []string{} }), choose)}
	kinds, err := controllermanager.NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	admin := s.Admin(t)
	admin.ContentType = "application/json" // Ingresses are custom resources here
	if s.api, err = client.New(admin, client.Options{Scheme: kinds}); err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile("testdata/ingresses.yaml")
	if err != nil {
		t.Fatal(err)
	}
	s.apply(t, bytes.NewReader(file))
	cfg := s.config(t)
	choose(&cfg)
	run(t, cfg)
	return s.in(t)
}

// in returns s with another namespace.
func (s shims) in(t *testing.T) shims {
	t.Helper()
	s.namespace = apitest.OwnNamespace(t, s.admin)
	s.api = client.NewNamespacedClient(s.api, s.namespace)
	return s
}

// gatewayDefinitions returns the files that define Gateways and ListenerSets.
func gatewayDefinitions(t *testing.T) (files [][]byte) {
	t.Helper()
	folder, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/gateway-api").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"gateways", "listenersets"} {
		file, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(folder)), "config/crd/standard/gateway.networking.k8s.io_"+name+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	return files
}

// create creates an object, whose kind may have been defined a moment ago.
func (s shims) create(t *testing.T, o client.Object) {
	t.Helper()
	apitest.Eventually(t, "the API has the kind", func() bool {
		err := s.api.Create(t.Context(), o)
		if err != nil && !meta.IsNoMatchError(err) {
			t.Fatalf("creating %T %s: %v", o, o.GetName(), err)
		}
		return err == nil
	})
}

// change changes a stored object.
func (s shims) change(t *testing.T, o client.Object, change func()) {
	t.Helper()
	before := o.DeepCopyObject().(client.Object)
	change()
	if err := s.api.Patch(t.Context(), o, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

// certificate waits for a Certificate that is as it should be.
func (s shims) certificate(t *testing.T, name, what string, holds func(*cmv1.Certificate) bool) *cmv1.Certificate {
	t.Helper()
	crt := &cmv1.Certificate{}
	defer func() {
		if t.Failed() {
			t.Logf("%s is %+v", name, crt)
		}
	}()
	apitest.Eventually(t, "Certificate "+name+" "+what, func() bool {
		return s.api.Get(t.Context(), client.ObjectKey{Name: name}, crt) == nil && holds(crt)
	})
	return crt
}

// exists waits for a Certificate.
func (s shims) exists(t *testing.T, name string) *cmv1.Certificate {
	t.Helper()
	return s.certificate(t, name, "exists", func(*cmv1.Certificate) bool { return true })
}

// event waits for an Event of an object with this reason and text.
func (s shims) event(t *testing.T, o client.Object, component, reason, text string) {
	t.Helper()
	apitest.Eventually(t, reason+" "+text, func() bool {
		return slices.ContainsFunc(s.events(t, o), func(e corev1.Event) bool {
			return e.Source.Component == component && e.Reason == reason && strings.Contains(e.Message, text)
		})
	})
}

func (s shims) events(t *testing.T, o client.Object) (found []corev1.Event) {
	t.Helper()
	list, err := s.admin.CoreV1().Events(s.namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list.Items {
		if e.InvolvedObject.UID == o.GetUID() {
			found = append(found, e)
		}
	}
	return found
}

// ingress returns an Ingress with a TLS entry for each Secret, and the issuer ca.
func ingress(name string, secrets ...string) *networkingv1.Ingress {
	o := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{
		Name: name, Labels: map[string]string{"app": name}, Annotations: map[string]string{cmv1.IngressIssuerNameAnnotationKey: "ca"},
	}}
	for _, secret := range secrets {
		o.Spec.TLS = append(o.Spec.TLS, networkingv1.IngressTLS{SecretName: secret, Hosts: []string{secret + ".example.com"}})
	}
	return o
}

// An annotated Ingress gets its Certificates, and loses those that it does not name any more.
func TestIngressShim(t *testing.T) {
	s := startShims(t, nil, "ingress-shim")
	web := ingress("web", "a", "b")
	s.create(t, web)
	crt := s.exists(t, "a")
	if owner := metav1.GetControllerOf(crt); owner == nil || owner.UID != web.UID || owner.Kind != "Ingress" || crt.Spec.IssuerRef.Name != "ca" {
		t.Errorf("the Certificate is %+v", crt)
	}
	const component = "cert-manager-ingress-shim"
	if manager := crt.ManagedFields[0].Manager; manager != component {
		t.Errorf("its fields are managed by %s", manager)
	}
	s.event(t, web, component, "CreateCertificate", `Successfully created Certificate "a"`)
}
