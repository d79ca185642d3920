package convert

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/approverpolicy"
	"github.com/certplane/certplane/internal/client/cli/exit"
	"github.com/certplane/certplane/internal/client/cli/policy/answer"
	"github.com/certplane/certplane/internal/client/cli/policy/facts"
	"github.com/certplane/certplane/internal/client/cli/policy/manifest"
	"github.com/certplane/certplane/internal/client/cli/print"
)

// Config selects the policies to convert.
type Config struct {
	// Files are files and folders with policies. If empty, the policies of API are
	// converted.
	Files []string
	API   client.Reader
	// Verify decides requests by both policies: the requests in the files and folders of
	// Requests, or if empty, the requests of API.
	Verify   bool
	Requests []string
	Facts    *facts.Finder
	Now      time.Time
	// The policies are written to Stdout, the results of Verify to Stderr.
	Stdout, Stderr io.Writer
}

// Run converts policies. Its error is an answer.No if a field has no equivalent, or a
// decision differs.
func Run(ctx context.Context, cfg Config) error {
	declared, err := cfg.read(ctx)
	if err != nil {
		return err
	}
	var converted []*v1alpha1.CertificatePolicy
	lost := 0
	for _, p := range declared {
		c := Policy(p)
		text, err := textOf(p.Name, c)
		if err != nil {
			return err
		}
		if _, err := io.WriteString(cfg.Stdout, text); err != nil {
			return err
		}
		lost += len(c.Lost)
		if c.Policy != nil {
			converted = append(converted, c.Policy)
		}
	}
	if cfg.Verify {
		if err := cfg.verify(ctx, declared, converted); err != nil {
			return err
		}
	}
	if lost > 0 {
		return answer.No("%d fields of the policies have no equivalent: see the comments", lost)
	}
	return nil
}

func (cfg *Config) read(ctx context.Context) ([]*approverpolicy.CertificateRequestPolicy, error) {
	if len(cfg.Files) == 0 {
		return fromAPI(ctx, cfg.API)
	}
	var all []*approverpolicy.CertificateRequestPolicy
	err := eachDocument(cfg.Files, approverpolicy.GroupName, approverpolicy.Kind, func(d *manifest.Document) error {
		p := &approverpolicy.CertificateRequestPolicy{}
		all = append(all, p)
		return d.Decode(p)
	})
	if err == nil && len(all) == 0 {
		err = fmt.Errorf("found no CertificateRequestPolicies in %s", strings.Join(cfg.Files, ", "))
	}
	return all, err
}

// eachDocument calls take for each object of a kind in files and folders.
func eachDocument(paths []string, group, kind string, take func(*manifest.Document) error) error {
	for _, path := range paths {
		files, err := manifest.Files(path)
		if err != nil {
			return err
		}
		for _, name := range files {
			documents, err := manifest.Read(name)
			if err != nil {
				return err
			}
			for i := range documents {
				if d := &documents[i]; d.Group() == group && d.Kind == kind {
					if err := take(d); err != nil {
						return err
					}
				}
			}
		}
	}
	return nil
}

func fromAPI(ctx context.Context, api client.Reader) ([]*approverpolicy.CertificateRequestPolicy, error) {
	list := &approverpolicy.CertificateRequestPolicyList{}
	switch err := api.List(ctx, list); {
	case meta.IsNoMatchError(err):
		return nil, fmt.Errorf("the server has no kind CertificateRequestPolicy of %s: give files with them", approverpolicy.GroupVersion)
	case err != nil:
		return nil, exit.Advise("reading the CertificateRequestPolicies", err)
	}
	var all []*approverpolicy.CertificateRequestPolicy
	for i := range list.Items {
		all = append(all, &list.Items[i])
	}
	return all, nil
}

// textOf returns a policy as YAML, with comments for what was lost.
func textOf(name string, c Converted) (string, error) {
	page := &print.Page{}
	page.Line("---")
	page.Line("# from the CertificateRequestPolicy " + name)
	for _, lost := range c.Lost {
		page.Line("# no equivalent: " + lost)
	}
	if c.Policy == nil {
		page.Line("# not converted")
		return page.String(), nil
	}
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(c.Policy)
	if err != nil {
		return "", fmt.Errorf("encoding the policy %s: %w", name, err)
	}
	delete(object, "status")
	object["metadata"] = map[string]any{"name": name}
	data, err := yaml.Marshal(object)
	if err != nil {
		return "", fmt.Errorf("encoding the policy %s: %w", name, err)
	}
	return page.String() + string(data), nil
}
