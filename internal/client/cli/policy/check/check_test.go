package check_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/client/cli/policy/answer"
	"github.com/certplane/certplane/internal/client/cli/policy/check"
	"github.com/certplane/certplane/internal/client/cli/policy/facts"
	"github.com/certplane/certplane/internal/client/cli/policy/manifest"
	"github.com/certplane/certplane/internal/client/cli/policy/requests"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/certpolicy"
	"github.com/certplane/certplane/internal/policy/request"
)

// file writes a request for a DNS name.
func file(t *testing.T, name string) string {
	t.Helper()
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	data, err := pki.NewRequest(pki.Subject{DNSNames: []string{name}}, key)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), name+".csr")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// policies are an Allow for example.com, and a Limit that needs to know what
// users may do for names in example.net.
func policies() *certpolicy.Set {
	allow := &v1alpha1.CertificatePolicy{ObjectMeta: metav1.ObjectMeta{Name: "allow"}, Spec: v1alpha1.CertificatePolicySpec{
		Effect: v1alpha1.PolicyAllow, Match: v1alpha1.PolicyMatch{Signers: []string{"*"}},
		Certificate: &v1alpha1.CertificateConditions{
			Names:    &v1alpha1.NameConditions{DNS: &v1alpha1.DNSConditions{Zones: []string{"example.com", "example.net"}}},
			Usages:   &v1alpha1.UsageConditions{Allowed: []string{"server auth"}},
			Lifetime: &v1alpha1.LifetimeConditions{Max: &metav1.Duration{Duration: time.Hour}},
		},
	}}
	limit := &v1alpha1.CertificatePolicy{ObjectMeta: metav1.ObjectMeta{Name: "limit"}, Spec: v1alpha1.CertificatePolicySpec{
		Effect: v1alpha1.PolicyLimit, Match: v1alpha1.PolicyMatch{Signers: []string{"*"}, Conditions: []v1alpha1.MatchCondition{{Name: "net", Expression: "request.dnsNames.exists(n, inZone(n, 'example.net'))"}}},
		Rules: []v1alpha1.PolicyRule{{Name: "team", Expression: "namespaceObject.metadata.labels.team == 'net'"}},
	}}
	return certpolicy.NewSet([]*v1alpha1.CertificatePolicy{allow, limit}, nil)
}

func run(t *testing.T, output string, own bool, files ...string) (string, error) {
	t.Helper()
	store, err := facts.NewStore(nil)
	if err != nil {
		t.Fatal(err)
	}
	alice := request.User("system:serviceaccount:shop:sa")
	var out bytes.Buffer
	err = check.Run(context.Background(), check.Config{
		Files: files, Stdin: strings.NewReader("kind: x"), Set: policies(), Facts: &facts.Finder{Objects: store, Access: store.Access},
		Options: requests.Options{Signer: "a.io/b", As: &alice, Usages: []string{"server auth"}}, OwnSigner: own,
		Now: time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC), Output: output, Stdout: &out,
	})
	return out.String(), err
}

// Of several requests, one that is denied counts most, then one of which it is
// not known.
func TestVerdict(t *testing.T) {
	good, bad, open := file(t, "www.example.com"), file(t, "www.example.org"), file(t, "www.example.net")
	for _, tt := range []struct {
		reason string
		files  []string
		want   string
		no     bool
	}{
		{"it would be approved", []string{good}, "", false},
		{"denied", []string{bad}, "the policies deny the request", true},
		{"not known", []string{open}, "the decision of the policies on the request is unknown", false},
		{"all of them", []string{good, open, bad}, "the policies deny 1 of 3 requests", true},
		{"not known, and good", []string{good, open}, "the decision of the policies on 1 of 2 requests is unknown", false},
		{"a file that is not there", []string{bad, "none"}, "open none: no such file or directory", false},
		{"the standard input", []string{"-"}, "standard input:1: apiVersion is missing", false},
	} {
		output, err := run(t, "", true, tt.files...)
		text := ""
		if err != nil {
			text = err.Error()
		}
		if text != tt.want || answer.IsNo(err) != tt.no {
			t.Errorf("%s: %v", tt.reason, err)
		}
		if len(tt.files) > 1 && tt.no && !strings.Contains(output, bad+" CertificateSigningRequest www.example.org: Deny") {
			t.Errorf("%s: it does not say which request:\n%s", tt.reason, output)
		}
		if tt.files[len(tt.files)-1] == "none" && output != "" {
			t.Errorf("%s: something was written before all was read:\n%s", tt.reason, output)
		}
	}
}

// A signer of certplane keeps the lifetimes of policies for requests that name
// none; nobody holds others to them.
func TestOwnSigner(t *testing.T) {
	good := file(t, "www.example.com")
	if _, err := run(t, "", true, good); err != nil {
		t.Error(err)
	}
	if output, err := run(t, "", false, good); !answer.IsNo(err) || !strings.Contains(output, "certificate.lifetime.max") {
		t.Errorf("%v\n%s", err, output)
	}
}

func TestFormats(t *testing.T) {
	files := []string{file(t, "www.example.com"), file(t, "www.example.org")}
	output, _ := run(t, "json", true, files...)
	decoder, n := json.NewDecoder(strings.NewReader(output)), 0
	for ; ; n++ {
		d := &v1alpha1.PolicyDecision{}
		if err := decoder.Decode(d); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if d.Kind != "PolicyDecision" || d.Stage != v1alpha1.StageCheck || d.Request.Digest == "" {
			t.Errorf("%+v", d)
		}
	}
	if n != 2 {
		t.Errorf("%d decisions", n)
	}
	if output, _ := run(t, "yaml", true, files...); strings.Count(output, "\n---\n") != 1 || !strings.Contains(output, "outcome: Approve\n") {
		t.Errorf("as YAML:\n%s", output)
	}
}

// A kubelet's request for its client certificate, which a DenyRest policy matches, is
// decided by what the requester may do, as by the server.
func TestKubelet(t *testing.T) {
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	data, err := pki.NewRequest(pki.Subject{CommonName: "system:node:n1", Organizations: []string{"system:nodes"}}, key)
	if err != nil {
		t.Fatal(err)
	}
	const signer = "kubernetes.io/kube-apiserver-client-kubelet"
	rest := &v1alpha1.CertificatePolicy{ObjectMeta: metav1.ObjectMeta{Name: "rest"}, Spec: v1alpha1.CertificatePolicySpec{
		Effect: v1alpha1.PolicyDenyRest, Match: v1alpha1.PolicyMatch{Signers: []string{signer}},
	}}
	joining := request.User("system:bootstrap:abcdef")
	for facts, want := range map[string]string{
		"allowed: true":  "Approve: certificate policy builtin:nodeclient\n",
		"allowed: false": "Deny (NotAllowed): certificate policy rest: no Allow policy is about this request\n",
		"":               "Wait (FactMissing): certificate policy rest: not known yet: whether a built-in policy allows the request\n",
	} {
		var out bytes.Buffer
		_ = check.Run(t.Context(), check.Config{
			Files: []string{"-"}, Stdin: bytes.NewReader(data), Set: certpolicy.NewSet([]*v1alpha1.CertificatePolicy{rest}, nil), Facts: mayJoin(t, facts),
			Options: requests.Options{Signer: signer, As: &joining, Usages: []string{"digital signature", "client auth"}}, Now: time.Now(), Stdout: &out,
		})
		if !strings.HasPrefix(out.String(), want) {
			t.Errorf("%q: %s, want %s", facts, out.String(), want)
		}
	}
}

// mayJoin has what is known of the right to client certificates of kubelets.
func mayJoin(t *testing.T, status string) facts.Source {
	t.Helper()
	text := ""
	if status != "" {
		text = `{apiVersion: authorization.k8s.io/v1, kind: SubjectAccessReview, status: {` + status + `},
  spec: {user: "system:bootstrap:abcdef", resourceAttributes: {verb: create, group: certificates.k8s.io, resource: certificatesigningrequests, subresource: nodeclient}}}`
	}
	documents, err := manifest.Parse("facts.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	store, err := facts.NewStore(documents)
	if err != nil {
		t.Fatal(err)
	}
	return &facts.Finder{Objects: store, Access: store.Access}
}
