package manifests_test

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/certplane/certplane/internal/run/cluster"
	"github.com/certplane/certplane/internal/run/manifests"
)

func withACME(c *cluster.Config) {
	c.ACMEServer.Listen, c.ACMEServer.ExternalURL = ":9443", "https://acme.example.com"
}

// The ACME server has a Service whose clients keep their pod, a certificate of its own or
// from a mounted Secret, and an account with no more than it needs.
func TestACMEServer(t *testing.T) {
	all := objects(t, config(withACME))
	service := slices.IndexFunc(find[*corev1.Service](all), func(s *corev1.Service) bool { return s.Name == "certplane-acme" })
	if service < 0 {
		t.Fatal("there is no Service")
	}
	if s := find[*corev1.Service](all)[service]; s.Spec.SessionAffinity != corev1.ServiceAffinityClientIP || s.Spec.Ports[0].TargetPort.StrVal != "acme" {
		t.Errorf("the Service is %+v", s.Spec)
	}
	pod := find[*appsv1.Deployment](all)[0].Spec.Template.Spec
	if !slices.ContainsFunc(pod.Containers[0].Ports, func(p corev1.ContainerPort) bool { return p.Name == "acme" && p.ContainerPort == 9443 }) {
		t.Errorf("ports %+v", pod.Containers[0].Ports)
	}
	mounts := func(volumes []corev1.Volume) bool {
		return slices.ContainsFunc(volumes, func(v corev1.Volume) bool { return v.Secret != nil && v.Secret.SecretName == "certplane-acme-tls" })
	}
	keeps := func(all []runtime.Object) bool {
		return slices.ContainsFunc(find[*rbacv1.Role](all), func(r *rbacv1.Role) bool { return r.Name == "acme-certificate" })
	}
	if mounts(pod.Volumes) || !keeps(all) {
		t.Errorf("by default the certificate is not one of the server's own: volumes %+v", pod.Volumes)
	}
	fromFiles := objects(t, config(func(c *cluster.Config) {
		withACME(c)
		c.ACMEServer.Certificate.CertFile, c.ACMEServer.Certificate.KeyFile = "/etc/certplane/acme/tls.crt", "/etc/certplane/acme/tls.key"
	}))
	if !mounts(find[*appsv1.Deployment](fromFiles)[0].Spec.Template.Spec.Volumes) || keeps(fromFiles) {
		t.Error("files of a Secret are not mounted, or another Secret is kept")
	}
	roles := find[*rbacv1.ClusterRole](all)
	role := slices.IndexFunc(roles, func(r *rbacv1.ClusterRole) bool { return r.Name == "certplane-system:acme-server" })
	if role < 0 {
		t.Fatal("there is no role")
	}
	for _, rule := range roles[role].Rules {
		if slices.Contains(rule.Resources, "secrets") || slices.Contains(rule.Resources, "serviceaccounts/token") {
			t.Errorf("it may %v", rule)
		}
	}
	peers := slices.IndexFunc(find[*rbacv1.Role](all), func(r *rbacv1.Role) bool { return r.Namespace == "certplane-system" && r.Name == "acme-server" })
	if peers < 0 {
		t.Fatal("its processes cannot find each other")
	}
	for _, rule := range find[*rbacv1.Role](all)[peers].Rules {
		if !slices.Equal(rule.Verbs, []string{"create"}) && !slices.Equal(rule.ResourceNames, []string{"certplane-acme-peers"}) {
			t.Errorf("in its namespace it may %v", rule)
		}
	}
	if off := write(t, config(nil)); strings.Contains(off, "certplane-acme\n") || strings.Contains(off, "certplane-system:acme-server") {
		t.Error("there is an ACME server by default")
	}
}

// With clients named, others do not reach the port; what else is open stays so.
func TestACMENetwork(t *testing.T) {
	policies := func(change func(*cluster.Config)) []*networkingv1.NetworkPolicy {
		return find[*networkingv1.NetworkPolicy](objects(t, config(func(c *cluster.Config) {
			withACME(c)
			change(c)
		})))
	}
	if got := policies(func(*cluster.Config) {}); len(got) != 0 {
		t.Errorf("without clients: %+v", got)
	}
	got := policies(func(c *cluster.Config) {
		c.ACMEServer.ClientAddresses, c.ACMEServer.TrustedProxies = []string{"10.0.0.0/8"}, []string{"192.0.2.0/28"}
	})
	if len(got) != 1 {
		t.Fatalf("policies %+v", got)
	}
	rules := got[0].Spec.Ingress
	if len(rules[0].From) != 3 || rules[0].From[2].PodSelector.MatchLabels["app.kubernetes.io/name"] == "" || rules[0].Ports[0].Port.IntVal != 9443 || len(rules[1].From) != 0 || len(rules[1].Ports) != 3 {
		t.Errorf("rules %+v", rules)
	}
	got = policies(func(c *cluster.Config) {
		c.ACMEServer.ClientAddresses, c.ACMEServer.RootsListen = []string{"10.0.0.0/8"}, ":9080"
	})
	if ports := got[0].Spec.Ingress[0].Ports; len(ports) != 2 || ports[1].Port.IntVal != 9080 {
		t.Errorf("with roots by plain HTTP: %+v", ports)
	}
	got = policies(func(c *cluster.Config) { c.Webhook.ClientCIDRs = []string{"10.0.0.1/32"} })
	if len(got) != 2 {
		t.Fatalf("beside that of the webhook: %+v", got)
	}
	for _, p := range got {
		if p.Name == "certplane-acme" && (len(p.Spec.Ingress[0].From) != 0 || len(p.Spec.Ingress[1].Ports) != 2) {
			t.Errorf("rules %+v", p.Spec.Ingress)
		}
	}
}

func TestACMESettingsAreChecked(t *testing.T) {
	for want, change := range map[string]func(*cluster.Config){
		"acmeServer.listen: 127.0.0.1:9443 is not reached":         func(c *cluster.Config) { c.ACMEServer.Listen = "127.0.0.1:9443" },
		"acmeServer.rootsListen: 127.0.0.1:9080 is not":            func(c *cluster.Config) { c.ACMEServer.RootsListen = "127.0.0.1:9080" },
		"acmeServer.listen: port 8443 is already used by metrics":  func(c *cluster.Config) { c.ACMEServer.Listen = ":8443" },
		"acmeServer.rootsListen: port 9443 is already used by acm": func(c *cluster.Config) { c.ACMEServer.RootsListen = ":9443" },
		"acmeServer.externalURL: missing":                          func(c *cluster.Config) { c.ACMEServer.ExternalURL = "" },
	} {
		_, err := manifests.Objects(config(func(c *cluster.Config) {
			withACME(c)
			change(c)
		}))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
