// Package promote enforces a tried policy in place of the policy that it replaces.
package promote

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/client/cli/exit"
	"github.com/certplane/certplane/internal/client/cli/policy/answer"
	"github.com/certplane/certplane/internal/client/cli/print"
)

// Config names the policy to promote.
type Config struct {
	API  client.Client
	Name string
	// Yes skips the confirmation.
	Yes bool
	// Terminal asks for the confirmation; nil without one.
	Terminal io.Reader
	Stdout   io.Writer
}

// promotion is a policy with its target: the policy that it replaces, or itself.
type promotion struct {
	tried, target *v1alpha1.CertificatePolicy
}

// Run shows the findings of the trial, and promotes the policy. Its error is an answer.No
// if the promotion is not confirmed.
func Run(ctx context.Context, cfg Config) error {
	p, err := read(ctx, cfg)
	if err != nil {
		return err
	}
	fmt.Fprint(cfg.Stdout, p.findings())
	if doubt := p.doubt(); doubt != "" && !cfg.Yes {
		if err := confirm(cfg, doubt); err != nil {
			return err
		}
	}
	return p.apply(ctx, cfg)
}

func read(ctx context.Context, cfg Config) (*promotion, error) {
	tried, err := get(ctx, cfg.API, cfg.Name)
	if err != nil {
		return nil, err
	}
	switch mode := tried.Spec.Mode; mode {
	case v1alpha1.PolicyShadow, v1alpha1.PolicyWarn:
	default:
		return nil, exit.WithNext(fmt.Errorf("spec.mode of the policy %s is %s: only policies in the mode Shadow or Warn can be promoted", tried.Name, mode),
			"To list the modes of all policies: certplane kubectl get certificatepolicies")
	}
	if tried.Spec.Replaces == "" {
		return &promotion{tried, tried}, nil
	}
	target, err := get(ctx, cfg.API, tried.Spec.Replaces)
	if apierrors.IsNotFound(err) {
		return nil, exit.WithNext(fmt.Errorf("spec.replaces of the policy %s is %s, which does not exist", tried.Name, tried.Spec.Replaces),
			"Correct spec.replaces; or remove it, and the policy is enforced under its own name.")
	}
	return &promotion{tried, target}, err
}

func get(ctx context.Context, api client.Client, name string) (*v1alpha1.CertificatePolicy, error) {
	p := &v1alpha1.CertificatePolicy{}
	if err := api.Get(ctx, client.ObjectKey{Name: name}, p); err != nil {
		return nil, exit.Advise("reading the policy "+name, err)
	}
	return p, nil
}

// findings returns the counts in status.shadow.
func (p *promotion) findings() string {
	page := &print.Page{}
	s := p.tried.Status.Shadow
	if s == nil {
		page.Line(p.tried.Name + ": no request was evaluated yet")
		return page.String()
	}
	since := ""
	if s.Since != nil {
		since = " since " + s.Since.UTC().Format("2006-01-02 15:04:05Z")
	}
	page.Line(fmt.Sprintf("%s: %d requests evaluated%s, %d decided differently", p.tried.Name, s.Evaluated, since, s.Differences))
	var rows [][]string
	for _, sample := range s.Samples {
		rows = append(rows, []string{sample.Request, string(sample.Was) + "→" + string(sample.Would), strings.Join(sample.Violations, ", ")})
	}
	page.Table(rows)
	return page.String()
}

// doubt returns the reason to ask for confirmation, or empty without one.
func (p *promotion) doubt() string {
	s := p.tried.Status.Shadow
	switch {
	case s == nil || s.Evaluated == 0:
		return "no request was evaluated with the policy"
	case p.tried.Status.ObservedGeneration != p.tried.Generation:
		return "the policy has changed since the counts"
	case s.Differences > 0:
		return "decisions will change"
	}
	return ""
}

func confirm(cfg Config, doubt string) error {
	if cfg.Terminal == nil {
		return exit.WithNext(answer.No("not promoted: %s", doubt), "To promote it anyway, add --yes.")
	}
	fmt.Fprintf(cfg.Stdout, "Promote it although %s? [y/N] ", doubt)
	line, _ := bufio.NewReader(cfg.Terminal).ReadString('\n')
	if said := strings.ToLower(strings.TrimSpace(line)); said != "y" && said != "yes" {
		return answer.No("not promoted")
	}
	return nil
}

// apply writes the policy, unless it has changed since it was read, and deletes the tried
// one. In between, both have the same specification.
func (p *promotion) apply(ctx context.Context, cfg Config) error {
	promoted := p.target.DeepCopy()
	promoted.Spec = *p.tried.Spec.DeepCopy()
	promoted.Spec.Mode, promoted.Spec.Replaces = v1alpha1.PolicyEnforce, ""
	if promoted.Spec.Protection == nil {
		promoted.Spec.Protection = p.target.Spec.Protection // who tries another policy does not remove it
	}
	wanted := promoted.Spec.DeepCopy()
	if !equality.Semantic.DeepEqual(promoted.Spec, p.target.Spec) {
		err := cfg.API.Update(ctx, promoted)
		if apierrors.IsConflict(err) {
			return exit.WithNext(fmt.Errorf("the policy %s has changed since it was read, and was not promoted", promoted.Name), "Review the change, and promote the policy again.")
		}
		if err != nil {
			return exit.Advise("writing the policy "+promoted.Name, err)
		}
	}
	if !equality.Semantic.DeepEqual(promoted.Spec, *wanted) {
		return exit.WithNext(answer.No("not promoted yet: this needs several people, and your approval is recorded"),
			"Other users approve by promoting it also. To list missing approvals: certplane policy status")
	}
	if p.target == p.tried {
		fmt.Fprintf(cfg.Stdout, "policy %s is enforced\n", promoted.Name)
		return nil
	}
	fmt.Fprintf(cfg.Stdout, "policy %s has the specification of %s and is enforced\n", promoted.Name, p.tried.Name)
	return p.deleteTried(ctx, cfg)
}

// deleteTried deletes the tried policy, unless it has changed since it was read.
func (p *promotion) deleteTried(ctx context.Context, cfg Config) error {
	if p.tried.Spec.Protection != nil {
		fmt.Fprintf(cfg.Stdout, "policy %s stays and has no effect: it is protected, and can be deleted in the mode Off\n", p.tried.Name)
		return nil
	}
	err := cfg.API.Delete(ctx, p.tried, client.Preconditions{UID: &p.tried.UID})
	if client.IgnoreNotFound(err) != nil {
		return exit.WithNext(exit.Advise("deleting the policy "+p.tried.Name, err),
			"It has no effect. To delete it: "+print.CommandLine("certplane", "kubectl", "delete", "certificatepolicy", p.tried.Name))
	}
	fmt.Fprintf(cfg.Stdout, "policy %s deleted\n", p.tried.Name)
	return nil
}
