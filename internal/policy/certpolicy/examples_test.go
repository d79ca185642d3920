package certpolicy_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/certpolicy"
	"github.com/certplane/certplane/internal/policy/quorum"
)

const examples = "../../../deploy/examples/policies"

// example returns the policies and exceptions of files, which must be valid and
// give no warnings.
func example(t *testing.T, files ...string) *certpolicy.Set {
	t.Helper()
	var policies []*certpolicy.Policy
	var exceptions []*certpolicy.Exception
	for _, file := range files {
		data, err := os.ReadFile(filepath.Join(examples, file))
		if err != nil {
			t.Fatal(err)
		}
		for document := range bytes.SplitSeq(data, []byte("\n---\n")) {
			var kind metav1.TypeMeta
			if err := yaml.Unmarshal(document, &kind); err != nil || kind.APIVersion != v1alpha1.GroupVersion.String() {
				t.Fatalf("%s: %v, %v", file, kind, err)
			}
			if kind.Kind == "CertificatePolicyException" {
				exceptions = append(exceptions, exampleException(t, document))
				continue
			}
			var p v1alpha1.CertificatePolicy
			if err := yaml.UnmarshalStrict(document, &p); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			one, errs, warnings := certpolicy.Compile(&p)
			if len(errs)+len(warnings) > 0 {
				t.Errorf("%s: policy %s: %v, %q", file, p.Name, errs.ToAggregate(), warnings)
			}
			policies = append(policies, one)
		}
	}
	return certpolicy.SetOf(policies, exceptions)
}

func exampleException(t *testing.T, document []byte) *certpolicy.Exception {
	t.Helper()
	var x v1alpha1.CertificatePolicyException
	if err := yaml.UnmarshalStrict(document, &x); err != nil {
		t.Fatal(err)
	}
	one, errs := certpolicy.CompileException(&x)
	if len(errs) > 0 {
		t.Errorf("exception %s: %v", x.Name, errs.ToAggregate())
	}
	return one
}

// TestExamples: what the examples permit and refuse.
func TestExamples(t *testing.T) {
	node := func(a *asked) {
		kubelet(a)
		a.foreign, a.usages, a.ips = true, []string{"digital signature", "server auth"}, []string{"10.0.0.1"}
		nodeN1(n1Hostname, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: "10.0.0.1"}, corev1.NodeAddress{Type: corev1.NodeExternalIP, Address: "192.0.2.1"})(a)
	}
	spiffe := func(a *asked) {
		a.signer, a.dns, a.uris = "certplane.dev/spiffe", nil, []string{"spiffe://example.org/ns/shop/sa/web"}
		a.namespaceLabels = map[string]string{"mesh.example.com/identity": "enabled"}
	}
	day := 24 * time.Hour
	shop := func(a *asked) { a.duration = 90 * day }
	ca := func(a *asked) {
		a.key, a.dns, a.duration, a.usages = pki.ECDSAP384, nil, 365*day, []string{"cert sign", "crl sign"}
		a.ca, a.constraints = &pki.BasicConstraints{IsCA: true}, &pki.NameConstraints{Critical: true, Permitted: pki.NameTrees{DNSDomains: []string{"example.com"}}}
	}
	vote := func(user, group string) quorum.Vote {
		return quorum.Vote{Username: user, Groups: []string{group}, Time: now.Add(-time.Hour)}
	}
	voted := func(votes ...quorum.Vote) func(*asked) { return func(a *asked) { a.votes = votes } }
	late := func(a *asked) { a.created = now.Add(-time.Hour) }
	tests := []struct {
		reason, files string
		kind          v1alpha1.RequestKind
		ask           []func(*asked)
		want          string
	}{
		{"a kubelet", "kubelet-serving.yaml", csrs, fns(node), "Approve"},
		{"a kubelet with another node's name", "kubelet-serving.yaml", csrs, fns(node, func(a *asked) { a.subject = rdn("O", "system:nodes", "CN", "system:node:n2") }),
			"Deny; kubelet-serving certificate.subject.commonName SubjectNotPermitted subject.commonName=system:node:n2"},
		{"a kubelet with an address in no network", "kubelet-serving.yaml", csrs, fns(node, func(a *asked) { a.ips = []string{"10.0.0.1", "192.0.2.1"} }),
			"Deny; kubelet-serving certificate.names.ip NameNotPermitted ipAddresses[1]=192.0.2.1"},
		{"a kubelet with an address that its Node does not have", "kubelet-serving.yaml", csrs, fns(node, func(a *asked) { a.ips = []string{"10.0.0.2"} }),
			"Deny; kubelet-serving certificate.names.ip.expression NameNotPermitted ipAddresses[0]=10.0.0.2"},
		{"a kubelet whose Node has no addresses yet", "kubelet-serving.yaml", csrs, fns(node, nodeN1()),
			"Wait; kubelet-serving certificate.names.dns.expression wants nodes/n1 status.addresses; kubelet-serving certificate.names.ip.expression wants nodes/n1 status.addresses"},
		{"a kubelet whose Node never has any", "kubelet-serving.yaml", csrs, fns(node, nodeN1(), late),
			"Deny; kubelet-serving certificate.names.dns.expression FactMissing; kubelet-serving certificate.names.ip.expression FactMissing"},
		{"a person", "kubelet-serving.yaml", csrs, fns(node, func(a *asked) { a.user, a.groups = "alice", nil }), "Leave"},

		{"a pod", "spiffe.yaml", pcrs, fns(spiffe), "Approve"},
		{"a pod for two days", "spiffe.yaml", pcrs, fns(spiffe, func(a *asked) { a.duration = 2 * day }), "Approve"},
		{"a pod with another's identity", "spiffe.yaml", pcrs, fns(spiffe, func(a *asked) { a.uris = []string{"spiffe://example.org/ns/ops/sa/web"} }),
			"Deny; spiffe certificate.names.uri NameNotPermitted uris[0]=spiffe://example.org/ns/ops/sa/web"},
		{"a pod without an identity", "spiffe.yaml", pcrs, fns(spiffe, func(a *asked) { a.uris = nil }), "Deny; spiffe certificate.names.uri.required NameRequired uris"},
		{"a pod in a namespace without the label", "spiffe.yaml", pcrs, fns(spiffe, func(a *asked) { a.namespaceLabels = nil }), "Deny; spiffe-rest effect NotAllowed"},
		{"a pod in kube-system", "spiffe.yaml", pcrs, fns(spiffe, func(a *asked) {
			a.namespace = "kube-system"
			a.uris = []string{"spiffe://example.org/ns/kube-system/sa/web"}
		}), "Deny; spiffe-rest effect NotAllowed"},
		{"a person who asks for an identity", "spiffe.yaml", csrs, fns(spiffe), "Deny; spiffe-rest effect NotAllowed"},

		{"a name of the shop", "web.yaml", crs, fns(shop), "Approve"},
		{"a name of the shop, by a service account's CertificateSigningRequest", "web.yaml", csrs, fns(shop, func(a *asked) {
			a.signer, a.user = "clusterissuers.cert-manager.io/internal", "system:serviceaccount:shop-eu:web"
		}), "Approve"},
		{"a foreign name", "web.yaml", crs, fns(shop, func(a *asked) { a.dns = append(a.dns, "www.example.org") }), "Deny; web-shop certificate.names.dns NameNotPermitted dnsNames[1]=www.example.org"},
		{"a name that is excluded", "web.yaml", crs, fns(shop, func(a *asked) { a.dns = []string{"pay.shop.example.com"} }), "Deny; web-shop certificate.names.dns.excluded NameNotPermitted dnsNames[0]=pay.shop.example.com"},
		{"a weak key", "web.yaml", crs, fns(shop, func(a *asked) { a.key = pki.RSA2048 }),
			"Deny; guardrails certificate.keys UnsupportedKeyType key=RSA 2048; web-shop certificate.keys UnsupportedKeyType key=RSA 2048"},
		{"a name of developers", "web.yaml", crs, fns(shop, func(a *asked) { a.dns = []string{"a.dev.example.com"} }),
			"Deny; guardrails rules[no-dev-names] RuleViolated dnsNames; web-shop certificate.names.dns NameNotPermitted dnsNames[0]=a.dev.example.com"},
		{"another namespace", "web.yaml", crs, fns(shop, func(a *asked) { a.namespace = "ops" }), "Leave"},
		{"no lifetime", "web.yaml", crs, fns(func(a *asked) { a.noLife = true }), "Approve"},

		{"a name under an exception", "web.yaml exception.yaml", crs, fns(shop, func(a *asked) { a.dns = append(a.dns, "www.oldshop.example") }),
			"Approve; (web-shop certificate.names.dns NameNotPermitted dnsNames[1]=www.oldshop.example by old-shop)"},
		{"another name beside an exception", "web.yaml exception.yaml", crs, fns(shop, func(a *asked) { a.dns = []string{"pay.oldshop.example"} }),
			"Deny; web-shop certificate.names.dns NameNotPermitted dnsNames[0]=pay.oldshop.example"},

		{"a CA", "intermediate-ca.yaml", csrs, fns(ca), "NeedPeople"},
		{"a CA, approved by one", "intermediate-ca.yaml", csrs, fns(ca, voted(vote("alice2", "pki-officers"))), "NeedPeople"},
		{"a CA, approved by two of one group", "intermediate-ca.yaml", csrs, fns(ca, voted(vote("ann", "pki-officers"), vote("bob", "pki-officers"))), "NeedPeople"},
		{"a CA, approved by two", "intermediate-ca.yaml", csrs, fns(ca, voted(vote("ann", "pki-officers"), vote("bob", "security"))), "Approve"},
		{"a CA, approved by its requester", "intermediate-ca.yaml", csrs, fns(ca, voted(vote("alice", "pki-officers"), vote("bob", "security"))), "NeedPeople"},
		{"a CA below a CA", "intermediate-ca.yaml", csrs, fns(ca, func(a *asked) { a.ca = &pki.BasicConstraints{IsCA: true, MaxPathLen: 1} }),
			"Deny; intermediate-ca certificate.authority.maxPathLength CertificateAuthorityNotPermitted maxPathLength=1"},
		{"a CA for other names", "intermediate-ca.yaml", csrs, fns(ca, func(a *asked) {
			a.constraints = &pki.NameConstraints{Critical: true, Permitted: pki.NameTrees{DNSDomains: []string{"example.org"}}}
		}), "Deny; intermediate-ca certificate.authority.permitted.dns CertificateAuthorityNotPermitted nameConstraints.permitted.dns=example.org"},
		{"no CA", "intermediate-ca.yaml", csrs, nil, "Leave"},

		{"one certificate more than a day's quota", "quotas.yaml", crs, fns(func(a *asked) {
			a.used = map[string]certpolicy.QuotaUse{"requester": {Used: 100, Again: now.Add(time.Hour)}, "namespace": {Used: 999}}
		}), "Deny; internal-quotas quotas[requester] QuotaExceeded=alice"},
		{"the last one of it", "quotas.yaml", crs, fns(func(a *asked) { a.used = map[string]certpolicy.QuotaUse{"requester": {Used: 99}} }), "Leave"},
	}
	tried := map[string]bool{}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			files := strings.Fields(tc.files)
			for _, file := range files {
				tried[file] = true
			}
			if got := brief(decide(t, example(t, files...), of(tc.kind).but(tc.ask...))); got != tc.want {
				t.Errorf("%s, want %s", got, tc.want)
			}
		})
	}
	files, err := os.ReadDir(examples)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if !tried[file.Name()] {
			t.Errorf("nobody tries %s", file.Name())
		}
	}
}
