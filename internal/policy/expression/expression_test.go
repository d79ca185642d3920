package expression_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/policy/expression"
	"github.com/certplane/certplane/internal/policy/request"
)

func compile(t testing.TB, text string, yields expression.Result) *expression.Expression {
	t.Helper()
	env, err := expression.ForPolicies()
	if err != nil {
		t.Fatal(err)
	}
	e, err := env.Compile(text, yields)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return e
}

// view is a CertificateRequest with many labels, of a namespace with many.
func view() expression.View {
	labels := map[string]string{}
	for i := range 12 {
		labels[fmt.Sprintf("label-%02d", i)] = fmt.Sprint(i)
	}
	return expression.View{
		Request: request.Request{
			Kind: v1alpha1.CertificateRequests, Name: "web-7", Namespace: "shop", UID: "u1", Created: time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC),
			Labels: labels, ObjectAnnotations: labels, SignerName: "clusterissuers.cert-manager.io/internal", Usages: []string{"signing", "server auth"},
		},
		Requester: request.Requester{Username: "alice", Groups: []string{"a", "b"}, Extra: map[string][]string{"x": {"1"}, "y": {"2"}, "z": {"3"}}},
		PodSpec:   true,
		Policies:  &expression.PolicyView{Namespace: &metav1.ObjectMeta{Name: "shop", Labels: labels}, SignerName: "clusterissuers.cert-manager.io/internal"},
	}
}

// podView is the request of a pod whose specification has maps in lists.
func podView() expression.View {
	v := view()
	selector := map[string]string{"a": "1", "b": "2", "c": "3", "d": "4", "e": "5", "f": "6"}
	v.Request.Kind = v1alpha1.PodCertificateRequests
	v.Request.Pod = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-0"}, Spec: corev1.PodSpec{
		NodeSelector: selector,
		TopologySpreadConstraints: []corev1.TopologySpreadConstraint{
			{LabelSelector: &metav1.LabelSelector{MatchLabels: selector}},
		},
	}}
	return v
}

// TestOrder: an expression that iterates over a map has the same value and the
// same cost each time.
func TestOrder(t *testing.T) {
	for _, tc := range []struct {
		view       expression.View
		text, want string
	}{
		{view(), "request.labels.map(k, k).join(' ')", "label-00 label-01 label-02 label-03 label-04 label-05 label-06 label-07 label-08 label-09 label-10 label-11"},
		{view(), "namespaceObject.metadata.labels.map(k, namespaceObject.metadata.labels[k]).join(' ')", "0 1 2 3 4 5 6 7 8 9 10 11"},
		{view(), "requester.extra.map(k, requester.extra[k][0]).join(' ')", "1 2 3"},
		{view(), "dyn(request).map(k, k)[0]", "annotations"},
		{view(), "request.metadataAnnotations.exists(k, k == 'label-03') ? 'found' : 'none'", "found"},
		{view(), "request.labels.filter(k, k > 'label-09').join(' ')", "label-10 label-11"},
		{podView(), "pod.spec.nodeSelector.map(k, string(k)).join(' ')", "a b c d e f"},
		{podView(), "(pod.spec.topologySpreadConstraints + []).map(c, c.labelSelector.matchLabels.map(k, string(k)).join(' ')).join(',')", "a b c d e f"},
		{podView(), "pod.spec.topologySpreadConstraints[0].labelSelector.matchLabels.map(k, string(k)).join(' ')", "a b c d e f"},
	} {
		e := compile(t, tc.text, expression.Text)
		cost := uint64(0)
		for range 20 {
			ev := expression.New(tc.view, "policy")
			got, failed := ev.Text(e)
			if failed != nil || got != tc.want {
				t.Errorf("%s: %q, %v, want %q", tc.text, got, failed, tc.want)
			}
			if cost == 0 {
				cost = ev.Spent()
			}
			if ev.Spent() != cost {
				t.Errorf("%s costs %d, and then %d", tc.text, cost, ev.Spent())
			}
		}
	}
}

// TestMaps: what is done with maps and lists still works.
func TestMaps(t *testing.T) {
	for _, text := range []string{
		"request.labels['label-03'] == '3'", "request.labels[?'nothing'].orValue('x') == 'x'", "'label-03' in request.labels", "!('x' in request.labels)",
		"request.labels.size() == 12", "request.labels == request.metadataAnnotations", "request.labels == namespaceObject.metadata.labels",
		"has(request.labels)", "!has(request.origin)", "!has(request.expirationSeconds)", "requester.groups == ['a', 'b']", "request.usages.exists(u, u == 'signing')",
		"type(request.labels) == map", "type(requester.groups) == list", "sameNames(['A', 'b'], ['B', 'a', 'a'])", "!sameNames(['a'], ['a', 'b'])",
		"inZone('a.example.com', 'example.com')", "!inZone('badexample.com', 'example.com')", "inZone('*.example.com', 'example.com')", "!inZone('a.example.com.', 'example.com')",
		"underPattern('a/b.c', 'a*c')", "!underPattern('abd', 'a*c')", "request.time == timestamp('2026-11-22T09:00:00Z')",
	} {
		if holds, failed := expression.New(view(), "policy").Bool(compile(t, text, expression.Bool)); failed != nil || !holds {
			t.Errorf("%s: %v, %v", text, holds, failed)
		}
	}
}

// TestAbsent: an expression can ask for what a request does not have, and has
// no value if it does not ask.
func TestAbsent(t *testing.T) {
	for _, variable := range []string{"pod.metadata", "serviceAccount.metadata", "node.metadata", "owner.metadata", "node.hostnames"} {
		asks := compile(t, "has("+variable+")", expression.Bool)
		if holds, failed := expression.New(view(), "policy").Bool(asks); holds || failed != nil {
			t.Errorf("has(%s): %v, %v", variable, holds, failed)
		}
		object, field, _ := strings.Cut(variable, ".")
		if holds, failed := expression.New(view(), "policy").Bool(compile(t, object+".?"+field+".hasValue()", expression.Bool)); holds || failed != nil {
			t.Errorf("%s.?%s: %v, %v", object, field, holds, failed)
		}
		_, failed := expression.New(view(), "policy").Bool(compile(t, variable+" == "+variable, expression.Bool))
		if failed == nil || !strings.Contains(failed.Message, "no such key: "+field+": ask for it first, with has(") {
			t.Errorf("%s: %+v", variable, failed)
		}
	}
	if n, failed := expression.New(view(), "policy").Bool(compile(t, "services.size() == 0", expression.Bool)); !n || failed != nil {
		t.Errorf("services: %v", failed)
	}
	// Signers' expressions are only for kinds that have the variables.
	signers := view()
	signers.Policies = nil
	if _, failed := expression.New(signers, "signer").Bool(compile(t, "has(pod.metadata)", expression.Bool)); failed == nil {
		t.Error("a Signer's expression reads a pod that is not there")
	}
}

// TestUnknown: what needs an unknown fact has no value yet, unless it does not
// matter.
func TestUnknown(t *testing.T) {
	v := view()
	v.Policies.Unknown = map[string]string{"node.addresses": "nodes/n1 status.addresses", "request.origin": "origin", "owner": "the owner"}
	v.Policies.Node = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	for _, tc := range []struct{ text, open string }{
		{"node.addresses.size() > 0", "nodes/n1 status.addresses"},
		{"node.metadata.name == 'n1'", ""},
		{"request.origin == 'Direct'", "origin"},
		{"request.origin == 'Direct' || requester.username == 'alice'", ""},
		{"requester.username == 'alice' || request.origin == 'Direct'", ""},
		{"request.origin == 'Direct' && owner.metadata.name == 'x'", "origin, the owner"},
		{"has(owner.metadata)", "the owner"},
		{"has(request.origin)", "origin"},
		{"request.origin == 'Direct' ? true : true", "origin"},
		{"node.addresses.all(a, a.address != '') || true", ""},
	} {
		holds, failed := expression.New(v, "policy").Bool(compile(t, tc.text, expression.Bool))
		got := ""
		if failed != nil {
			got = strings.Join(failed.Open, ", ")
		}
		if got != tc.open || tc.open == "" && !holds {
			t.Errorf("%s: %v, %+v, want %q", tc.text, holds, failed, tc.open)
		}
	}
}

// TestTooDear: an expression that is too dear ends and fails, and after a
// budget is spent none is evaluated any more.
func TestTooDear(t *testing.T) {
	const ten = "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]"
	dear := compile(t, ten+".all(a, !'"+strings.Repeat("x", 1000)+"'.matches('"+strings.Repeat("y", 1000)+"'))", expression.Bool)
	tooDear := compile(t, ten+".all(a, "+ten+".all(b, !'"+strings.Repeat("x", 1000)+"'.matches('"+strings.Repeat("y", 1000)+"')))", expression.Bool)
	loops := compile(t, ten+".all(a, "+ten+".all(b, "+ten+".all(c, "+ten+".all(d, "+ten+".all(e, true)))))", expression.Bool)
	cheap := compile(t, "true", expression.Bool)
	ev := expression.New(view(), "policy")
	if _, failed := ev.Bool(dear); failed != nil {
		t.Fatalf("the expression fails on its own: %v", failed.Message)
	}
	one := ev.Spent()
	if one < expression.Budget/50 || one > expression.Limit {
		t.Fatalf("the expression costs %d: the test does not show anything", one)
	}
	evaluations := func(ev *expression.Evaluation, e *expression.Expression) (n int, said string) {
		for range 10_000 {
			if _, failed := ev.Bool(e); failed != nil {
				said = failed.Message
				if strings.Contains(said, "expressions") {
					return n, said
				}
			}
			n++
		}
		return n, said
	}
	ev = expression.New(view(), "policy")
	if n, said := evaluations(ev, dear); n != expression.Budget/int(one) || said != "the policy's expressions cost more than 4000000 for this request: make them cheaper" {
		t.Errorf("%d are evaluated, and then: %s", n, said)
	}
	spent := ev.Spent()
	if _, failed := ev.Bool(cheap); failed == nil || ev.Spent() != spent || spent > expression.Budget+expression.Limit {
		t.Errorf("%v after %d of the budget, %d then", failed, spent, ev.Spent())
	}
	ev.Begin()
	if holds, failed := ev.Bool(cheap); !holds || failed != nil {
		t.Errorf("another policy's expression: %v", failed)
	}
	for range 3 {
		ev.Begin()
		evaluations(ev, dear)
	}
	ev.Begin()
	if _, failed := ev.Bool(cheap); failed == nil || failed.Message != "the expressions of all policies cost more than 10000000 for this request: make them cheaper" {
		t.Errorf("after the budget of all policies: %+v", failed)
	}
	for reason, e := range map[string]*expression.Expression{"cost": tooDear, "loops": loops} {
		ev := expression.New(view(), "policy")
		if n, said := evaluations(ev, e); n > 400 || !strings.Contains(said, "cost more than") {
			t.Errorf("%d expressions of which each fails (%s) are evaluated: %s", n, reason, said)
		}
	}
}

// TestDuration: requests for issuers can name their lifetime in an annotation,
// and expressions see it.
func TestDuration(t *testing.T) {
	v := view()
	v.Request.Kind = v1alpha1.CertificateSigningRequests
	v.Request.Duration = new(time.Hour)
	v.Request.Usages = []string{"server auth"}
	v.Request.ObjectAnnotations = map[string]string{request.AnnotationDuration: "72h"}
	for _, tc := range []struct {
		reason string
		issuer *request.Issuer
		want   string
	}{
		{"an issuer", &request.Issuer{Group: certmanager.Group, Signer: certmanager.Signer{Kind: "ClusterIssuer", Name: "internal"}}, "259200"},
		{"no issuer", nil, "3600"},
	} {
		v.Request.Issuer = tc.issuer
		got, failed := expression.New(v, "policy").Text(compile(t, "string(request.expirationSeconds)", expression.Text))
		if failed != nil || got != tc.want {
			t.Errorf("%s: %s, %v, want %s", tc.reason, got, failed, tc.want)
		}
	}
}

// TestCompile: what does not compile says where and why.
func TestCompile(t *testing.T) {
	env, err := expression.ForPolicies()
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		text   string
		yields expression.Result
		want   string // a part of the error
	}{
		{"request.dnsNames", expression.Bool, "must yield a bool, and yields list(string)"},
		{"request.isCA", expression.Texts, "must yield a list of strings, and yields bool"},
		{"request.dnsNames.size()", expression.Text, "must yield a string, and yields int"},
		{"request.dnsNames ==", expression.Bool, "1:20: Syntax error"},
		{"request.dnsName == 'a'", expression.Bool, "1:8: undefined field 'dnsName'"},
		{"requests.dnsNames", expression.Texts, "1:1: undeclared reference to 'requests'"},
		{"1 + 'a' == 2", expression.Bool, "1:3: found no matching overload for '_+_'"},
		{"true &&\nrequest.nothing", expression.Bool, "2:8: undefined field 'nothing'"},
		{"authorizer.path('/').check('get').allowed()", expression.Bool, "undeclared reference to 'authorizer'"},
		{"now", expression.Text, "undeclared reference to 'now'"},
		{"inZone(request.dnsNames, 'a')", expression.Bool, "found no matching overload for 'inZone'"},
		{"request.dnsNames", expression.Texts, ""},
		{"[]", expression.Texts, ""},
		{"dyn(1)", expression.Text, ""},
	} {
		_, err := env.Compile(tc.text, tc.yields)
		if got := fmt.Sprint(err); tc.want == "" && err != nil || !strings.Contains(got, tc.want) {
			t.Errorf("%q: %v, want %q", tc.text, err, tc.want)
		}
	}
}

// TestResults: a value of another type than it seems at first, or too many or
// too long ones, fail.
func TestResults(t *testing.T) {
	hundreds := "[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17].map(a, [1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16].map(b, string(a * 100 + b))).flatten()"
	for _, tc := range []struct {
		text, want string
	}{
		{"dyn(1)", "yields a int instead of a list of strings"},
		{"[dyn(1)]", "yields a int instead of a string"},
		{hundreds, "yields more than 256 values"},
		{"['" + strings.Repeat("x", 2049) + "'].map(a, a + a)", "yields a value of more than 4096 bytes"},
		{"['a', 'b', 'a']", ""},
	} {
		list, failed := expression.New(view(), "policy").Texts(compile(t, tc.text, expression.Texts))
		switch {
		case tc.want == "" && (failed != nil || strings.Join(list, " ") != "a b"):
			t.Errorf("%s: %v, %v", tc.text, list, failed)
		case tc.want != "" && (failed == nil || !strings.Contains(failed.Message, tc.want)):
			t.Errorf("%s: %v, %+v, want %q", tc.text, list, failed, tc.want)
		}
	}
}

// TestCost: what an expression costs at most is said as far as it can be.
func TestCost(t *testing.T) {
	for text, dear := range map[string]bool{
		"request.dnsNames.size() > 0": false,
		"request.dnsNames.all(n, n.matches('[a-z]+') && inZone(n, 'example.com'))":       false,
		"request.uris.all(u, url(u).getHost() == 'a.example')":                           false,
		"request.dnsNames.map(n, n.lowerAscii()).all(n, n.endsWith('.example.com'))":     false,
		"pod.spec.containers.all(c, c.image.startsWith('a.example/'))":                   false,
		"request.labels.all(k, request.labels[k] == 'x')":                                false,
		"request.ipAddresses.all(i, cidr('10.0.0.0/8').containsIP(i))":                   false,
		"request.dnsNames.all(n, request.dnsNames.exists(m, m == n))":                    true,
		"request.dnsNames.all(n, services.exists(s, n == s.name + '.' + s.namespace))":   true,
		"request.uris.all(u, request.dnsNames.exists(n, u.contains(n)))":                 true,
		"request.dnsNames.all(n, n.matches(request.dnsNames.join('|'))) || request.isCA": true,
	} {
		if cost := compile(t, text, expression.Bool).MaxCost(); (cost > expression.Limit) != dear {
			t.Errorf("%s costs %d", text, cost)
		}
	}
	env, err := expression.ForPolicies()
	if err != nil {
		t.Fatal(err)
	}
	hundred := "[" + strings.Repeat("1, ", 99) + "1]"
	if _, err := env.Compile(hundred+".map(a, "+hundred+".map(b, "+hundred+".map(c, a + b + c))).size() > 0", expression.Bool); err == nil || !strings.Contains(err.Error(), "costs at least") {
		t.Errorf("an expression that is too dear for every request: %v", err)
	}
}

// TestQuickExpressions: the cost of what has no loops and compares texts and numbers
// alone is the largest possible one, and that of all else is counted.
func TestQuickExpressions(t *testing.T) {
	for text, quick := range map[string]bool{
		"request.name == 'web-7' && !request.namespace.startsWith('x')":        true,
		"request.isCA || has(owner.metadata) || requester.username == 'alice'": true,
		"request.labels['label-01'] == request.labels['label-01']":             false, // looks into a map
		"request.usages == ['signing', 'server auth']":                         false, // a list
		"request.labels == request.metadataAnnotations":                        false,
		"request.usages.exists(u, u == 'signing')":                             false,
		"request.name.matches('web-.*')":                                       false,
		"request.name + request.namespace == 'web-7shop'":                      false, // makes a value
		"request.?name == optional.of('web-7')":                                false,
	} {
		e := compile(t, text, expression.Bool)
		ev := expression.New(view(), "policy")
		if holds, failed := ev.Bool(e); failed != nil || !holds {
			t.Errorf("%s: %t, %v", text, holds, failed)
		}
		if counted := ev.Spent() != e.MaxCost(); counted == quick {
			t.Errorf("%s cost %d of at most %d", text, ev.Spent(), e.MaxCost())
		}
	}
}
