package order_test

import (
	"strings"
	"testing"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/policy/order"
)

func orderOf(namespace, certificate string, issuer cmmeta.IssuerReference, names ...string) acmev1.Order {
	o := acmev1.Order{ObjectMeta: metav1.ObjectMeta{Namespace: namespace}, Spec: acmev1.OrderSpec{IssuerRef: issuer, DNSNames: names}}
	if certificate != "" {
		o.Annotations = map[string]string{"cert-manager.io/certificate-name": certificate}
	}
	return o
}

func TestNamesKey(t *testing.T) {
	local := cmmeta.IssuerReference{Name: "le"}
	one := orderOf("shop", "web", le, "a.example.com", "b.example.com")
	for _, test := range []struct {
		reason string
		other  acmev1.Order
		same   bool
	}{
		{"another order and case of the names", orderOf("shop", "x", le, "B.example.com", "a.example.com"), true},
		{"another namespace, the same ClusterIssuer", orderOf("blog", "x", le, "a.example.com", "b.example.com"), true},
		{"fewer names", orderOf("shop", "x", le, "a.example.com"), false},
		{"an Issuer of the same name", orderOf("shop", "x", local, "a.example.com", "b.example.com"), false},
	} {
		if same := order.NamesKey(&one) == order.NamesKey(&test.other); same != test.same {
			t.Errorf("%s: same is %v", test.reason, same)
		}
	}
	here, there := orderOf("shop", "x", local, "a.example.com"), orderOf("blog", "x", local, "a.example.com")
	if order.NamesKey(&here) == order.NamesKey(&there) {
		t.Error("Issuers of two namespaces are one")
	}
}

func TestDuplicates(t *testing.T) {
	failed := orderOf("shop", "failed", le, "a.example.com")
	failed.Status.State = acmev1.Invalid
	for _, test := range []struct {
		reason, certificate string
		same                []acmev1.Order
		want                string
		not                 string
	}{
		{"its own renewals", "web", []acmev1.Order{orderOf("shop", "web", le), orderOf("shop", "web", le)}, "", ""},
		{"another one, twice", "web", []acmev1.Order{orderOf("shop", "web", le), orderOf("shop", "api", le), orderOf("shop", "api", le)}, "1 other Certificates have the same names from this issuer: api.", ""},
		{"other namespaces are not named", "web", []acmev1.Order{orderOf("blog", "web", le), orderOf("bank", "vault", le)}, "2 other Certificates have the same names from this issuer (2 in other namespaces)", "vault"},
		{"one that has failed", "web", []acmev1.Order{failed}, "", ""},
		{"requests without a Certificate", "web", []acmev1.Order{orderOf("shop", "", le)}, "", ""},
		{"a request without a Certificate", "", []acmev1.Order{orderOf("shop", "web", le)}, "", ""},
	} {
		own := orderOf("shop", test.certificate, le, "a.example.com")
		got := order.Duplicates(&own, test.same)
		if (test.want == "") != (got == "") || !strings.Contains(got, test.want) || test.not != "" && strings.Contains(got, test.not) {
			t.Errorf("%s: %q", test.reason, got)
		}
	}
}
