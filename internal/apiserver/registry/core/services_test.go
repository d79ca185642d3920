package core_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/certplane/certplane/internal/apitest"
)

func newService(name string, edits ...func(*corev1.ServiceSpec)) *corev1.Service {
	service := &corev1.Service{
		ObjectMeta: named(name),
		Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": "a"}, Ports: []corev1.ServicePort{{Port: 443}}},
		Status:     corev1.ServiceStatus{LoadBalancer: corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}}}},
	}
	for _, edit := range edits {
		edit(&service.Spec)
	}
	return service
}

func TestServicesAreChecked(t *testing.T) {
	w := start(t)
	type spec = *corev1.ServiceSpec
	kind := func(kind corev1.ServiceType) func(spec) { return func(s spec) { s.Type = kind } }
	port := func(p corev1.ServicePort) func(spec) { return func(s spec) { s.Ports = []corev1.ServicePort{p} } }
	addresses := func(first string, all ...string) func(spec) {
		return func(s spec) { s.ClusterIP, s.ClusterIPs = first, all }
	}
	for _, tt := range []struct {
		reason string
		spec   *corev1.Service
		want   string
	}{
		{"a name in upper case", newService("A"), "422 metadata.name: FieldValueInvalid"},
		{"a name with a dot", newService("a.b"), "422 metadata.name: FieldValueInvalid"},
		{"an unknown type", newService("a", kind("Odd")), "422 spec.type: FieldValueNotSupported"},
		{"no ports", newService("a", func(s spec) { s.Ports = nil }), "422 spec.ports: FieldValueRequired"},
		{"a port out of range", newService("a", port(corev1.ServicePort{Port: 65536})),
			"422 spec.ports[0].port: FieldValueInvalid, 422 spec.ports[0].targetPort: FieldValueInvalid"},
		{"no protocol that there is", newService("a", port(corev1.ServicePort{Port: 1, Protocol: "tcp"})), "422 spec.ports[0].protocol: FieldValueNotSupported"},
		{"no name of a port", newService("a", port(corev1.ServicePort{Port: 1, TargetPort: intstr.FromString("a_b")})), "422 spec.ports[0].targetPort: FieldValueInvalid"},
		{"a bad name of a port", newService("a", port(corev1.ServicePort{Port: 1, Name: "A"})), "422 spec.ports[0].name: FieldValueInvalid"},
		{"two ports without names", newService("a", func(s spec) { s.Ports = []corev1.ServicePort{{Port: 1}, {Port: 2}} }),
			"422 spec.ports[0].name: FieldValueRequired, 422 spec.ports[1].name: FieldValueRequired"},
		{"two ports of one name", newService("a", func(s spec) { s.Ports = []corev1.ServicePort{{Name: "a", Port: 1}, {Name: "a", Port: 2}} }),
			"422 spec.ports[1].name: FieldValueDuplicate"},
		{"one port twice", newService("a", func(s spec) { s.Ports = []corev1.ServicePort{{Name: "a", Port: 1}, {Name: "b", Port: 1}} }),
			"422 spec.ports[1]: FieldValueDuplicate"},
		{"a port of nodes", newService("a", port(corev1.ServicePort{Port: 1, NodePort: 30000})), "422 spec.ports[0].nodePort: FieldValueForbidden"},
		{"no protocol of an application", newService("a", port(corev1.ServicePort{Port: 1, AppProtocol: ptr.To("-")})), "422 spec.ports[0].appProtocol: FieldValueInvalid"},
		{"no label", newService("a", func(s spec) { s.Selector = map[string]string{"a/b/c": "-"} }), "422 spec.selector: FieldValueInvalid, 422 spec.selector: FieldValueInvalid"},
		{"no address", newService("a", addresses("x")), "422 spec.clusterIPs[0]: FieldValueInvalid"},
		{"two first addresses", newService("a", addresses("10.0.0.1", "10.0.0.2")), "422 spec.clusterIPs: FieldValueInvalid"},
		{"no address outside", newService("a", func(s spec) { s.ExternalIPs = []string{"x"} }), "422 spec.externalIPs[0]: FieldValueInvalid"},
		{"no address, yet balanced", newService("a", kind("LoadBalancer"), addresses("None")), "422 spec.clusterIPs[0]: FieldValueInvalid"},
		{"a name outside, without one", newService("a", kind("ExternalName")), "422 spec.externalName: FieldValueRequired"},
		{"a bad name outside", newService("a", kind("ExternalName"), func(s spec) { s.ExternalName = "A" }), "422 spec.externalName: FieldValueInvalid"},
		{"a name outside, an address inside", newService("a", kind("ExternalName"), addresses("10.0.0.1"), func(s spec) { s.ExternalName = "a.b" }),
			"422 spec.clusterIPs: FieldValueForbidden"},
		{"an unknown affinity", newService("a", func(s spec) { s.SessionAffinity = "Odd" }), "422 spec.sessionAffinity: FieldValueNotSupported"},
		{"a week with one pod", newService("a", func(s spec) {
			week := int32(7 * 86400)
			s.SessionAffinity = "ClientIP"
			s.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: &week}}
		}), "422 spec.sessionAffinityConfig.clientIP.timeoutSeconds: FieldValueInvalid"},
		{"an unknown policy", newService("a", func(s spec) { s.ExternalTrafficPolicy = "Odd" }), "422 spec.externalTrafficPolicy: FieldValueNotSupported"},
		{"a name that begins with a digit", newService("1a"), "<nil>"},
		{"without an address", newService("headless", addresses("None"), func(s spec) { s.Ports = nil }), "<nil>"},
		{"a name outside", newService("outside", kind("ExternalName"), func(s spec) { s.ExternalName, s.Ports = "example.com.", nil }), "<nil>"},
		{"on nodes", newService("nodes", kind("NodePort"), port(corev1.ServicePort{Port: 80, NodePort: 30080})), "<nil>"},
	} {
		if _, err := w.core.Services(w.namespace).Create(t.Context(), tt.spec, create); causes(err) != tt.want {
			t.Errorf("%s: %s, want %s", tt.reason, causes(err), tt.want)
		}
	}
	got := apitest.Table(t, w.Admin(t), "/api/v1/namespaces/"+w.namespace+"/services/nodes")
	if want := "Name|Type|Cluster-IP|External-IP|Port(s)|Age\nnodes|NodePort|<none>|<none>|80:30080/TCP|"; !strings.HasPrefix(got, want) {
		t.Errorf("table is\n%swant\n%s", got, want)
	}
}

// A service is a record: it is stored as written, and no address is allocated.
func TestServices(t *testing.T) {
	w := start(t)
	services := w.core.Services(w.namespace)
	made, err := services.Create(t.Context(), newService("a"), create)
	if err != nil {
		t.Fatal(err)
	}
	port := made.Spec.Ports[0]
	if made.Spec.Type != "ClusterIP" || made.Spec.SessionAffinity != "None" || made.Spec.ClusterIP != "" ||
		port.Protocol != "TCP" || port.TargetPort.IntValue() != 443 || len(made.Status.LoadBalancer.Ingress) != 0 {
		t.Errorf("made %+v, status %+v", made.Spec, made.Status)
	}

	patch := func(body string, subresources ...string) (*corev1.Service, error) {
		return services.Patch(t.Context(), "a", types.MergePatchType, []byte(body), metav1.PatchOptions{}, subresources...)
	}
	if got, err := patch(`{"spec":{"clusterIP":"10.0.0.1","selector":{"app":"b"}},"status":{"loadBalancer":{"ingress":[{"ip":"192.0.2.1"}]}}}`); err != nil ||
		len(got.Spec.ClusterIPs) != 1 || got.Spec.Selector["app"] != "b" || len(got.Status.LoadBalancer.Ingress) != 0 {
		t.Errorf("patched: %+v, %v", got, err)
	}
	if got, err := patch(`{"spec":{"selector":{"app":"c"}},"status":{"loadBalancer":{"ingress":[{"ip":"192.0.2.1"}]}}}`, "status"); err != nil ||
		got.Spec.Selector["app"] != "b" || len(got.Status.LoadBalancer.Ingress) != 1 {
		t.Errorf("patched through /status: %+v, %v", got, err)
	}
	if _, err := patch(`{"spec":{"clusterIP":"10.0.0.2","clusterIPs":["10.0.0.2"]}}`); causes(err) != "422 spec.clusterIPs[0]: FieldValueInvalid" {
		t.Errorf("another address: %s", causes(err))
	}
	// A PUT without the address, as from a manifest, keeps it.
	if got, err := services.Update(t.Context(), newService("a"), update); err != nil || got.Spec.ClusterIP != "10.0.0.1" {
		t.Errorf("put: %+v, %v", got, err)
	}
	if list, err := services.List(t.Context(), metav1.ListOptions{FieldSelector: "spec.clusterIP=10.0.0.1"}); err != nil || len(list.Items) != 1 {
		t.Errorf("by address: %+v, %v", list, err)
	}
	if err := services.Delete(t.Context(), "a", remove); err != nil {
		t.Error(err)
	}
	if _, err := services.Get(t.Context(), "a", get); !apierrors.IsNotFound(err) {
		t.Errorf("deleted: %v", err)
	}
}
