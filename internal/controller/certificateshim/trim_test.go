package certificateshim

import (
	"reflect"
	"testing"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/certplane/certplane/internal/policy/shim"
)

// Changes of the status and of what is not read do not wake the controller.
func TestHasChanged(t *testing.T) {
	c := &controller{Settings: shim.Settings{IngressSettings: shim.DefaultIngressSettings(), GatewaySettings: shim.DefaultGatewaySettings()}, of: ingressKind}
	trimmed := func(o client.Object, trim func(any) (any, error)) client.Object {
		kept, err := trim(o)
		if err != nil {
			t.Fatal(err)
		}
		once := kept.(client.Object).DeepCopyObject()
		if kept, err = trim(kept); err != nil || !reflect.DeepEqual(kept, once) {
			t.Errorf("trimmed twice: %+v, %v, once: %+v", kept, err, once)
		}
		return kept.(client.Object)
	}
	ingress := func(change func(*networkingv1.Ingress)) client.Object {
		o := &networkingv1.Ingress{
			ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop", Annotations: map[string]string{cmv1.IngressIssuerNameAnnotationKey: "ca"}},
			Spec:       networkingv1.IngressSpec{TLS: []networkingv1.IngressTLS{{SecretName: "a", Hosts: []string{"a.example"}}}},
		}
		change(o)
		return trimmed(o, c.trimOwner)
	}
	certificate := func(change func(*cmv1.Certificate)) client.Object {
		o := &cmv1.Certificate{Spec: cmv1.CertificateSpec{SecretName: "web", DNSNames: []string{"a"}}}
		o.OwnerReferences = []metav1.OwnerReference{{Kind: "Ingress", Name: "web", Controller: new(true)}}
		change(o)
		return trimmed(&owned{ObjectMeta: o.ObjectMeta, Spec: &o.Spec}, c.trimCertificate)
	}
	for _, tt := range []struct {
		reason        string
		before, after client.Object
		want          bool
	}{
		{"status of an Ingress", ingress(func(*networkingv1.Ingress) {}), ingress(func(o *networkingv1.Ingress) {
			o.ResourceVersion = "2"
			o.Status.LoadBalancer.Ingress = []networkingv1.IngressLoadBalancerIngress{{IP: "::1"}}
		}), false},
		{"rules of an Ingress", ingress(func(*networkingv1.Ingress) {}), ingress(func(o *networkingv1.Ingress) {
			o.Generation, o.Spec.Rules = 2, []networkingv1.IngressRule{{Host: "a.example"}}
		}), false},
		{"a foreign annotation", ingress(func(*networkingv1.Ingress) {}), ingress(func(o *networkingv1.Ingress) { o.Annotations["a/b"] = "c" }), false},
		{"an annotation", ingress(func(*networkingv1.Ingress) {}), ingress(func(o *networkingv1.Ingress) { o.Annotations[cmv1.DurationAnnotationKey] = "2h" }), true},
		{"a finalizer", ingress(func(*networkingv1.Ingress) {}), ingress(func(o *networkingv1.Ingress) { o.Finalizers = []string{"x"} }), true},
		{"status of a Certificate", certificate(func(*cmv1.Certificate) {}), certificate(func(o *cmv1.Certificate) { o.Status.Revision = new(1) }), false},
		{"spec of a Certificate", certificate(func(*cmv1.Certificate) {}), certificate(func(o *cmv1.Certificate) { o.Spec.CommonName = "x" }), true},
		{"owner of a Certificate", certificate(func(*cmv1.Certificate) {}), certificate(func(o *cmv1.Certificate) { o.OwnerReferences = nil }), true},
	} {
		if got := hasChanged(event.UpdateEvent{ObjectOld: tt.before, ObjectNew: tt.after}); got != tt.want {
			t.Errorf("%s: %t", tt.reason, got)
		}
	}
}

// What Certificates are made from is the same before and after the cache.
func TestTrimmed(t *testing.T) {
	c := &controller{Settings: shim.Settings{IngressSettings: shim.DefaultIngressSettings(), GatewaySettings: shim.DefaultGatewaySettings()}, of: ingressKind}
	ingress := &networkingv1.Ingress{
		ObjectMeta: metav1.ObjectMeta{
			Name: "web", Namespace: "shop", UID: "3b1c", Labels: map[string]string{"app": "web"}, Finalizers: []string{"x"},
			Annotations: map[string]string{cmv1.IngressIssuerNameAnnotationKey: "ca", cmv1.CommonNameAnnotationKey: "\"a\" <b>"},
		},
		Spec: networkingv1.IngressSpec{TLS: []networkingv1.IngressTLS{{SecretName: "a", Hosts: []string{"a.example"}}}},
	}
	want := c.Of(ingress, ingressKind.GroupVersionKind)
	kept, err := c.trimOwner(ingress.DeepCopy())
	if err != nil {
		t.Fatal(err)
	}
	again := kept.(*networkingv1.Ingress)
	if err := unpack(again); err != nil {
		t.Fatal(err)
	}
	if got := c.Of(again, ingressKind.GroupVersionKind); !reflect.DeepEqual(got, want) || len(got.Certificates) != 1 {
		t.Errorf("%+v, want %+v", got, want)
	}
}
