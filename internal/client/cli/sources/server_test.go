package sources_test

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/client/cli/sources"
	"github.com/certplane/certplane/internal/client/explain"
)

const objects = `
apiVersion: certplane.dev/v1alpha1
kind: Signer
metadata: {name: both}
spec:
  signerName: corp.example/both
  requests: [CertificateSigningRequest]
  ca: {generated: {}}
  profile:
    names: {dnsNames: request.dnsNames}
    rules:
      - {expression: 'request.dnsNames.all(n, n.endsWith(".corp.example"))', message: only names under corp.example}
    usages: [digital signature, server auth]
---
apiVersion: certplane.dev/v1alpha1
kind: Signer
metadata: {name: hosts}
spec:
  signerName: corp.example/hosts
  requests: [CertificateSigningRequest]
  ca: {generated: {}}
  profile:
    names: {dnsNames: request.dnsNames}
    rules:
      - {expression: 'request.dnsNames.all(n, n.startsWith(requester.username))', message: only your own name}
    usages: [digital signature, server auth]
---
apiVersion: certplane.dev/v1alpha1
kind: CertificatePolicy
metadata: {name: team-a}
spec:
  effect: Allow
  match: {signers: [corp.example/both], requesters: {groups: [team-a]}}
  certificate:
    names: {dns: {zones: [a.corp.example]}}
    usages: {allowed: [digital signature, server auth]}
  approval: {mode: Automatic}
---
apiVersion: certplane.dev/v1alpha1
kind: CertificatePolicy
metadata: {name: two}
spec:
  effect: Limit
  match: {signers: [corp.example/both]}
  certificate: {names: {dns: {excluded: {zones: [secret.corp.example]}}}}
---
apiVersion: certplane.dev/v1alpha1
kind: CertificatePolicy
metadata: {name: by-namespace}
spec:
  effect: Allow
  match: {signers: ["issuers.cert-manager.io/*"]}
  certificate:
    names: {dns: {zones: ["{namespace}.example"]}}
    usages: {allowed: [digital signature, server auth]}
---
apiVersion: certplane.dev/v1alpha1
kind: CertificatePolicy
metadata: {name: rest}
spec:
  effect: DenyRest
  match: {signers: ["issuers.cert-manager.io/*"]}
---
apiVersion: cert-manager.io/v1
kind: Issuer
metadata: {name: ca, namespace: default}
spec: {selfSigned: {}}
---
apiVersion: certplane.dev/v1alpha1
kind: AcmeEndpoint
metadata: {name: corp}
spec:
  accounts: {admission: Open, serviceAccount: {namespace: default, name: corp}}
  identifiers: {dns: {allow: ["*.corp.example"]}}
  profiles: [{name: web, signer: {name: corp.example/both}, usages: [digital signature, server auth]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: approve-both}
rules:
  - {apiGroups: [certificates.k8s.io], resources: [certificatesigningrequests], verbs: [get, list, watch]}
  - {apiGroups: [certificates.k8s.io], resources: [certificatesigningrequests/approval], verbs: [update, patch]}
  - {apiGroups: [certificates.k8s.io], resources: [signers], resourceNames: [corp.example/both], verbs: [approve]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: approve-both}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: approve-both}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: team-b}]
`

// TestFind compares who can get a certificate for a name with what Signers, policies,
// endpoints, issuers and roles of a real server say.
func TestFind(t *testing.T) {
	s := apitest.Start(t)
	admin, err := client.New(s.Admin(t), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for document := range strings.SplitSeq(objects, "---\n") {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
			t.Fatal(err)
		}
		if err := admin.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		reason, name string
		want         []string // lines of the text; with ! they must be missing
	}{
		{"a policy approves for a group, people for others", "www.a.corp.example", []string{
			"Signer both", "requested by Group system:bootstrappers; of these those that CertificatePolicy team-a matches (Group team-a)",
			"approved by automatic: approved by CertificatePolicy team-a", "approved by Group team-b",
			"AcmeEndpoint corp, by signer corp.example/both", "requested by anyone who reaches the server (Open)",
		}},
		{"outside of the policy's zone people approve", "www.corp.example", []string{"Signer both", "approved by Group team-b", "!approved by automatic: approved by CertificatePolicy team-a"}},
		{"a Limit excludes the name, also from the endpoint", "www.secret.corp.example", []string{"!Signer both", "!AcmeEndpoint corp, by signer corp.example/both",
			`Signer both certificate policy two: dnsNames[0] "www.secret.corp.example" is excluded by secret.corp.example`,
			`AcmeEndpoint corp profile web: corp.example/both refuses: certificate policy two: dnsNames[0] "www.secret.corp.example" is excluded by secret.corp.example`}},
		{"the Signer's rule refuses", "www.example.org", []string{"!Signer both", "Signer both only names under corp.example (spec.profile.rules[0])"}},
		{"a rule that reads the requester is not answered", "www.example.org", []string{"Signer hosts", "if its rules hold, which read the requester"}},
		{"a variable of a policy is not answered", "www.default.example", []string{"Issuer default/ca", "if CertificatePolicy by-namespace permits the name for this request"}},
		{"kinds of names that a Signer has not", "10.0.0.1", []string{"Signer both its certificates have no IP addresses", "AcmeEndpoint corp profile web: corp.example/both refuses: its certificates have no IP addresses"}},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			name, err := sources.ParseName(tt.name)
			if err != nil {
				t.Fatal(err)
			}
			api, err := explain.Connect(s.Admin(t))
			if err != nil {
				t.Fatal(err)
			}
			report, err := sources.Find(t.Context(), api, name, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			lines := map[string]bool{}
			for line := range strings.Lines(report.Text()) {
				lines[strings.Join(strings.Fields(line), " ")] = true
			}
			for _, want := range tt.want {
				if missing, isMissing := strings.CutPrefix(want, "!"); lines[missing] == isMissing {
					t.Errorf("%q in:\n%s", want, report.Text())
				}
			}
		})
	}
}

func TestParseName(t *testing.T) {
	for text, valid := range map[string]bool{
		"web.corp.example": true, "*.corp.example": true, "10.0.0.1": true, "2001:db8::1": true, "a@corp.example": true, "spiffe://corp.example/web": true,
		"a..b": false, "": false, "*.*.corp.example": false, "web:443": false, "A <a@corp.example>": false, "a b": false,
	} {
		if _, err := sources.ParseName(text); (err == nil) != valid {
			t.Errorf("%q: %v", text, err)
		}
	}
}
