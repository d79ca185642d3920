package certpolicy

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/expression"
	"github.com/certplane/certplane/internal/policy/names"
)

// matchers select the requests that a policy or an exception applies to.
type matchers struct {
	kinds   []v1alpha1.RequestKind
	signers []names.Glob
	parts   []part
	// requesters is one of parts; nil if all users match.
	requesters func(*evaluation) matched
}

// part is one part of match.
type part struct {
	at    string
	holds func(*evaluation) matched
}

// matched reports whether a part of match, or all of it, holds. The zero value is yes.
type matched struct {
	no bool
	// because is why not, or how an expression failed.
	because string
	// open is the fact that is not known yet.
	open string
	// failed: the expression cannot be evaluated.
	failed bool
}

// matchCompiler compiles the match of a policy or an exception.
type matchCompiler struct{ *compiler }

// matching compiles the match of a policy.
func (c matchCompiler) matching(path *field.Path, s *v1alpha1.CertificatePolicySpec) {
	c.policy.match = c.matchers(path, &s.Match)
	c.policy.match.parts = append(c.policy.match.parts, c.access(path.Child("access"), s.Match.Access)...)
	c.policy.match.parts = append(c.policy.match.parts, c.matchConditions(path.Child("conditions"), s.Match.Conditions)...)
}

// matchers compiles the parts that policies and exceptions share.
func (c matchCompiler) matchers(path *field.Path, m *v1alpha1.PolicyMatch) matchers {
	compiled := matchers{kinds: m.Kinds}
	for i, kind := range m.Kinds {
		oneOf(c.checker, path.Child("kinds").Index(i), kind, v1alpha1.CertificateSigningRequests, v1alpha1.PodCertificateRequests, v1alpha1.CertificateRequests)
	}
	if len(m.Signers) == 0 {
		c.required(path.Child("signers"), `at least one signer must be given; "*" is every signer`)
	}
	for i, text := range m.Signers {
		glob, err := names.ParseSigner(text)
		if err != nil {
			c.invalid(path.Child("signers").Index(i), text, err.Error())
			continue
		}
		compiled.signers = append(compiled.signers, glob)
	}
	if len(m.Origins) > 0 {
		compiled.parts = append(compiled.parts, c.origins(path.Child("origins"), m.Origins))
		checkOrigins(c.checker, path.Child("origins"), m)
	}
	if m.Requesters != nil {
		compiled.requesters = c.requesters(path.Child("requesters"), m.Requesters)
		compiled.parts = append(compiled.parts, part{"match.requesters", compiled.requesters})
	}
	if m.Namespaces != nil {
		compiled.parts = append(compiled.parts, c.namespaces(path.Child("namespaces"), m.Namespaces)...)
	}
	return compiled
}

// originsOf are the origins that requests of a kind can have.
var originsOf = map[v1alpha1.RequestKind][]v1alpha1.RequestOrigin{
	v1alpha1.CertificateSigningRequests: {v1alpha1.OriginDirect, v1alpha1.OriginACME},
	v1alpha1.PodCertificateRequests:     {v1alpha1.OriginDirect},
	v1alpha1.CertificateRequests:        {v1alpha1.OriginDirect, v1alpha1.OriginCertificate, v1alpha1.OriginACME},
}

// possible checks that requests of one of the kinds can have one of the
// origins.
func checkOrigins(c *checker, path *field.Path, m *v1alpha1.PolicyMatch) {
	for kind, origins := range originsOf {
		if len(m.Kinds) > 0 && !slices.Contains(m.Kinds, kind) {
			continue
		}
		if slices.ContainsFunc(m.Origins, func(o v1alpha1.RequestOrigin) bool { return slices.Contains(origins, o) }) {
			return
		}
	}
	if len(c.errs) == 0 { // no unknown kinds or origins
		c.invalid(path, m.Origins, "no request of these kinds has such an origin: Certificate is for CertificateRequests, and pods' requests are Direct")
	}
}

// about reports whether requests of a kind for a signer can match. An empty
// kind stands for any.
func (m *matchers) about(kind v1alpha1.RequestKind, signer string) bool {
	return (kind == "" || len(m.kinds) == 0 || slices.Contains(m.kinds, kind)) && m.forSigner(signer)
}

func (m *matchers) forSigner(signer string) bool {
	return slices.ContainsFunc(m.signers, func(g names.Glob) bool { return g.Match(signer) })
}

func (c matchCompiler) origins(path *field.Path, origins []v1alpha1.RequestOrigin) part {
	for i, origin := range origins {
		oneOf(c.checker, path.Index(i), origin, v1alpha1.OriginDirect, v1alpha1.OriginCertificate, v1alpha1.OriginACME)
	}
	c.policy.needs.Origin = true
	return part{"match.origins", func(e *evaluation) matched {
		origin := e.in.Facts.Origin
		switch {
		case !origin.Known:
			return matched{open: "origin"}
		case !slices.Contains(origins, v1alpha1.RequestOrigin(originText(origin.Value))):
			return matched{no: true, because: "the origin is " + originText(origin.Value)}
		}
		return matched{}
	}}
}

func originText(origin *v1alpha1.RequestOrigin) string {
	if origin == nil {
		return string(v1alpha1.OriginDirect)
	}
	return string(*origin)
}

// who is a list of users.
type who struct {
	users, groups   []names.Glob
	serviceAccounts []names.ServiceAccount
}

func (c matchCompiler) who(path *field.Path, l *v1alpha1.RequesterLists) who {
	var w who
	globs := func(path *field.Path, texts []string) (list []names.Glob) {
		for i, text := range texts {
			glob, err := names.ParseUser(text)
			if err != nil {
				c.invalid(path.Index(i), text, err.Error())
				continue
			}
			if strings.HasPrefix(text, "*") {
				c.warn(path.Index(i), "a name that begins with * matches users of every kind, also service accounts and nodes")
			}
			list = append(list, glob)
		}
		return list
	}
	w.users, w.groups = globs(path.Child("users"), l.Users), globs(path.Child("groups"), l.Groups)
	for i, text := range l.ServiceAccounts {
		account, err := names.ParseServiceAccount(text)
		if err != nil {
			c.invalid(path.Child("serviceAccounts").Index(i), text, err.Error())
			continue
		}
		w.serviceAccounts = append(w.serviceAccounts, account)
	}
	return w
}

func (w *who) empty() bool { return len(w.users)+len(w.groups)+len(w.serviceAccounts) == 0 }

func (w *who) contains(e *evaluation) bool {
	for _, user := range w.users {
		if user.Match(e.requester.Username) {
			return true
		}
	}
	for _, group := range w.groups {
		if slices.ContainsFunc(e.requester.Groups, group.Match) {
			return true
		}
	}
	for _, account := range w.serviceAccounts {
		if e.account.name != "" && account.Match(e.account.namespace, e.account.name) {
			return true
		}
	}
	return false
}

func (c matchCompiler) requesters(path *field.Path, r *v1alpha1.RequesterMatch) func(*evaluation) matched {
	before := len(c.errs)
	included := c.who(path, &r.RequesterLists)
	var excluded who
	if r.Excluded != nil {
		excluded = c.who(path.Child("excluded"), r.Excluded)
	}
	if included.empty() && excluded.empty() && len(c.errs) == before {
		c.required(path, "users, groups, serviceAccounts or excluded must be given")
	}
	return func(e *evaluation) matched {
		switch {
		case !included.empty() && !included.contains(e):
			return matched{no: true, because: quoted(e.requester.Username) + " is not among the requesters"}
		case excluded.contains(e):
			return matched{no: true, because: quoted(e.requester.Username) + " is excluded"}
		}
		return matched{}
	}
}

// namespaces returns the parts for names and labels of namespaces. The cheaper
// is first.
func (c matchCompiler) namespaces(path *field.Path, n *v1alpha1.NamespaceMatch) []part {
	globs := func(path *field.Path, texts []string) (list []names.Glob) {
		for i, text := range texts {
			glob, err := names.ParseNamespace(text)
			if err != nil {
				c.invalid(path.Index(i), text, err.Error())
				continue
			}
			list = append(list, glob)
		}
		return list
	}
	included, excluded := globs(path.Child("names"), n.Names), globs(path.Child("excluded"), n.Excluded)
	parts := []part{{"match.namespaces", func(e *evaluation) matched {
		matches := func(g names.Glob) bool { return g.Match(e.values.Namespace) }
		switch {
		case e.values.Namespace == "":
			return matched{no: true, because: "the request is in no namespace"}
		case len(n.Names) > 0 && !slices.ContainsFunc(included, matches):
			return matched{no: true, because: e.values.Namespace + " is not among " + enumerated(inOrder(n.Names))}
		case slices.ContainsFunc(excluded, matches):
			return matched{no: true, because: e.values.Namespace + " is excluded"}
		}
		return matched{}
	}}}
	if n.Selector == nil {
		return parts
	}
	selector, err := v1.LabelSelectorAsSelector(n.Selector)
	if err != nil {
		c.invalid(path.Child("selector"), n.Selector, err.Error())
		return parts
	}
	c.policy.needs.Namespace = true
	return append(parts, part{"match.namespaces.selector", func(e *evaluation) matched { return selects(selector, e) }})
}

func selects(selector labels.Selector, e *evaluation) matched {
	namespace := e.namespace()
	switch {
	case e.values.Namespace == "":
		return matched{no: true, because: "the request is in no namespace"}
	case !namespace.Known:
		return matched{open: "namespaces/" + e.values.Namespace}
	case namespace.Value == nil || !selector.Matches(labels.Set(namespace.Value.Labels)):
		return matched{no: true, because: fmt.Sprintf("the labels of the namespace %s are not %s", e.values.Namespace, selector)}
	}
	return matched{}
}

// access returns a part for each right that the requester must have.
func (c matchCompiler) access(path *field.Path, list []v1alpha1.AccessMatch) []part {
	var parts []part
	for i, a := range byName(list, func(a *v1alpha1.AccessMatch) string { return string(encoded(a)) }) {
		if a.Verb == "" {
			c.required(path.Index(i).Child("verb"), "must be given, such as use")
		}
		if a.Resource == "" && (a.Group != "" || a.Name != "" || a.Subresource != "") {
			c.required(path.Index(i).Child("resource"), "must be given with group, name or subresource")
		}
		asked := Access{Verb: a.Verb, Group: a.Group, Resource: a.Resource, Subresource: a.Subresource, Name: a.Name}
		if a.Resource == "" {
			asked.Group, asked.Resource, asked.Name = v1alpha1.GroupName, "certificatepolicies", c.policy.name
		}
		c.policy.needs.Access = append(c.policy.needs.Access, asked)
		parts = append(parts, part{fmt.Sprintf("match.access[%d]", i), func(e *evaluation) matched {
			asked := asked
			asked.Namespace = e.in.Request.Namespace
			allowed, known := e.in.Facts.Access[asked]
			switch {
			case !known:
				return matched{open: "access " + asked.String()}
			case !allowed:
				return matched{no: true, because: fmt.Sprintf("%s may not %s", quoted(e.requester.Username), asked)}
			}
			return matched{}
		}})
	}
	return parts
}

// String returns the right, such as "use certificatepolicies/web-shop".
func (a Access) String() string {
	text := a.Verb + " " + a.Resource
	if a.Group != "" && a.Group != v1alpha1.GroupName {
		text += "." + a.Group
	}
	if a.Subresource != "" {
		text += "/" + a.Subresource
	}
	if a.Name != "" {
		text += "/" + a.Name
	}
	return text
}

func (c matchCompiler) matchConditions(path *field.Path, list []v1alpha1.MatchCondition) []part {
	var parts []part
	seen := map[string]bool{}
	for i, one := range byName(list, func(m *v1alpha1.MatchCondition) string { return m.Name }) {
		path := path.Index(i)
		c.name(path.Child("name"), one.Name, seen)
		compiled := c.expression(path.Child("expression"), one.Expression, expression.Bool)
		if compiled == nil {
			if one.Expression == "" {
				c.required(path.Child("expression"), "must be given")
			}
			continue
		}
		parts = append(parts, part{fmt.Sprintf("match.conditions[%s]", one.Name), func(e *evaluation) matched {
			holds, failed := e.truth(compiled)
			switch {
			case failed != nil && failed.open != "":
				return matched{open: failed.open}
			case failed != nil:
				return matched{failed: true, because: failed.message}
			case !holds:
				return matched{no: true, because: "the expression is false"}
			}
			return matched{}
		}})
	}
	return parts
}
