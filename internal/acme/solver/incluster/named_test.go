package incluster_test

import (
	"strings"
	"testing"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/acme/solver/incluster"
)

const challengePath = "/.well-known/acme-challenge/tok"

// site is an Ingress of a user.
func site(rules ...networkingv1.IngressRule) *networkingv1.Ingress {
	return &networkingv1.Ingress{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "site"},
		Spec:       networkingv1.IngressSpec{IngressClassName: ptr.To("gce"), Rules: rules},
	}
}

// rule leads paths of a host to Services of the same names, without slashes.
// Without paths, it has no http.
func rule(host string, paths ...string) networkingv1.IngressRule {
	r := networkingv1.IngressRule{Host: host}
	for _, path := range paths {
		if r.HTTP == nil {
			r.HTTP = &networkingv1.HTTPIngressRuleValue{}
		}
		name := strings.Trim(strings.ReplaceAll(path, "/", "-"), "-")
		r.HTTP.Paths = append(r.HTTP.Paths, pathTo(path, networkingv1.PathTypePrefix, name, 80))
	}
	return r
}

func pathTo(path string, pathType networkingv1.PathType, service string, number int32) networkingv1.HTTPIngressPath {
	return networkingv1.HTTPIngressPath{Path: path, PathType: &pathType, Backend: networkingv1.IngressBackend{
		Service: &networkingv1.IngressServiceBackend{Name: service, Port: networkingv1.ServiceBackendPort{Number: number}},
	}}
}

func byNamed() *acmev1.Challenge {
	return byIngress(acmev1.ACMEChallengeSolverHTTP01Ingress{Name: "site"})
}

func (c *cluster) site() *networkingv1.Ingress {
	c.t.Helper()
	var ingress networkingv1.Ingress
	if err := c.Get(c.t.Context(), client.ObjectKey{Namespace: "shop", Name: "site"}, &ingress); err != nil {
		c.t.Fatal(err)
	}
	return &ingress
}

// layout returns what an Ingress has, a string for each rule.
func layout(ingress *networkingv1.Ingress) []string {
	var rules []string
	for _, rule := range ingress.Spec.Rules {
		text := rule.Host
		if rule.HTTP == nil {
			text += " (default)"
		} else {
			for _, path := range rule.HTTP.Paths {
				text += " " + path.Path
			}
		}
		rules = append(rules, text)
	}
	return rules
}

func TestNamedIngress(t *testing.T) {
	tests := []struct {
		reason    string
		rules     []networkingv1.IngressRule
		presented []string
		cleaned   []string
	}{
		{
			"the host has a rule", []networkingv1.IngressRule{rule("b.example.com", "/"), rule("a.example.com", "/", "/app")},
			[]string{"b.example.com /", "a.example.com " + challengePath + " / /app"}, []string{"b.example.com /", "a.example.com / /app"},
		},
		{
			"the host has none", []networkingv1.IngressRule{rule("b.example.com", "/"), rule("", "/")},
			[]string{"b.example.com /", " /", "a.example.com " + challengePath}, []string{"b.example.com /", " /"},
		},
		{
			"a rule without paths sends the host to the default backend", []networkingv1.IngressRule{rule("a.example.com"), rule("b.example.com")},
			[]string{"a.example.com (default)", "b.example.com (default)", "a.example.com " + challengePath}, []string{"a.example.com (default)", "b.example.com (default)"},
		},
		{
			"another challenge came in front", []networkingv1.IngressRule{rule("a.example.com", "/.well-known/acme-challenge/other", challengePath, "/")},
			[]string{"a.example.com /.well-known/acme-challenge/other " + challengePath + " /"}, []string{"a.example.com /.well-known/acme-challenge/other /"},
		},
		{
			"a user renamed the host of the rule with the path", []networkingv1.IngressRule{rule("b.example.com", challengePath), rule("a.example.com", "/")},
			[]string{"b.example.com " + challengePath, "a.example.com " + challengePath + " /"}, []string{"a.example.com /"},
		},
		{"there are no rules", nil, []string{"a.example.com " + challengePath}, nil},
	}
	for _, test := range tests {
		t.Run(test.reason, func(t *testing.T) {
			c := newCluster(t, nil, site(test.rules...))
			c.present(byNamed())
			if diff := cmp.Diff(test.presented, layout(c.site())); diff != "" {
				t.Errorf("presented (-want +got):\n%s", diff)
			}
			c.wantCounts("no Ingress is made", 1, 1, 1, 0)
			clear(c.calls)
			c.present(byNamed())
			if n := c.calls["patch *v1.Ingress"]; n > 0 {
				t.Errorf("%d patches when all is there, want none", n)
			}
			c.cleanUp(byNamed())
			if diff := cmp.Diff(test.cleaned, layout(c.site())); diff != "" {
				t.Errorf("cleaned (-want +got):\n%s", diff)
			}
			c.wantCounts("the Ingress stays", 0, 0, 1, 0)
			c.cleanUp(byNamed())
		})
	}
}

// The path leads to the Service of the challenge, also after that was
// created again.
func TestNamedIngressLeadsToService(t *testing.T) {
	for _, exact := range []bool{true, false} {
		c := newCluster(t, func(s *incluster.Settings) { s.PathTypeExact = exact }, site(rule("a.example.com", "/")))
		want := networkingv1.PathTypeImplementationSpecific
		if exact {
			want = networkingv1.PathTypeExact
		}
		for range 2 {
			c.present(byNamed())
			service := c.names(&corev1.ServiceList{})[0]
			if diff := cmp.Diff(pathTo(challengePath, want, service, 8089), c.site().Spec.Rules[0].HTTP.Paths[0]); diff != "" {
				t.Errorf("path (-want +got):\n%s", diff)
			}
			c.deleteAll(&corev1.Service{})
		}
	}
}

// What others write between our reading and our writing is kept.
func TestNamedIngressKeepsEditsOfOthers(t *testing.T) {
	c := newCluster(t, nil, site(rule("a.example.com", "/")))
	edit := func(host string) {
		c.before = func() {
			c.before = nil
			ingress := c.site()
			ingress.Spec.Rules = append([]networkingv1.IngressRule{rule(host, "/")}, ingress.Spec.Rules...)
			ingress.Annotations = map[string]string{host: "edited"}
			c.write(ingress)
		}
	}
	edit("first.example.com")
	c.present(byNamed())
	want := []string{"first.example.com /", "a.example.com " + challengePath + " /"}
	if diff := cmp.Diff(want, layout(c.site())); diff != "" {
		t.Errorf("presented (-want +got):\n%s", diff)
	}
	edit("second.example.com")
	c.cleanUp(byNamed())
	want = []string{"second.example.com /", "first.example.com /", "a.example.com /"}
	if diff := cmp.Diff(want, layout(c.site())); diff != "" {
		t.Errorf("cleaned (-want +got):\n%s", diff)
	}
	if c.site().Annotations["second.example.com"] == "" {
		t.Error("the annotation of the other is gone")
	}
}

// An Ingress that does not exist is an error when it has to be edited, and none
// when there is nothing to remove.
func TestNamedIngressMissing(t *testing.T) {
	elsewhere := site(rule("a.example.com", "/"))
	elsewhere.Namespace = "blog"
	c := newCluster(t, nil, elsewhere)
	if err := c.Present(t.Context(), taskOf(byNamed())); err == nil || !strings.Contains(err.Error(), "reading the Ingress site that the solver names") {
		t.Errorf("got %v, want an error that names the Ingress", err)
	}
	c.cleanUp(byNamed())
	c.wantCounts("that of another namespace is untouched", 0, 0, 1, 0)
}
