package cluster_test

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/policy/shim"
	"github.com/certplane/certplane/internal/run/cluster"
	"github.com/certplane/certplane/internal/run/controllermanager"
	"github.com/certplane/certplane/internal/run/server"
)

// shims are the controllers for Ingresses and Gateways, with a client for a namespace of the
// test.
type shims struct {
	world
	api, everywhere client.Client
	namespace       string
	cfg             cluster.Config
	running         process
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
	if s.everywhere, err = client.New(admin, client.Options{Scheme: kinds}); err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile("testdata/ingresses.yaml")
	if err != nil {
		t.Fatal(err)
	}
	s.apply(t, bytes.NewReader(file))
	s.cfg = s.config(t)
	choose(&s.cfg)
	s.running = run(t, s.cfg)
	return s.in(t)
}

// in returns s with another namespace.
func (s shims) in(t *testing.T) shims {
	t.Helper()
	s.namespace = apitest.OwnNamespace(t, s.admin)
	s.api = client.NewNamespacedClient(s.everywhere, s.namespace)
	return s
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

const ingressShim, gatewayShim, listenerSetShim = "cert-manager-ingress-shim", "cert-manager-gateway-shim", "cert-manager-listenerset"

// An annotated Ingress gets its Certificates, and keeps no others.
func TestIngressShim(t *testing.T) {
	s := startShims(t, nil, "ingress-shim")
	t.Run("life", func(t *testing.T) { s.in(t).life(t) })
	t.Run("owners", func(t *testing.T) { s.in(t).owners(t) })
	t.Run("problems", func(t *testing.T) { s.in(t).problems(t) })
	t.Run("takeover", func(t *testing.T) { s.in(t).takeover(t) })
	t.Run("foreground deletion", func(t *testing.T) { s.in(t).foreground(t) })
}

func (s shims) life(t *testing.T) {
	web := ingress("web", "a", "b")
	web.Annotations[cmv1.IngressSecretTemplate] = `{"labels":{"a":"b"}}`
	s.create(t, web)
	crt := s.exists(t, "a")
	if owner := metav1.GetControllerOf(crt); owner == nil || owner.UID != web.UID || owner.Kind != "Ingress" || crt.Spec.IssuerRef.Name != "ca" || crt.Labels["app"] != "web" {
		t.Errorf("the Certificate is %+v", crt)
	}
	if manager := crt.ManagedFields[0].Manager; manager != ingressShim {
		t.Errorf("its fields are managed by %s", manager)
	}
	for _, name := range []string{"a", "b"} {
		s.event(t, web, ingressShim, "CreateCertificate", `Successfully created Certificate "`+name+`"`)
	}

	// A user's keystores stay when an annotation changes what no older version compared.
	s.change(t, crt, func() {
		crt.Spec.Keystores = &cmv1.CertificateKeystores{JKS: &cmv1.JKSKeystore{Create: true, Password: new("changeit")}}
	})
	s.change(t, web, func() { web.Annotations[cmv1.UsagesAnnotationKey] = "server auth" })
	crt = s.certificate(t, "a", "has the usage", func(c *cmv1.Certificate) bool { return slices.Equal(c.Spec.Usages, []cmv1.KeyUsage{"server auth"}) })
	if crt.Spec.Keystores == nil {
		t.Error("its keystores are gone")
	}
	s.event(t, web, ingressShim, "UpdateCertificate", `Successfully updated Certificate "a"`)

	// A Certificate that is deleted by hand comes back.
	if err := s.api.Delete(t.Context(), crt); err != nil {
		t.Fatal(err)
	}
	s.certificate(t, "a", "is back", func(c *cmv1.Certificate) bool { return c.UID != crt.UID })

	// One that the Ingress does not name is deleted, and its Secret stays.
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	s.create(t, secret)
	s.change(t, web, func() { web.Spec.TLS = web.Spec.TLS[1:] })
	s.gone(t, "a")
	s.event(t, web, ingressShim, "DeleteCertificate", `Successfully deleted unrequired Certificate "a"`)
	if err := s.api.Get(t.Context(), client.ObjectKeyFromObject(secret), secret); err != nil {
		t.Error(err)
	}

	// Without an annotation for an issuer, all stays as it is.
	s.change(t, web, func() { web.Annotations, web.Spec.TLS = nil, nil })
	s.create(t, ingress("other", "c"))
	s.exists(t, "c")
	s.exists(t, "b")
}

// collect deletes a Certificate whose owner was deleted: the garbage collector does so too, but
// can take a minute to know a kind that was defined a moment ago.
func (s shims) collect(t *testing.T, name string) {
	t.Helper()
	err := s.api.Delete(t.Context(), &cmv1.Certificate{ObjectMeta: metav1.ObjectMeta{Name: name}})
	if client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
}

// gone waits until a Certificate does not exist.
func (s shims) gone(t *testing.T, name string) {
	t.Helper()
	apitest.Eventually(t, "Certificate "+name+" is gone", func() bool {
		return apierrors.IsNotFound(s.api.Get(t.Context(), client.ObjectKey{Name: name}, &cmv1.Certificate{}))
	})
}

// owners: Certificates of others are not touched.
func (s shims) owners(t *testing.T) {
	own := &cmv1.Certificate{ObjectMeta: metav1.ObjectMeta{Name: "byhand"}, Spec: cmv1.CertificateSpec{
		SecretName: "elsewhere", DNSNames: []string{"x.example"}, IssuerRef: cmmeta.IssuerReference{Name: "x"},
	}}
	s.create(t, own)
	s.create(t, ingress("first", "shared"))
	shared := s.exists(t, "shared")
	second := ingress("second", "byhand", "shared", "last")
	s.create(t, second)
	s.exists(t, "last")
	s.event(t, second, ingressShim, "CertificateNotOwned", `Certificate "byhand" exists and has no owner`)
	s.event(t, second, ingressShim, "CertificateNotOwned", `Certificate "shared" belongs to Ingress "first"`)
	for _, before := range []*cmv1.Certificate{own, shared} {
		if now := s.exists(t, before.Name); now.ResourceVersion != before.ResourceVersion {
			t.Errorf("%s has changed: %+v", before.Name, now)
		}
	}
	// When the first one is gone, the second one takes the name.
	s.change(t, second, func() { second.Labels["x"] = "y" })
	if err := s.api.Delete(t.Context(), ingress("first")); err != nil {
		t.Fatal(err)
	}
	s.collect(t, "shared")
	s.certificate(t, "shared", "belongs to the second", func(c *cmv1.Certificate) bool { return metav1.IsControlledBy(c, second) })
}

// problems are told once, and leave what exists as it is.
func (s shims) problems(t *testing.T) {
	web := ingress("web", "a")
	s.create(t, web)
	before := s.exists(t, "a")
	s.change(t, web, func() {
		web.Spec.TLS = append(web.Spec.TLS, networkingv1.IngressTLS{SecretName: "a"}, networkingv1.IngressTLS{SecretName: "b", Hosts: []string{"b.example"}})
	})
	s.event(t, web, ingressShim, "BadConfig", `spec.tls[0].secretName: Invalid value: "a"`)
	s.change(t, web, func() {
		web.Spec.TLS = web.Spec.TLS[1:]
		web.Annotations[cmv1.DurationAnnotationKey] = "1m"
	})
	s.event(t, web, ingressShim, "BadConfig", `invalid ingress annotation "cert-manager.io/duration"`)
	s.change(t, web, func() {
		web.Annotations[cmv1.DurationAnnotationKey] = "1h"
		web.Annotations[cmv1.RenewBeforeAnnotationKey] = "2h"
	})
	s.event(t, web, ingressShim, "CertificateRefused", "spec.renewBefore")
	s.event(t, web, ingressShim, "BadConfig", `Skipped a TLS block: spec.tls[0].hosts: Required value`)
	s.change(t, web, func() { delete(web.Annotations, cmv1.RenewBeforeAnnotationKey) })
	s.certificate(t, "b", "has its duration", func(c *cmv1.Certificate) bool { return c.Spec.Duration != nil })
	if now := s.exists(t, "a"); now.ResourceVersion != before.ResourceVersion {
		t.Errorf("a has changed: %+v", now)
	}
	s.event(t, web, ingressShim, "CreateCertificate", `Successfully created Certificate "b"`) // after all others
	told := map[string]bool{}
	for _, e := range s.events(t, web) {
		if told[e.Message] || e.Series != nil {
			t.Errorf("told again: %s", e.Message)
		}
		told[e.Message] = true
	}
}

// takeover: a Certificate of cert-manager stays as it is until cert-manager would change it.
func (s shims) takeover(t *testing.T) {
	web := ingress("web", "a", "b")
	delete(web.Annotations, cmv1.IngressIssuerNameAnnotationKey)
	web.Spec.TLS[0].Hosts = []string{"a.example", "10.0.0.1"}
	s.create(t, web)
	old := &cmv1.Certificate{
		ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: web.Labels, OwnerReferences: []metav1.OwnerReference{
			*metav1.NewControllerRef(web, networkingv1.SchemeGroupVersion.WithKind("Ingress")),
		}},
		Spec: cmv1.CertificateSpec{
			SecretName: "a", DNSNames: []string{"a.example"}, IssuerRef: cmmeta.IssuerReference{Name: "ca", Kind: "Issuer", Group: "cert-manager.io"},
			Usages: cmv1.DefaultKeyUsages(),
		},
	}
	s.create(t, old)
	s.change(t, web, func() { web.Annotations = map[string]string{cmv1.IngressIssuerNameAnnotationKey: "ca"} })
	s.exists(t, "b") // after a
	if now := s.exists(t, "a"); now.ResourceVersion != old.ResourceVersion {
		t.Errorf("cert-manager's Certificate has changed: %+v", now)
	}
	s.change(t, web, func() { web.Annotations[cmv1.CommonNameAnnotationKey] = "a.example" })
	s.certificate(t, "a", "is repaired", func(c *cmv1.Certificate) bool {
		return c.Spec.CommonName == "a.example" && slices.Equal(c.Spec.IPAddresses, []string{"10.0.0.1"})
	})
}

// foreground: the Certificates of an Ingress that is being deleted do not come back.
func (s shims) foreground(t *testing.T) {
	web := ingress("web", "a")
	web.Finalizers = []string{"example.com/hold"}
	s.create(t, web)
	s.exists(t, "a")
	if err := s.api.Delete(t.Context(), web, client.PropagationPolicy(metav1.DeletePropagationForeground)); err != nil {
		t.Fatal(err)
	}
	s.create(t, ingress("after", "b"))
	s.exists(t, "b") // so the controller knows of the deletion, too
	s.collect(t, "a")
	s.gone(t, "a")
	s.create(t, ingress("other", "c"))
	s.exists(t, "c")
	s.gone(t, "a")
	if err := s.api.Get(t.Context(), client.ObjectKeyFromObject(web), web); err != nil {
		t.Fatal(err)
	}
	s.change(t, web, func() { web.Finalizers = nil })
}

// An Ingress gets a certificate. When controllers take over its Certificate from cert-manager, it
// stays: nothing is issued again.
func TestIngressCertificate(t *testing.T) {
	s := startShims(t, nil, "issuers", "certificaterequests", "certificaterequests-approver", "certificates", "ingress-shim")
	s.create(t, &cmv1.Issuer{ObjectMeta: metav1.ObjectMeta{Name: "ca"}, Spec: cmv1.IssuerSpec{IssuerConfig: cmv1.IssuerConfig{SelfSigned: &cmv1.SelfSignedIssuer{}}}})
	web := ingress("web", "a")
	web.Annotations["acme.cert-manager.io/http01-edit-in-place"] = "true"
	s.create(t, web)
	ready := func(c *cmv1.Certificate) bool {
		return certmanager.CertificateIs(c, cmv1.CertificateConditionReady) && certmanager.CertificateCondition(c, cmv1.CertificateConditionIssuing) == nil
	}
	crt := s.certificate(t, "a", "is ready", ready)
	requests := &cmv1.CertificateRequestList{}
	if err := s.api.List(t.Context(), requests); err != nil || len(requests.Items) != 1 {
		t.Fatalf("%d requests, error %v", len(requests.Items), err)
	}
	annotations := requests.Items[0].Annotations
	if _, marked := annotations[shim.Mark]; marked || annotations["acme.cert-manager.io/http01-override-ingress-name"] != "web" {
		t.Errorf("its request has the annotations %v", annotations)
	}

	s.running.stop()
	if err := <-s.running.ended; err != nil {
		t.Fatal(err)
	}
	s.change(t, crt, func() { delete(crt.Annotations, shim.Mark) }) // as cert-manager makes it
	secret := &corev1.Secret{}
	if err := s.api.Get(t.Context(), client.ObjectKey{Name: "a"}, secret); err != nil {
		t.Fatal(err)
	}
	s.change(t, web, func() { web.Spec.TLS = append(web.Spec.TLS, ingress("", "b").Spec.TLS...) })
	run(t, s.cfg)
	s.certificate(t, "b", "is ready", ready) // after a look at a
	if now := s.exists(t, "a"); now.ResourceVersion != crt.ResourceVersion {
		t.Errorf("the Certificate has changed: %+v", now)
	}
	before := secret.ResourceVersion
	if err := s.api.Get(t.Context(), client.ObjectKey{Name: "a"}, secret); err != nil || secret.ResourceVersion != before {
		t.Errorf("the Secret has changed: %v", err)
	}
}

// Two Ingresses that name one Secret do not take the Certificate from each other.
func TestShimRace(t *testing.T) {
	s := startShims(t, nil, "ingress-shim")
	for round := range 20 {
		name := fmt.Sprintf("a%d", round)
		s.create(t, ingress("x"+name, name, "x"+name))
		s.create(t, ingress("y"+name, name, "y"+name))
		s.exists(t, "x"+name)
		s.exists(t, "y"+name)
		if crt := s.exists(t, name); crt.Generation != 1 || len(crt.OwnerReferences) != 1 {
			t.Fatalf("it was written again: %+v", crt)
		}
	}
}
