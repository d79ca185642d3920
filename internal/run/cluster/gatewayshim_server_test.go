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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/run/cluster"
)

// define defines a kind of the Gateway API.
func (s shims) define(t *testing.T, plural string) *unstructured.Unstructured {
	t.Helper()
	folder, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/gateway-api").Output()
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(folder)), "config/crd/standard/gateway.networking.k8s.io_"+plural+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	s.apply(t, bytes.NewReader(file))
	definition := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(file, &definition.Object); err != nil {
		t.Fatal(err)
	}
	return definition
}

func listenerFor(secret string) gatewayv1.Listener {
	return gatewayv1.Listener{
		Name: gatewayv1.SectionName(secret), Port: 443, Protocol: gatewayv1.HTTPSProtocolType, Hostname: new(gatewayv1.Hostname(secret + ".example.com")),
		TLS: &gatewayv1.ListenerTLSConfig{CertificateRefs: []gatewayv1.SecretObjectReference{{Name: gatewayv1.ObjectName(secret)}}},
	}
}

// gateway returns a Gateway with a listener for each Secret, and the issuer ca.
func gateway(name string, secrets ...string) *gatewayv1.Gateway {
	g := &gatewayv1.Gateway{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{cmv1.IngressIssuerNameAnnotationKey: "ca"}}}
	g.Spec.GatewayClassName = "test"
	for _, secret := range secrets {
		g.Spec.Listeners = append(g.Spec.Listeners, listenerFor(secret))
	}
	return g
}

// allow lets ListenerSets of namespaces use a Gateway.
func allow(g *gatewayv1.Gateway, from gatewayv1.FromNamespaces) *gatewayv1.Gateway {
	g.Spec.AllowedListeners = &gatewayv1.AllowedListeners{Namespaces: &gatewayv1.ListenerNamespaces{From: new(from)}}
	return g
}

// listenerSet returns a ListenerSet of a Gateway, without an issuer of its own.
func listenerSet(name, gateway string, secrets ...string) *gatewayv1.ListenerSet {
	set := &gatewayv1.ListenerSet{ObjectMeta: metav1.ObjectMeta{Name: name}}
	set.Spec.ParentRef.Name = gatewayv1.ObjectName(gateway)
	for _, secret := range secrets {
		set.Spec.Listeners = append(set.Spec.Listeners, gatewayv1.ListenerEntry(listenerFor(secret)))
	}
	return set
}

// controlledBy reports whether a Certificate belongs to an object of this kind.
func controlledBy(o client.Object, kind string) func(*cmv1.Certificate) bool {
	return func(c *cmv1.Certificate) bool {
		owner := metav1.GetControllerOf(c)
		return owner != nil && owner.UID == o.GetUID() && owner.Kind == kind && owner.APIVersion == "gateway.networking.k8s.io/v1"
	}
}

// The kinds of the Gateway API may come, go and come again while the controllers run.
func TestGatewayShim(t *testing.T) {
	s := startShims(t, nil, "gateway-shim")
	gateways := s.define(t, "gateways")
	first := gateway("first", "a")
	s.create(t, first)
	s.certificate(t, "a", "belongs to its Gateway", controlledBy(first, "Gateway"))
	s.event(t, first, gatewayShim, "CreateCertificate", `Successfully created Certificate "a"`)

	s.define(t, "listenersets") // gateways work without it
	t.Run("listener sets", func(t *testing.T) { s.in(t).listenerSets(t) })
	t.Run("inheritance", func(t *testing.T) { s.in(t).inheritance(t) })
	t.Run("consent", func(t *testing.T) { s.in(t).consent(t) })
	t.Run("listeners", func(t *testing.T) { s.in(t).listeners(t) })

	if err := s.everywhere.Delete(t.Context(), gateways); err != nil {
		t.Fatal(err)
	}
	apitest.Eventually(t, "there are no Gateways", func() bool {
		return apierrors.IsNotFound(s.everywhere.Get(t.Context(), client.ObjectKeyFromObject(gateways), gateways))
	})
	s.define(t, "gateways")
	again := gateway("again", "z")
	apitest.Eventually(t, "there are Gateways", func() bool {
		again.ResourceVersion = ""
		return s.api.Create(t.Context(), again) == nil
	})
	s.certificate(t, "z", "belongs to its Gateway", controlledBy(again, "Gateway"))
}

func (s shims) listenerSets(t *testing.T) {
	g := allow(gateway("g", "a"), gatewayv1.NamespacesFromSame)
	s.create(t, g)
	set := listenerSet("set", "g", "b")
	s.create(t, set)
	crt := s.certificate(t, "b", "belongs to its ListenerSet", controlledBy(set, "ListenerSet"))
	s.event(t, set, listenerSetShim, "CreateCertificate", `Successfully created Certificate "b"`)
	if manager := crt.ManagedFields[0].Manager; manager != listenerSetShim {
		t.Errorf("its fields are managed by %s", manager)
	}
	const kind, name, namespace = "acme.cert-manager.io/http01-parentrefkind", "acme.cert-manager.io/http01-parentrefname", "acme.cert-manager.io/http01-parentrefnamespace"
	has := func(kindOf, nameOf, namespaceOf string) func(*cmv1.Certificate) bool {
		return func(c *cmv1.Certificate) bool {
			return c.Annotations[kind] == kindOf && c.Annotations[name] == nameOf && c.Annotations[namespace] == namespaceOf
		}
	}
	s.certificate(t, "a", "has its parent", has("Gateway", "g", ""))
	s.certificate(t, "b", "has its parent", has("ListenerSet", "set", ""))
	s.change(t, set, func() { set.Annotations = map[string]string{"acme.cert-manager.io/http01-parentreffallback": "true"} })
	s.certificate(t, "b", "has the Gateway", has("Gateway", "g", s.namespace))
	s.change(t, set, func() { set.Annotations = nil })
	s.certificate(t, "b", "has its parent again", has("ListenerSet", "set", ""))

	// A set whose Gateway comes later.
	s.create(t, listenerSet("early", "later", "c"))
	s.create(t, allow(gateway("later", "d"), gatewayv1.NamespacesFromAll))
	s.exists(t, "c")
	// The Certificates of a set whose Gateway is gone stay.
	if err := s.api.Delete(t.Context(), gateway("later")); err != nil {
		t.Fatal(err)
	}
	s.collect(t, "d")
	s.gone(t, "d")
	s.exists(t, "c")
}

func (s shims) inheritance(t *testing.T) {
	g := allow(gateway("g", "a"), gatewayv1.NamespacesFromSame)
	g.Annotations[cmv1.IssuerKindAnnotationKey], g.Annotations[cmv1.IssuerGroupAnnotationKey], g.Annotations[cmv1.DurationAnnotationKey] = "Own", "example.com", "2h"
	s.create(t, g)
	inherits, own := listenerSet("inherits", "g", "b"), listenerSet("own", "g", "c")
	own.Annotations = map[string]string{cmv1.IngressClusterIssuerNameAnnotationKey: "x"}
	s.create(t, inherits)
	s.create(t, own)
	if crt := s.exists(t, "b"); crt.Spec.IssuerRef.Name != "ca" || crt.Spec.IssuerRef.Kind != "Own" || crt.Spec.IssuerRef.Group != "example.com" || crt.Spec.Duration != nil {
		t.Errorf("what is inherited: %+v", crt.Spec)
	}
	if crt := s.exists(t, "c"); crt.Spec.IssuerRef.Name != "x" || crt.Spec.IssuerRef.Kind != "ClusterIssuer" {
		t.Errorf("its own issuer: %+v", crt.Spec)
	}
	s.change(t, g, func() { g.Annotations[cmv1.IngressIssuerNameAnnotationKey] = "ca2" })
	s.certificate(t, "b", "has the other issuer", func(c *cmv1.Certificate) bool { return c.Spec.IssuerRef.Name == "ca2" })
}

func (s shims) consent(t *testing.T) {
	g := gateway("g", "a")
	s.create(t, g)
	set := listenerSet("set", "g", "b")
	s.create(t, set)
	s.event(t, set, listenerSetShim, "ListenerSetNotAllowed", `Gateway "`+s.namespace+`/g" does not allow ListenerSets of the namespace "`+s.namespace+`"`)
	s.change(t, g, func() { allow(g, gatewayv1.NamespacesFromSame) })
	before := s.exists(t, "b")

	// What exists stays, and is not updated.
	s.change(t, g, func() { allow(g, gatewayv1.NamespacesFromNone) })
	s.change(t, set, func() { set.Spec.Listeners = append(set.Spec.Listeners, gatewayv1.ListenerEntry(listenerFor("c"))) })
	s.change(t, g, func() { g.Spec.Listeners = append(g.Spec.Listeners, listenerFor("d")) })
	s.exists(t, "d")
	if now := s.exists(t, "b"); now.ResourceVersion != before.ResourceVersion {
		t.Errorf("b has changed: %+v", now)
	}
	s.gone(t, "c")

	// Namespaces with a label, which this one gets later.
	s.change(t, g, func() {
		allow(g, gatewayv1.NamespacesFromSelector).Spec.AllowedListeners.Namespaces.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "us"}}
	})
	label := []byte(`{"metadata":{"labels":{"team":"us"}}}`)
	if _, err := s.admin.CoreV1().Namespaces().Patch(t.Context(), s.namespace, types.MergePatchType, label, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	s.exists(t, "c")
}

func (s shims) listeners(t *testing.T) {
	g := gateway("g", "a", "b", "c")
	g.Spec.Listeners[1].TLS.CertificateRefs[0].Name = "a"
	g.Spec.Listeners[2].Hostname = nil
	s.create(t, g)
	s.event(t, g, gatewayShim, "BadConfig", "Skipped a listener block: spec.listeners[2].hostname: Required value: the hostname cannot be empty")
	s.certificate(t, "a", "has both names", func(c *cmv1.Certificate) bool {
		return slices.Equal(c.Spec.DNSNames, []string{"a.example.com", "b.example.com"})
	})
	// The Certificate of an ignored listener stays.
	s.change(t, g, func() { g.Annotations[cmv1.CertificateIgnoreTLSListeners] = "a, b" })
	s.change(t, g, func() { g.Spec.Listeners = append(g.Spec.Listeners, listenerFor("d")) })
	s.exists(t, "d")
	s.exists(t, "a")
	s.change(t, g, func() { g.Spec.Listeners = g.Spec.Listeners[2:] })
	s.gone(t, "a")
}

// Settings give cert-manager's behaviour, and switch ListenerSets off.
func TestGatewaySettings(t *testing.T) {
	for _, tt := range []struct {
		reason string
		change func(*cluster.Config)
		want   bool
	}{
		{"all sets", func(c *cluster.Config) { c.CertManager.GatewayShim.AllowedListeners = "Ignore" }, true},
		{"no sets", func(c *cluster.Config) { c.CertManager.GatewayShim.ListenerSets = false }, false},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			s := startShims(t, tt.change, "gateway-shim")
			s.define(t, "listenersets")
			s.define(t, "gateways")
			g := gateway("g", "a")
			s.create(t, listenerSet("set", "g", "b"))
			s.create(t, g)
			s.exists(t, "a")
			if tt.want {
				s.exists(t, "b")
				return
			}
			s.change(t, g, func() { g.Spec.Listeners = append(g.Spec.Listeners, listenerFor("c")) })
			s.exists(t, "c")
			s.gone(t, "b")
		})
	}
}
