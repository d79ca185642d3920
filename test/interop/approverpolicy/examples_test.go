package approverpolicy

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	policyv1alpha1 "github.com/cert-manager/approver-policy/pkg/apis/policy/v1alpha1"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/certplane/certplane/internal/api/approverpolicy"
	"github.com/certplane/certplane/internal/generated/crds"
)

type policy = approverpolicy.CertificateRequestPolicy

var readyCondition = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue}}

// source returns the folder of approver-policy's module.
func source(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/cert-manager/approver-policy").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// The examples of approver-policy are read, validated and evaluated as there.
func TestExamples(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(source(t), "docs/examples/*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("found %q, %v", files, err)
	}
	webhook := newValidator(t)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) { compareExample(t, webhook, must(os.ReadFile(file))) })
	}
}

func compareExample(t *testing.T, webhook validator, text []byte) {
	var ours policy
	var theirs policyv1alpha1.CertificateRequestPolicy
	ourErr, theirErr := yaml.UnmarshalStrict(text, &ours), yaml.UnmarshalStrict(text, &theirs)
	if (ourErr == nil) != (theirErr == nil) {
		t.Fatalf("ours %v, theirs %v", ourErr, theirErr)
	}
	if ourErr != nil {
		t.Logf("it cannot be read: %v", ourErr)
		return
	}
	if diff := cmp.Diff(convert(t, &ours), theirs, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("read differently: %s", diff)
	}
	ourRefusal, theirRefusal := refusal(&ours), webhook.validate(t, &ours)
	if ourRefusal != theirRefusal {
		t.Errorf("ours %q, theirs %q", ourRefusal, theirRefusal)
	}
	t.Logf("refused: %q", ourRefusal)
	// Such a policy can only be stored where a plugin of this name exists.
	ours.Spec.Plugins = nil
	ours.Status.Conditions = readyCondition
	for i, g := range generators(t) {
		if i == 1_000 {
			break
		}
		s := scenario{policies: []*policy{&ours}, request: g.request()}
		if g.chance(80) && ours.Spec.Selector.IssuerRef.Name != nil {
			s.request.Spec.IssuerRef.Name = strings.ReplaceAll(*ours.Spec.Selector.IssuerRef.Name, "*", "x")
			s.request.Spec.IssuerRef.Kind, s.request.Spec.IssuerRef.Group = "", ""
		}
		compareDecision(t, i, s)
	}
}

// The definition of the kind is that of approver-policy, but for descriptions.
func TestDefinition(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(source(t), "deploy/crds/policy.cert-manager.io_certificaterequestpolicies.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	definition, err := crds.Read(crds.CertificateRequestPolicies)
	if err != nil {
		t.Fatal(err)
	}
	own, err := yaml.Marshal(definition.Object)
	if err != nil {
		t.Fatal(err)
	}
	var theirs, ours any
	if err := errors.Join(yaml.Unmarshal(text, &theirs), yaml.Unmarshal(own, &ours)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(withoutDescriptions(theirs), withoutDescriptions(ours)); diff != "" {
		t.Error(diff)
	}
}

func withoutDescriptions(node any) any {
	switch node := node.(type) {
	case map[string]any:
		kept := map[string]any{}
		for key, value := range node {
			_, isText := value.(string)
			if key == "description" && isText || key == "controller-gen.kubebuilder.io/version" {
				continue
			}
			kept[key] = withoutDescriptions(value)
		}
		return kept
	case []any:
		kept := make([]any, 0, len(node))
		for _, value := range node {
			kept = append(kept, withoutDescriptions(value))
		}
		return kept
	}
	return node
}
