// Package policyset reads certificate policies and their exceptions from files.
package policyset

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/client/cli/policy/manifest"
	"github.com/certplane/certplane/internal/policy/certpolicy"
)

// The kinds in files of policies.
const (
	PolicyKind    = "CertificatePolicy"
	ExceptionKind = "CertificatePolicyException"
	SignerKind    = "Signer"
	TestKind      = "PolicyTest"
)

// Problem is a mistake in a file. With a warning, the policies can be used.
type Problem struct {
	*manifest.Error
	Warning bool
}

// Policy is a policy of a file.
type Policy struct {
	Document manifest.Document
	Object   *v1alpha1.CertificatePolicy
	Compiled *certpolicy.Policy
}

// Exception is an exception of a file.
type Exception struct {
	Document manifest.Document
	Object   *v1alpha1.CertificatePolicyException
	Compiled *certpolicy.Exception
}

// Files holds the policies and exceptions in files.
type Files struct {
	Policies   []Policy
	Exceptions []Exception
	// Other are all other objects.
	Other []manifest.Document
	// Problems are sorted by file and line.
	Problems []Problem
}

// Read reads the policies and exceptions of files and folders. It returns an error for a
// file that cannot be read at all; other mistakes are Problems.
func Read(paths ...string) (*Files, error) {
	f := &Files{}
	seen := map[string]bool{}
	for _, path := range paths {
		names, err := manifest.Files(path)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			if seen[name] {
				continue
			}
			seen[name] = true
			if err := f.readFile(name); err != nil {
				return nil, err
			}
		}
	}
	f.checkNames()
	f.checkReferences()
	slices.SortStableFunc(f.Problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line))
	})
	return f, nil
}

func (f *Files) readFile(name string) error {
	documents, err := manifest.Read(name)
	var mistake *manifest.Error
	switch {
	case errors.As(err, &mistake):
		f.Problems = append(f.Problems, Problem{Error: mistake})
		return nil
	case err != nil:
		return err
	}
	for _, d := range documents {
		f.add(d)
	}
	return nil
}

func (f *Files) add(d manifest.Document) {
	switch {
	case d.Group() == v1alpha1.GroupName && d.APIVersion != v1alpha1.GroupVersion.String():
		f.refuse(d.Errorf("apiVersion", "apiVersion: %q must be %q", d.APIVersion, v1alpha1.GroupVersion))
	case d.Group() == v1alpha1.GroupName && d.Kind == PolicyKind:
		f.addPolicy(d)
	case d.Group() == v1alpha1.GroupName && d.Kind == ExceptionKind:
		f.addException(d)
	case d.Group() == v1alpha1.GroupName && d.Kind != SignerKind && d.Kind != TestKind:
		f.refuse(d.Errorf("kind", "kind: %q is not a kind of %s: use %s or %s", d.Kind, v1alpha1.GroupName, PolicyKind, ExceptionKind))
	case d.Kind == PolicyKind || d.Kind == ExceptionKind:
		f.refuse(d.Errorf("apiVersion", "apiVersion: %q must be %q", d.APIVersion, v1alpha1.GroupVersion))
	case d.Group() == approverPolicyGroup:
		// Without it, the answers would be wrong.
		f.refuse(d.Errorf("kind", "kind: policies of approver-policy (%s) are not evaluated here: omit the file", approverPolicyGroup))
	default:
		f.Other = append(f.Other, d)
	}
}

const approverPolicyGroup = "policy.cert-manager.io"

func (f *Files) refuse(mistakes ...*manifest.Error) {
	for _, one := range mistakes {
		f.Problems = append(f.Problems, Problem{Error: one})
	}
}

// refuseFields reports the mistakes in fields of an object. It reports each field once,
// and skips names that are the key of their item.
func (f *Files) refuseFields(d manifest.Document, seen map[string]bool, errs field.ErrorList) {
	for _, err := range errs {
		about := err.Field
		if err.Type == field.ErrorTypeDuplicate {
			about = strings.TrimSuffix(about, ".name")
		}
		if seen[about] {
			continue
		}
		seen[about] = true
		f.refuse(d.Errorf(err.Field, "%s", err.Error()))
	}
}

// decode decodes an object of this group like the API would store it. It reports whether
// the object can be compiled.
func (f *Files) decode(d manifest.Document, plural string, into any) (seen map[string]bool, ok bool) {
	seen = map[string]bool{}
	if err := d.Decode(into); err != nil {
		f.refuse(manifest.Mistakes(err)...)
		return nil, false
	}
	if problems := validation.IsDNS1123Subdomain(d.Name); len(problems) > 0 {
		f.refuse(d.Errorf("metadata.name", "metadata.name: %q is not a name: %s", d.Name, problems[0]))
	}
	defaulted, errs := definitions[plural].apply(d.JSON)
	f.refuseFields(d, seen, errs)
	d.JSON = defaulted
	return seen, d.Decode(into) == nil
}

func (f *Files) addPolicy(d manifest.Document) {
	p := &v1alpha1.CertificatePolicy{}
	seen, ok := f.decode(d, "certificatepolicies", p)
	if !ok {
		return
	}
	compiled, errs, warnings := certpolicy.Compile(p)
	f.refuseFields(d, seen, errs)
	for _, warning := range warnings {
		path, _, _ := strings.Cut(warning, ":")
		f.warn(&d, path, "%s", warning)
	}
	f.Policies = append(f.Policies, Policy{d, p, compiled})
}

func (f *Files) addException(d manifest.Document) {
	x := &v1alpha1.CertificatePolicyException{}
	seen, ok := f.decode(d, "certificatepolicyexceptions", x)
	if !ok {
		return
	}
	compiled, errs := certpolicy.CompileException(x)
	f.refuseFields(d, seen, errs)
	f.Exceptions = append(f.Exceptions, Exception{d, x, compiled})
}

func (f *Files) warn(d *manifest.Document, path, format string, args ...any) {
	f.Problems = append(f.Problems, Problem{d.Errorf(path, format, args...), true})
}

// checkNames: two objects of a kind with one name would be one object in an API.
func (f *Files) checkNames() {
	first := map[string]manifest.Document{}
	check := func(d manifest.Document) {
		key := d.Kind + "/" + d.Name
		if other, found := first[key]; found {
			f.refuse(d.Errorf("metadata.name", "metadata.name: another %s is named %q, in %s:%d", d.Kind, d.Name, other.File, other.Line))
			return
		}
		first[key] = d
	}
	for _, p := range f.Policies {
		check(p.Document)
	}
	for _, x := range f.Exceptions {
		check(x.Document)
	}
}

// checkReferences warns of names of missing policies.
func (f *Files) checkReferences() {
	policies := map[string]bool{}
	for _, p := range f.Policies {
		policies[p.Object.Name] = true
	}
	for _, p := range f.Policies {
		if name := p.Object.Spec.Replaces; name != "" && !policies[name] {
			f.warn(&p.Document, "spec.replaces", "spec.replaces: these files contain no policy %q", name)
		}
	}
	for _, x := range f.Exceptions {
		for i, name := range x.Object.Spec.Policies {
			if path := fmt.Sprintf("spec.policies[%d]", i); !policies[name] {
				f.warn(&x.Document, path, "%s: these files contain no policy %q", path, name)
			}
		}
	}
}

// Err returns the mistakes that are not warnings, one per line, or nil without any.
func (f *Files) Err() error {
	var all []error
	for _, p := range f.Problems {
		if !p.Warning {
			all = append(all, p.Error)
		}
	}
	return errors.Join(all...)
}

// Set returns the policies and exceptions as a set, once Err is nil.
func (f *Files) Set() *certpolicy.Set {
	var policies []*certpolicy.Policy
	for _, p := range f.Policies {
		policies = append(policies, p.Compiled)
	}
	var exceptions []*certpolicy.Exception
	for _, x := range f.Exceptions {
		exceptions = append(exceptions, x.Compiled)
	}
	return certpolicy.SetOf(policies, exceptions)
}
