package apiserver

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

func TestServicesOfWebhooks(t *testing.T) {
	ports := []corev1.ServicePort{{Port: 443, Protocol: corev1.ProtocolTCP}, {Port: 53, Protocol: corev1.ProtocolUDP}}
	for _, test := range []struct {
		reason  string
		spec    corev1.ServiceSpec
		ingress []corev1.LoadBalancerIngress
		port    int32
		want    string
	}{
		{reason: "a name", spec: corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "hook.example.com."}, want: "https://hook.example.com:443"},
		{reason: "a name has no ports", spec: corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "hook.example.com"}, port: 8443, want: "https://hook.example.com:8443"},
		{reason: "an address", spec: corev1.ServiceSpec{ExternalIPs: []string{"192.0.2.7", "192.0.2.8"}, ClusterIP: "10.0.0.1", Ports: ports}, want: "https://192.0.2.7:443"},
		{reason: "an address of IPv6", spec: corev1.ServiceSpec{ExternalIPs: []string{"2001:db8::7"}, Ports: ports}, want: "https://[2001:db8::7]:443"},
		{reason: "a load balancer", spec: corev1.ServiceSpec{ClusterIP: "10.0.0.1", Ports: ports}, ingress: []corev1.LoadBalancerIngress{{IP: "192.0.2.9"}}, want: "https://192.0.2.9:443"},
		{reason: "a load balancer with a name", spec: corev1.ServiceSpec{Ports: ports}, ingress: []corev1.LoadBalancerIngress{{Hostname: "lb.example.com"}}, want: "https://lb.example.com:443"},
		{reason: "a cluster IP", spec: corev1.ServiceSpec{ClusterIP: "10.0.0.1", Ports: ports}, want: "https://10.0.0.1:443"},
		{reason: "no address", spec: corev1.ServiceSpec{Ports: ports}, want: "it has no address that this server can connect to: set spec.externalIPs"},
		{reason: "headless", spec: corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, Ports: ports}, want: "set clientConfig.url instead of clientConfig.service"},
		{reason: "another port", spec: corev1.ServiceSpec{ExternalIPs: []string{"192.0.2.7"}, Ports: ports}, port: 8443, want: "spec.ports has no TCP port 8443"},
		{reason: "a port of UDP", spec: corev1.ServiceSpec{ExternalIPs: []string{"192.0.2.7"}, Ports: ports}, port: 53, want: "spec.ports has no TCP port 53"},
	} {
		t.Run(test.reason, func(t *testing.T) {
			service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "hook"}, Spec: test.spec}
			service.Status.LoadBalancer.Ingress = test.ingress
			if test.port == 0 {
				test.port = 443
			}
			url, err := services{fake.NewClientset(service).CoreV1()}.ResolveEndpoint("team", "hook", test.port)
			if err == nil && url.String() != test.want {
				t.Errorf("%s, want %s", url, test.want)
			}
			if err != nil && (!strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), `service "hook" in namespace "team"`)) {
				t.Errorf("%v, want %s", err, test.want)
			}
		})
	}
	_, err := services{fake.NewClientset().CoreV1()}.ResolveEndpoint("team", "hook", 443)
	if err == nil || !strings.Contains(err.Error(), `service "hook" in namespace "team": it does not exist; create it`) {
		t.Errorf("no such service: %v", err)
	}
}
