package shim

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"
)

// read returns an object in YAML, with the issuer ca unless it has annotations.
func read[T any, O interface {
	*T
	client.Object
}](t *testing.T, text string) O {
	t.Helper()
	o := O(new(T))
	if err := yaml.UnmarshalStrict([]byte(text), o); err != nil {
		t.Fatal(err)
	}
	o.SetName("web")
	o.SetNamespace("shop")
	if o.GetAnnotations() == nil {
		o.SetAnnotations(map[string]string{"cert-manager.io/issuer": "ca"})
	}
	return o
}

var defaults = Settings{DefaultIngressSettings(), DefaultGatewaySettings()}

// names returns the names of each wanted Certificate, without an owner's UID.
func names(w Wish) map[string][]string {
	all := map[string][]string{}
	for _, crt := range w.Certificates {
		all[crt.Name] = append(append([]string{}, crt.Spec.DNSNames...), crt.Spec.IPAddresses...)
	}
	return all
}

// The annotations that request Certificates, and what prevents it.
func TestTriggers(t *testing.T) {
	const tls = "spec: {tls: [{secretName: a, hosts: [a.example]}]}"
	const listener = "spec: {listeners: [{name: l, port: 443, protocol: HTTPS, hostname: a.example, tls: {mode: Terminate, certificateRefs: [{name: a}]}}]}"
	s := defaults
	s.DefaultIssuerName, s.AutoAnnotations = "ca", []string{"kubernetes.io/tls-acme", "auto"}
	for _, tt := range []struct {
		metadata         string
		ingress, gateway bool
	}{
		{"annotations: {cert-manager.io/issuer: ca}", true, true},
		{"annotations: {cert-manager.io/cluster-issuer: ca}", true, true},
		{"annotations: {kubernetes.io/tls-acme: 'true'}", true, false},
		{"annotations: {kubernetes.io/tls-acme: 'false', auto: '1'}", true, false},
		{"annotations: {kubernetes.io/tls-acme: 'false'}", false, false},
		{"annotations: {kubernetes.io/tls-acme: 'yes'}", false, false},
		{"annotations: {cert-manager.io/issuer-kind: ClusterIssuer}", false, false},
		{"annotations: {cert-manager.io/issuer: ca}, finalizers: [foregroundDeletion]", false, false},
		{"annotations: {cert-manager.io/issuer: ca}, deletionTimestamp: '2026-01-01T00:00:00Z'", false, false},
	} {
		metadata := "metadata: {" + tt.metadata + "}\n"
		w := s.Of(read[networkingv1.Ingress](t, metadata+tls), IngressKind)
		if got := len(w.Certificates) == 1; got != tt.ingress || w.Void == tt.ingress || len(w.Problems) > 0 {
			t.Errorf("Ingress with %s: %+v", tt.metadata, w)
		}
		w = s.Of(read[gatewayv1.Gateway](t, metadata+listener), GatewayKind)
		if got := len(w.Certificates) == 1; got != tt.gateway || w.Void == tt.gateway || len(w.Problems) > 0 {
			t.Errorf("Gateway with %s: %+v", tt.metadata, w)
		}
	}
}

// TLS entries of Ingresses: their Certificates, and what is wrong with others.
func TestIngressEntries(t *testing.T) {
	for _, tt := range []struct {
		reason, tls string
		want        map[string][]string
		void        bool
		problems    []string
	}{
		{"repeated hosts and addresses", "{secretName: a, hosts: [b.example, 10.0.0.1, a.example, b.example, '::1']}",
			map[string][]string{"a": {"b.example", "a.example", "10.0.0.1", "::1"}}, false, nil},
		{"others are served", "{secretName: a}, {hosts: [x.example]}, {secretName: b, hosts: [b.example]}", map[string][]string{"b": {"b.example"}}, false,
			[]string{"Skipped a TLS block: spec.tls[0].hosts: Required value", "Skipped a TLS block: spec.tls[1].secretName: Required value"}},
		{"an empty entry", "{}", nil, false, []string{"Skipped a TLS block: [spec.tls[0].hosts: Required value, spec.tls[0].secretName: Required value]"}},
		{"one Secret twice", "{secretName: b, hosts: [b.example]}, {secretName: a, hosts: [a.example]}, {secretName: a, hosts: [b.example]}, {secretName: a}", nil, true,
			[]string{`spec.tls[1].secretName: Invalid value: "a": this secret name must only appear in a single TLS entry but is also used in spec.tls[2].secretName`}},
		{"no Secret twice", "{hosts: [a.example]}, {hosts: [b.example]}", nil, true,
			[]string{`spec.tls[0].secretName: Invalid value: "": this secret name must only appear in a single TLS entry but is also used in spec.tls[1].secretName`}},
	} {
		w := defaults.Of(read[networkingv1.Ingress](t, "spec: {tls: ["+tt.tls+"]}"), IngressKind)
		if diff := cmp.Diff(tt.problems, w.Problems); diff != "" || w.Void != tt.void {
			t.Errorf("%s: void %t, problems (-want +got):\n%s", tt.reason, w.Void, diff)
		}
		if diff := cmp.Diff(tt.want, names(w)); diff != "" && len(tt.want)+len(w.Certificates) > 0 {
			t.Errorf("%s (-want +got):\n%s", tt.reason, diff)
		}
	}
}

// Bad annotations leave the whole Ingress alone.
func TestBadAnnotations(t *testing.T) {
	const tls = "\nspec: {tls: [{secretName: a, hosts: [a.example]}]}"
	for metadata, want := range map[string]string{
		"cert-manager.io/issuer: ''":                               "Could not determine issuer for ingress due to bad annotations: failed to determine issuer name to be used for ingress resource",
		"cert-manager.io/issuer: ca, cert-manager.io/duration: 1m": `invalid ingress annotation "cert-manager.io/duration": duration must be greater than or equal to 1h0m0s`,
	} {
		w := defaults.Of(read[networkingv1.Ingress](t, "metadata: {annotations: {"+metadata+"}}"+tls), IngressKind)
		if diff := cmp.Diff([]string{want}, w.Problems); diff != "" || !w.Void || len(w.Certificates) > 0 {
			t.Errorf("%s: %+v (-want +got):\n%s", metadata, w, diff)
		}
	}
}

// Listeners of Gateways: which are ignored, which are joined, and the errors of others.
func TestListeners(t *testing.T) {
	const ref = "{name: a}"
	listener := func(change string) string {
		return "{name: l, port: 443, protocol: HTTPS, hostname: a.example, tls: {mode: Terminate, certificateRefs: [" + ref + "]}" + change + "}"
	}
	tls := func(text string) string {
		return "{name: l, port: 443, protocol: HTTPS, hostname: a.example, tls: " + text + "}"
	}
	s := defaults
	s.ExtraProtocols = []string{"example.com/proxy"}
	for _, tt := range []struct {
		reason, listeners string
		want              map[string][]string
		problem           string
	}{
		{"one", listener(""), map[string][]string{"a": {"a.example"}}, ""},
		{"TLS", "{name: l, port: 1, protocol: TLS, hostname: a.example, tls: {mode: Terminate, certificateRefs: [{name: a, group: core, kind: Secret, namespace: shop}]}}", map[string][]string{"a": {"a.example"}}, ""},
		{"a further protocol", "{name: l, port: 1, protocol: example.com/proxy, hostname: a.example, tls: {mode: Terminate, certificateRefs: [{name: a}]}}", map[string][]string{"a": {"a.example"}}, ""},
		{"case counts", "{name: l, port: 1, protocol: https, hostname: a.example, tls: {mode: Terminate, certificateRefs: [{name: a}]}}", nil, ""},
		{"without TLS", "{name: l, port: 80, protocol: HTTP}", nil, ""},
		{"passed through", tls("{mode: Passthrough}"), nil, ""},
		{"joined, without repetitions", listener("") + "," + listener("") + ", {name: m, port: 1, protocol: TLS, hostname: b.example, tls: {mode: Terminate, certificateRefs: [{name: b}, {name: a}]}}",
			map[string][]string{"a": {"a.example", "b.example"}, "b": {"b.example"}}, ""},
		{"no hostname", "{name: l, port: 1, protocol: TLS, tls: {mode: Terminate, certificateRefs: [{name: a}]}}", nil, "spec.listeners[0].hostname: Required value: the hostname cannot be empty"},
		{"no hostname and no TLS", "{name: l, port: 1, protocol: TLS}", nil,
			"[spec.listeners[0].hostname: Required value: the hostname cannot be empty, spec.listeners[0].tls: Required value: the TLS block cannot be empty]"},
		{"no references, no mode", tls("{}"), nil,
			"[spec.listeners[0].tls.certificateRef: Required value: listener has no certificateRefs, spec.listeners[0].tls.mode: Required value: the mode field is required]"},
		{"another mode", tls("{mode: Other, certificateRefs: [{name: a}]}"), nil, `spec.listeners[0].tls.mode: Unsupported value: "Other": supported values: "Terminate"`},
		{"another group", tls("{mode: Terminate, certificateRefs: [{name: a}, {name: b, group: x}]}"), nil, `spec.listeners[0].tls.certificateRef[1].group: Unsupported value: "x": supported values: "core", ""`},
		{"another kind", tls("{mode: Terminate, certificateRefs: [{name: a, kind: X}]}"), nil, `spec.listeners[0].tls.certificateRef[0].kind: Unsupported value: "X": supported values: "Secret", ""`},
		{"another namespace", tls("{mode: Terminate, certificateRefs: [{name: a, namespace: x}]}"), nil,
			`spec.listeners[0].tls.certificateRef[0].namespace: Invalid value: "x": cross-namespace secret references are not allowed in listeners`},
	} {
		var problems []string
		if tt.problem != "" {
			problems = []string{"Skipped a listener block: " + tt.problem}
		}
		text := "spec: {listeners: [" + tt.listeners + "]}"
		for kind, w := range map[string]Wish{
			"Gateway":     s.Of(read[gatewayv1.Gateway](t, text), GatewayKind),
			"ListenerSet": s.Of(read[gatewayv1.ListenerSet](t, text), ListenerSetKind),
		} {
			if diff := cmp.Diff(problems, w.Problems); diff != "" || w.Void {
				t.Errorf("%s, %s: void %t, problems (-want +got):\n%s", kind, tt.reason, w.Void, diff)
			}
			if diff := cmp.Diff(tt.want, names(w)); diff != "" && len(tt.want)+len(w.Certificates) > 0 {
				t.Errorf("%s, %s (-want +got):\n%s", kind, tt.reason, diff)
			}
		}
	}
	ignored := read[gatewayv1.Gateway](t, "metadata: {annotations: {cert-manager.io/issuer: ca, cert-manager.io/ignore-tls-listeners: 'x, l'}}\nspec: {listeners: ["+listener("")+"]}")
	if w := s.Of(ignored, GatewayKind); len(w.Certificates) > 0 || len(w.Problems) > 0 || len(SecretNames(ignored)) != 1 {
		t.Errorf("an ignored listener: %+v", w)
	}
}

// The labels and annotations of Certificates, and their owner.
func TestWanted(t *testing.T) {
	s := defaults
	s.CopiedAnnotations = []string{"team"}
	const metadata = `metadata: {labels: {a: b, applyset.kubernetes.io/part-of: x}, annotations: {cert-manager.io/issuer: ca, team: us, other: no,
  acme.cert-manager.io/http01-edit-in-place: 'true', acme.cert-manager.io/http01-ingress-class: c, acme.cert-manager.io/http01-ingress-ingressclassname: nginx}}
`
	common := map[string]string{
		"certplane.dev/shim": "1", "team": "us",
		"acme.cert-manager.io/http01-override-ingress-name": "web", "cert-manager.io/issue-temporary-certificate": "true",
		"acme.cert-manager.io/http01-override-ingress-class": "c", "acme.cert-manager.io/http01-override-ingress-ingressclassname": "nginx",
	}
	ingress := read[networkingv1.Ingress](t, metadata+"spec: {tls: [{secretName: a, hosts: [a.example]}]}")
	before := ingress.DeepCopy()
	crt := s.Of(ingress, IngressKind).Certificates[0]
	if diff := cmp.Diff(before, ingress); diff != "" {
		t.Errorf("the Ingress has changed (-was +is):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"a": "b"}, crt.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(common, crt.Annotations); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
	owner := metav1.OwnerReference{APIVersion: "networking.k8s.io/v1", Kind: "Ingress", Name: "web", Controller: new(true), BlockOwnerDeletion: new(true)}
	if diff := cmp.Diff([]metav1.OwnerReference{owner}, crt.OwnerReferences); diff != "" {
		t.Errorf("owners (-want +got):\n%s", diff)
	}
	if crt.Namespace != "shop" || crt.Name != "a" || crt.Spec.SecretName != "a" || len(crt.Spec.Usages) != 2 {
		t.Errorf("the Certificate is %+v", crt)
	}
}

// Certificates of Gateways and ListenerSets have the parent of the HTTPRoutes of their
// challenges.
func TestParents(t *testing.T) {
	const kind, name, namespace = "acme.cert-manager.io/http01-parentrefkind", "acme.cert-manager.io/http01-parentrefname", "acme.cert-manager.io/http01-parentrefnamespace"
	const fallback = "metadata: {annotations: {acme.cert-manager.io/http01-parentreffallback: 'true'}}\n"
	for _, tt := range []struct {
		reason string
		o      client.Object
		want   map[string]string
	}{
		{"Gateway", read[gatewayv1.Gateway](t, ""), map[string]string{kind: "Gateway", name: "web"}},
		{"ListenerSet", read[gatewayv1.ListenerSet](t, "spec: {parentRef: {name: g}}"), map[string]string{kind: "ListenerSet", name: "web"}},
		{"its Gateway", read[gatewayv1.ListenerSet](t, fallback+"spec: {parentRef: {name: g}}"), map[string]string{kind: "Gateway", name: "g", namespace: "shop"}},
		{"a Gateway elsewhere", read[gatewayv1.ListenerSet](t, fallback+"spec: {parentRef: {name: g, namespace: x}}"), map[string]string{kind: "Gateway", name: "g", namespace: "x"}},
	} {
		tt.want[Mark] = "1"
		if diff := cmp.Diff(tt.want, defaults.wantedAnnotations(tt.o)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.reason, diff)
		}
	}
}

// A ListenerSet inherits an issuer only if it names none, and its kind and group with it.
func TestInherit(t *testing.T) {
	for _, tt := range []struct {
		reason             string
		set, gateway, want []string
	}{
		{"no issuer at all", nil, []string{"issuer-kind: K"}, nil},
		{"all of the Gateway's", []string{"duration: 2h"}, []string{"issuer: a", "issuer-kind: K", "issuer-group: G", "duration: 1h"}, []string{"duration: 2h", "issuer: a", "issuer-kind: K", "issuer-group: G"}},
		{"its own kind", []string{"issuer-kind: O"}, []string{"issuer: a", "issuer-kind: K"}, []string{"issuer: a", "issuer-kind: O"}},
		{"its own issuer", []string{"cluster-issuer: o"}, []string{"issuer: a", "issuer-kind: K"}, []string{"cluster-issuer: o"}},
		{"a ClusterIssuer", nil, []string{"cluster-issuer: a"}, []string{"cluster-issuer: a"}},
	} {
		if diff := cmp.Diff(parse(tt.want...), Inherit(parse(tt.set...), parse(tt.gateway...))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.reason, diff)
		}
	}
}
