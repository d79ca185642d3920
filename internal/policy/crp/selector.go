package crp

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/certplane/certplane/internal/api/approverpolicy"
	"github.com/certplane/certplane/internal/api/certmanager"
)

// selector selects the requests that a policy applies to.
type selector struct {
	issuer []issuerPart
	// names are nil if every namespace matches.
	names *namePatterns
	// labels are nil if every namespace matches.
	labels labels.Selector
	// labelsErr is why labels cannot be used.
	labelsErr error
}

type issuerPart struct {
	part     Part
	of       func(*cmv1.CertificateRequest) string
	pattern  wildcard
	declared string
}

type namePatterns struct {
	patterns []wildcard
	declared []string
}

func compileSelector(declared *approverpolicy.Selector) selector {
	var s selector
	if i := declared.IssuerRef; i != nil {
		s.addIssuer(PartIssuerName, i.Name, func(cr *cmv1.CertificateRequest) string { return cr.Spec.IssuerRef.Name })
		s.addIssuer(PartIssuerKind, i.Kind, func(cr *cmv1.CertificateRequest) string { return certmanager.IssuerKind(cr.Spec.IssuerRef) })
		s.addIssuer(PartIssuerGroup, i.Group, func(cr *cmv1.CertificateRequest) string { return certmanager.IssuerGroup(cr.Spec.IssuerRef) })
	}
	n := declared.Namespace
	if n == nil {
		return s
	}
	if len(n.MatchNames) > 0 {
		s.names = &namePatterns{parseWildcards(n.MatchNames), n.MatchNames}
	}
	if n.MatchLabels != nil {
		s.labels, s.labelsErr = compileLabels(n.MatchLabels)
	}
	return s
}

func (s *selector) addIssuer(part Part, pattern *string, of func(*cmv1.CertificateRequest) string) {
	if pattern != nil {
		s.issuer = append(s.issuer, issuerPart{part: part, of: of, pattern: parseWildcard(*pattern), declared: *pattern})
	}
}

// compileLabels returns a selector that matches nothing if there is an error,
// which is about the first label in the order of the alphabet.
func compileLabels(declared map[string]string) (labels.Selector, error) {
	for _, key := range slices.Sorted(maps.Keys(declared)) {
		one := &metav1.LabelSelector{MatchLabels: map[string]string{key: declared[key]}}
		if _, err := metav1.LabelSelectorAsSelector(one); err != nil {
			return labels.Nothing(), err
		}
	}
	return labels.SelectorFromSet(declared), nil
}

// misses returns the parts that do not match, without the labels.
func (s *selector) misses(cr *cmv1.CertificateRequest) []Miss {
	var all []Miss
	for _, i := range s.issuer {
		if has := i.of(cr); !i.pattern.match(has) {
			all = append(all, Miss{Part: i.part, Message: fmt.Sprintf("the request has %q, the policy is for %q", has, i.declared)})
		}
	}
	if s.names != nil && !matchAny(s.names.patterns, cr.Namespace) {
		all = append(all, Miss{Part: PartNames, Message: fmt.Sprintf("the request is in %q, the policy is for %s", cr.Namespace, quotedList(s.names.declared))})
	}
	return all
}

// missesLabels reports whether the labels of the request's Namespace do not
// match.
func (s *selector) missesLabels(cr *cmv1.CertificateRequest, facts *knownFacts) (*Miss, error) {
	if s.labels == nil {
		return nil, nil
	}
	has, err := facts.namespaceLabels()
	switch {
	case err != nil:
		return nil, fmt.Errorf("getting the labels of namespace %s: %w", cr.Namespace, err)
	case s.labelsErr != nil:
		return nil, fmt.Errorf("reading spec.selector.namespace.matchLabels: %w", s.labelsErr)
	case !s.labels.Matches(labels.Set(has)):
		return &Miss{Part: PartLabels, Message: fmt.Sprintf("the labels of namespace %q are not %s", cr.Namespace, s.labels)}, nil
	}
	return nil, nil
}

func quotedList(texts []string) string {
	quoted := make([]string, 0, len(texts))
	for _, text := range texts {
		quoted = append(quoted, fmt.Sprintf("%q", text))
	}
	return strings.Join(quoted, " or ")
}
