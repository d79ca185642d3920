package policies

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
)

// TestGoverned: which approvals the API server must not let through while the
// webhook does not answer.
func TestGoverned(t *testing.T) {
	const kubelets = "kubernetes.io/kube-apiserver-client-kubelet"
	env, err := cel.NewEnv(cel.Variable("object", cel.DynType), cel.Variable("request", cel.DynType))
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		reason   string
		signers  []string
		requests bool
		// of are signers of CertificateSigningRequests that are governed; others are
		// not.
		of, others []string
	}{
		{"no policy", nil, false, nil, []string{"example.com/web", kubelets}},
		{"a name", []string{"example.com/web"}, false, []string{"example.com/web"}, []string{"example.com/web2", "aexample.com/web", "exampleXcom/web"}},
		{"patterns", []string{"example.com/*", "*.example.org/ca"}, true, []string{"example.com/web", "a.example.org/ca"}, []string{"example.com/a/b", ".example.org/ca", "example.org/ca"}},
		{"all", []string{"*"}, false, []string{"example.com/web"}, []string{kubelets}},
		{"all of Kubernetes", []string{"kubernetes.io/*"}, false, []string{"kubernetes.io/kubelet-serving"}, []string{kubelets}},
		{"kubelets", []string{"kubernetes.io/*", kubelets}, false, []string{kubelets, "kubernetes.io/kubelet-serving"}, nil},
		{"many", slices.Repeat([]string{"example.com/web"}, maxPatterns+1), false, []string{"example.org/any"}, []string{kubelets}},
	} {
		g := governed(tc.signers, tc.requests)
		ast, issues := env.Compile(g.Condition)
		if issues.Err() != nil {
			t.Fatalf("%s: %v", tc.reason, issues.Err())
		}
		program, err := env.Program(ast)
		if err != nil {
			t.Fatal(err)
		}
		is := func(group, signer string) bool {
			value, _, err := program.Eval(map[string]any{
				"object":  map[string]any{"spec": map[string]any{"signerName": signer}},
				"request": map[string]any{"resource": map[string]any{"group": group}},
			})
			return err == nil && value.Value() == true
		}
		for _, signer := range tc.of {
			if !is("certificates.k8s.io", signer) {
				t.Errorf("%s: %s is not governed by %s", tc.reason, signer, g.Condition)
			}
		}
		for _, signer := range tc.others {
			if is("certificates.k8s.io", signer) {
				t.Errorf("%s: %s is governed by %s", tc.reason, signer, g.Condition)
			}
		}
		if tc.requests && !is("cert-manager.io", "") {
			t.Errorf("%s: CertificateRequests are not governed by %s", tc.reason, g.Condition)
		}
		var resources []string
		for _, rule := range g.Rules {
			resources = append(resources, rule.Resources...)
		}
		if got := strings.Join(resources, " "); strings.Contains(got, "certificatesigningrequests") != (len(tc.signers) > 0) || strings.Contains(got, "certificaterequests/status") != tc.requests {
			t.Errorf("%s: the rules are for %s", tc.reason, got)
		}
	}
}
