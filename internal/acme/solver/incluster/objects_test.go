package incluster_test

import (
	"testing"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/certplane/certplane/internal/acme/solver/incluster"
)

// fullTemplate changes everything that a template can change, and tries to
// change the labels of the identity.
func fullTemplate() *acmev1.ACMEChallengeSolverHTTP01IngressPodTemplate {
	return &acmev1.ACMEChallengeSolverHTTP01IngressPodTemplate{
		ACMEChallengeSolverHTTP01IngressPodObjectMeta: acmev1.ACMEChallengeSolverHTTP01IngressPodObjectMeta{
			Annotations: map[string]string{"sidecar.istio.io/inject": "true", "example.com/note": "n"},
			Labels: map[string]string{
				"acme.cert-manager.io/http-domain": "0", "acme.cert-manager.io/http-token": "0", "acme.cert-manager.io/http01-solver": "false",
				"team": "shop", "stage": "template",
			},
		},
		Spec: acmev1.ACMEChallengeSolverHTTP01IngressPodSpec{
			NodeSelector:       map[string]string{"pool": "edge"},
			Tolerations:        []corev1.Toleration{{Key: "edge", Operator: corev1.TolerationOpExists}},
			Affinity:           &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{}},
			PriorityClassName:  "high",
			ServiceAccountName: "solver",
			ImagePullSecrets:   []corev1.LocalObjectReference{{Name: "registry"}},
			SecurityContext: &acmev1.ACMEChallengeSolverHTTP01IngressPodSecurityContext{
				RunAsUser: ptr.To(int64(1001)), FSGroup: ptr.To(int64(1002)), SupplementalGroups: []int64{7},
				Sysctls: []corev1.Sysctl{{Name: "net.core.somaxconn", Value: "128"}},
			},
			Resources: &acmev1.ACMEChallengeSolverHTTP01IngressPodResources{
				Limits:   corev1.ResourceList{"memory": resource.MustParse("128Mi"), "ephemeral-storage": resource.MustParse("1Mi")},
				Requests: corev1.ResourceList{"cpu": resource.MustParse("20m")},
			},
		},
	}
}

func fullSettings(s *incluster.Settings) {
	s.ExtraLabels = map[string]string{"acme.cert-manager.io/http-domain": "1", "stage": "settings", "costs": "platform"}
	s.RuntimeClassName = "gvisor"
	s.PathTypeExact = false
	s.SolverCommand = nil
}

func gatewayParent() []gatewayv1.ParentReference {
	return []gatewayv1.ParentReference{{
		Group: ptr.To(gatewayv1.Group("gateway.networking.k8s.io")), Kind: ptr.To(gatewayv1.Kind("Gateway")),
		Name: "edge", Namespace: ptr.To(gatewayv1.Namespace("infra")), SectionName: ptr.To(gatewayv1.SectionName("http")),
	}}
}

// The objects are exactly those that Ingress controllers, Gateways and network
// policies know.
func TestObjects(t *testing.T) {
	ip := byIngress(acmev1.ACMEChallengeSolverHTTP01Ingress{})
	ip.Spec.DNSName = "2001:db8::1"
	routeForIP := byRoute(acmev1.ACMEChallengeSolverHTTP01GatewayHTTPRoute{ParentRefs: gatewayParent()})
	routeForIP.Spec.DNSName = "192.0.2.1"
	capitals := byIngress(acmev1.ACMEChallengeSolverHTTP01Ingress{ServiceType: corev1.ServiceTypeClusterIP})
	capitals.Spec.DNSName = "A.Example.com"
	tests := []struct {
		golden   string
		ch       *acmev1.Challenge
		settings func(*incluster.Settings)
		reason   string
	}{
		{"ingress.yaml", byIngress(acmev1.ACMEChallengeSolverHTTP01Ingress{}), nil, "the defaults"},
		{"ingress-classname.yaml", byIngress(acmev1.ACMEChallengeSolverHTTP01Ingress{ServiceType: corev1.ServiceTypeClusterIP, IngressClassName: ptr.To("nginx")}), nil, "the class is a field, and the Service a ClusterIP"},
		{"ingress-template.yaml", byIngress(acmev1.ACMEChallengeSolverHTTP01Ingress{
			Class: ptr.To("old"), PodTemplate: fullTemplate(),
			IngressTemplate: &acmev1.ACMEChallengeSolverHTTP01IngressTemplate{ACMEChallengeSolverHTTP01IngressObjectMeta: acmev1.ACMEChallengeSolverHTTP01IngressObjectMeta{
				Annotations: map[string]string{"haproxy.example/whitelist-source-range": "10.0.0.0/8", "a": "b"},
				Labels:      map[string]string{"team": "shop", "acme.cert-manager.io/http-token": "0"},
			}},
		}), fullSettings, "templates and settings change everything but the identity"},
		{"ingress-ip.yaml", ip, nil, "an IP address cannot be a host"},
		{"ingress-capitals.yaml", capitals, nil, "the API refuses capital letters in hosts; labels and arguments are of the name as it is"},
		{"route.yaml", byRoute(acmev1.ACMEChallengeSolverHTTP01GatewayHTTPRoute{
			Labels: map[string]string{"gateway": "edge", "acme.cert-manager.io/http01-solver": "false"}, ParentRefs: gatewayParent(),
		}), nil, "the identity is on top of the solver's labels"},
		{"route-template.yaml", byRoute(acmev1.ACMEChallengeSolverHTTP01GatewayHTTPRoute{
			ServiceType: corev1.ServiceTypeClusterIP, ParentRefs: gatewayParent(), PodTemplate: fullTemplate(),
		}), nil, "pods for HTTPRoutes have templates too"},
		{"route-ip.yaml", routeForIP, nil, "an IP address cannot be a hostname"},
	}
	for _, test := range tests {
		t.Run(test.golden, func(t *testing.T) {
			c := newCluster(t, test.settings)
			before := test.ch.DeepCopy()
			c.present(test.ch)
			c.golden(test.golden)
			if diff := cmp.Diff(before, test.ch); diff != "" {
				t.Errorf("%s: the challenge was modified (-before +after):\n%s", test.reason, diff)
			}
			c.present(test.ch)
			if len(c.created) != 3 {
				t.Errorf("%s: %d objects after the second time, want 3", test.reason, len(c.created))
			}
		})
	}
}

// A template that sets one field of the security context leaves the others as
// they are; one that sets all of them has all of them.
func TestSecurityContext(t *testing.T) {
	tests := []struct {
		reason string
		change func(*acmev1.ACMEChallengeSolverHTTP01IngressPodSecurityContext)
		want   corev1.PodSecurityContext
	}{
		{"nothing is set", func(*acmev1.ACMEChallengeSolverHTTP01IngressPodSecurityContext) {}, corev1.PodSecurityContext{
			RunAsNonRoot: ptr.To(true), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		}},
		{"root is allowed deliberately", func(s *acmev1.ACMEChallengeSolverHTTP01IngressPodSecurityContext) {
			s.RunAsNonRoot, s.RunAsGroup = ptr.To(false), ptr.To(int64(0))
		}, corev1.PodSecurityContext{
			RunAsNonRoot: ptr.To(false), RunAsGroup: ptr.To(int64(0)), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		}},
		{"the rest is set", func(s *acmev1.ACMEChallengeSolverHTTP01IngressPodSecurityContext) {
			s.SeccompProfile = &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeUnconfined}
			s.SELinuxOptions = &corev1.SELinuxOptions{Level: "s0"}
			s.FSGroupChangePolicy = ptr.To(corev1.FSGroupChangeAlways)
		}, corev1.PodSecurityContext{
			RunAsNonRoot: ptr.To(true), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeUnconfined},
			SELinuxOptions: &corev1.SELinuxOptions{Level: "s0"}, FSGroupChangePolicy: ptr.To(corev1.FSGroupChangeAlways),
		}},
	}
	for _, test := range tests {
		template := &acmev1.ACMEChallengeSolverHTTP01IngressPodTemplate{}
		template.Spec.SecurityContext = &acmev1.ACMEChallengeSolverHTTP01IngressPodSecurityContext{}
		test.change(template.Spec.SecurityContext)
		c := newCluster(t, nil)
		c.present(byIngress(acmev1.ACMEChallengeSolverHTTP01Ingress{PodTemplate: template}))
		if diff := cmp.Diff(&test.want, c.created[0].(*corev1.Pod).Spec.SecurityContext); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.reason, diff)
		}
	}
}
