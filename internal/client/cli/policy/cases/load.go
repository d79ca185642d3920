// Package cases runs the tests of policies.
package cases

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/client/cli/policy/ask"
	"github.com/certplane/certplane/internal/client/cli/policy/facts"
	"github.com/certplane/certplane/internal/client/cli/policy/manifest"
	"github.com/certplane/certplane/internal/client/cli/policy/policyset"
	"github.com/certplane/certplane/internal/policy/certpolicy"
	"github.com/certplane/certplane/internal/policy/quorum"
	"github.com/certplane/certplane/internal/policy/request"
)

// file is a file with tests.
type file struct {
	name  string
	data  []byte
	tests []*test
}

// test is a PolicyTest.
type test struct {
	document manifest.Document
	spec     v1alpha1.PolicyTest
	dir      string
	policies *policyset.Files
	facts    *facts.Store
	now      time.Time
	cases    []*testCase
}

// testCase is one case, or one combination of a matrix.
type testCase struct {
	test  *test
	index int
	name  string
	spec  *v1alpha1.PolicyTestCase
	// input is created when the case runs for the first time.
	input *prepared
}

// load reads the files with tests under path.
func load(path string) ([]*file, error) {
	names, err := manifest.Files(path)
	if err != nil {
		return nil, err
	}
	var files []*file
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		if len(names) > 1 && !bytes.Contains(data, []byte(policyset.TestKind)) {
			continue // another kind of object
		}
		f, err := loadFile(name, data)
		if err != nil {
			return nil, err
		}
		if len(f.tests) > 0 {
			files = append(files, f)
		}
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("found no %s of %s in %s", policyset.TestKind, v1alpha1.GroupVersion, path)
	}
	return files, nil
}

func loadFile(name string, data []byte) (*file, error) {
	documents, err := manifest.Parse(name, data)
	if err != nil {
		return nil, err
	}
	f := &file{name: name, data: data}
	for _, d := range documents {
		if d.Kind != policyset.TestKind {
			continue
		}
		if d.APIVersion != v1alpha1.GroupVersion.String() {
			return nil, d.Errorf("apiVersion", "apiVersion: %q must be %q", d.APIVersion, v1alpha1.GroupVersion)
		}
		t, err := newTest(d)
		if err != nil {
			return nil, err
		}
		f.tests = append(f.tests, t)
	}
	return f, nil
}

// defaultTime is the time of tests that name none.
var defaultTime = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func newTest(d manifest.Document) (*test, error) {
	t := &test{document: d, dir: filepath.Dir(d.File), now: defaultTime}
	if err := d.Decode(&t.spec); err != nil {
		return nil, err
	}
	if t.spec.Time != nil {
		t.now = t.spec.Time.UTC()
	}
	if err := t.readPolicies(); err != nil {
		return nil, err
	}
	if err := t.readFacts(); err != nil {
		return nil, err
	}
	return t, t.expand()
}

func (t *test) readPolicies() error {
	if len(t.spec.Policies) == 0 {
		return t.document.Errorf("policies", "policies: must name the files with policies")
	}
	paths, err := t.paths("policies", t.spec.Policies)
	if err != nil {
		return err
	}
	if t.policies, err = policyset.Read(paths...); err != nil {
		return t.document.Errorf("policies", "policies: %v", err)
	}
	if err := t.policies.Err(); err != nil {
		return fmt.Errorf("the policies are not valid:\n%w", err)
	}
	if len(t.policies.Policies) == 0 {
		return t.document.Errorf("policies", "policies: there are none in %s", strings.Join(t.spec.Policies, ", "))
	}
	return nil
}

func (t *test) readFacts() error {
	paths, err := t.paths("facts", t.spec.Facts)
	if err != nil {
		return err
	}
	var documents []manifest.Document
	for _, path := range paths {
		more, err := manifest.Read(path)
		if err != nil {
			return err
		}
		documents = append(documents, more...)
	}
	t.facts, err = facts.NewStore(documents)
	return err
}

// paths returns the files that patterns name, relative to the file of the test.
func (t *test) paths(field string, patterns []string) ([]string, error) {
	var all []string
	for i, pattern := range patterns {
		path := fmt.Sprintf("%s[%d]", field, i)
		found, err := filepath.Glob(t.path(pattern))
		switch {
		case err != nil:
			return nil, t.document.Errorf(path, "%s: %q: %v", path, pattern, err)
		case len(found) == 0:
			return nil, t.document.Errorf(path, "%s: the file %q does not exist", path, pattern)
		}
		all = append(all, found...)
	}
	return all, nil
}

func (t *test) path(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(t.dir, name)
}

// expand creates the cases: one for each combination of a matrix.
func (t *test) expand() error {
	seen := map[string]bool{}
	for i := range t.spec.Cases {
		spec, path := &t.spec.Cases[i], fmt.Sprintf("cases[%d]", i)
		switch {
		case spec.Name == "":
			return t.document.Errorf(path, "%s.name: must be given", path)
		case seen[spec.Name]:
			return t.document.Errorf(path+".name", "%s.name: another case is named %q", path, spec.Name)
		case spec.Ask == nil && spec.Request == "":
			return t.document.Errorf(path, "%s: either ask or request must be given", path)
		}
		seen[spec.Name] = true
		if err := t.checkQuotas(spec.Quotas); err != nil {
			return t.document.Errorf(path+".quotas", "%s.quotas: %v", path, err)
		}
		if err := checkExpectation(&spec.Expect); err != nil {
			return t.document.Errorf(path+".expect", "%s.expect: %v", path, err)
		}
		combinations, err := combine(spec)
		if err != nil {
			return t.document.Errorf(path+".matrix", "%s.matrix: %v", path, err)
		}
		for _, c := range combinations {
			t.cases = append(t.cases, &testCase{test: t, index: i, name: spec.Name + c.name, spec: c.spec})
		}
	}
	if len(t.cases) == 0 {
		return t.document.Errorf("cases", "cases: there are none")
	}
	return nil
}

// combination is a case with the values of one combination of its matrix.
type combination struct {
	name string
	spec *v1alpha1.PolicyTestCase
}

// combine returns the combinations of a matrix, in the order of its keys and
// values.
func combine(spec *v1alpha1.PolicyTestCase) ([]combination, error) {
	values := []map[string]json.RawMessage{{}}
	for _, key := range slices.Sorted(maps.Keys(spec.Matrix)) {
		if len(spec.Matrix[key]) == 0 {
			return nil, fmt.Errorf("%s has no values", key)
		}
		var more []map[string]json.RawMessage
		for _, one := range values {
			for _, value := range spec.Matrix[key] {
				next := maps.Clone(one)
				next[key] = value
				more = append(more, next)
			}
		}
		values = more
	}
	var all []combination
	for _, one := range values {
		c, err := withValues(spec, one)
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	return all, nil
}

// withValues returns a case in which values replace fields of ask.
func withValues(spec *v1alpha1.PolicyTestCase, values map[string]json.RawMessage) (combination, error) {
	if len(values) == 0 {
		return combination{spec: spec}, nil
	}
	text, err := json.Marshal(values)
	if err != nil {
		return combination{}, err
	}
	c := combination{spec: spec.DeepCopy()}
	if c.spec.Ask == nil {
		c.spec.Ask = &v1alpha1.PolicyTestRequest{}
	}
	for key := range values {
		setZero(c.spec.Ask, key)
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(c.spec.Ask); err != nil {
		return combination{}, fmt.Errorf("its keys must be fields of ask: %w", err)
	}
	var names []string
	for _, key := range slices.Sorted(maps.Keys(values)) {
		names = append(names, key+"="+strings.Trim(string(values[key]), `"`))
	}
	c.name = " [" + strings.Join(names, " ") + "]"
	return c, nil
}

// input returns the input of the decision on the case. Its facts depend on the policies.
func (c *testCase) prepare(keys *ask.Keys) (*prepared, error) {
	if c.input != nil {
		return c.input, nil
	}
	maker := &ask.Maker{Facts: c.test.facts, Now: c.test.now, Keys: keys}
	p, err := c.asked(maker)
	if err != nil {
		return nil, err
	}
	p.in.Stage, p.in.Request, p.in.Time, p.in.Patience = v1alpha1.StageCheck, p.asked.Request, c.test.now, patience
	p.in.Facts.Signer = certpolicy.OwnSigner(c.spec.Ask != nil && c.spec.Ask.OwnSigner)
	if p.in.Votes, err = c.test.votes(c.spec.Votes, 0); err != nil {
		return nil, err
	}
	if p.earlier, err = c.earlier(p.in.Request.Kind); err != nil {
		return nil, fmt.Errorf("renews.%w", err)
	}
	c.input = p
	return p, nil
}

// patience is the time limit of a server with the default configuration.
const patience = 2 * time.Minute

func (c *testCase) asked(maker *ask.Maker) (*prepared, error) {
	if c.spec.Request == "" {
		asked, err := maker.Request(c.spec.Ask)
		return &prepared{asked: asked}, err
	}
	name := c.test.path(c.spec.Request)
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("request: %w", err)
	}
	asked, err := maker.File(name, data, c.spec.Ask)
	return &prepared{asked: asked}, err
}

// override returns the policies that a vote overrides, by the access that the test lists;
// nil if none.
func (t *test) override(who request.Requester, why string) *quorum.Override {
	if why == "" {
		return nil
	}
	o := &quorum.Override{Why: why}
	for _, p := range t.policies.Policies {
		may := certpolicy.Access{Verb: "override", Group: v1alpha1.GroupName, Resource: "certificatepolicies", Name: p.Object.Name}
		if allowed, _ := t.access(context.Background(), who, may); allowed { // it returns no errors
			o.Policies = append(o.Policies, p.Object.Name)
		}
	}
	return o
}

// access permits the access that the test lists, and denies all other access.
func (t *test) access(_ context.Context, who request.Requester, what certpolicy.Access) (bool, error) {
	return slices.ContainsFunc(t.spec.Access, func(a v1alpha1.PolicyTestAccess) bool {
		group, resource := a.Group, a.Resource
		if resource == "" {
			group, resource = v1alpha1.GroupName, "certificatepolicies"
		}
		return (a.User == "" || a.User == who.Username) && (a.UserGroup == "" || slices.Contains(who.Groups, a.UserGroup)) &&
			a.Verb == what.Verb && group == what.Group && resource == what.Resource && a.Subresource == what.Subresource &&
			(a.Name == "" || a.Name == what.Name) && (a.Namespace == "" || a.Namespace == what.Namespace)
	}), nil
}
