package certpolicy

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/nodeid"
	"github.com/certplane/certplane/internal/policy/expression"
	"github.com/certplane/certplane/internal/policy/names"
	"github.com/certplane/certplane/internal/policy/request"
)

// evaluation is the view of one request for all policies of a decision. It is
// not safe for concurrent use.
type evaluation struct {
	in      *Input
	content *content
	// requester is the user, for pods their service account.
	requester request.Requester
	account   struct{ namespace, name string }
	values    names.Values
	// evaluated is nil until an expression is evaluated.
	evaluated *expression.Evaluation
	// earlier are the results of expressions for the same request.
	earlier expression.Results
	// exempt holds, for each exception, whether it applies to the request, as far as is
	// known.
	exempt map[*Exception]bool
}

// finding is a condition that does not hold, or that cannot be judged yet.
type finding struct {
	at, reason, field, value string
	would                    []string
	message                  string
	// open is the fact that is not known yet; the rest but at is then empty.
	open string
	// exception covers the violation.
	exception string
}

func newEvaluation(in *Input) *evaluation {
	e := &evaluation{in: in, requester: in.Request.Who(), exempt: map[*Exception]bool{}}
	if namespace, name, err := serviceaccount.SplitUsername(e.requester.Username); err == nil {
		e.account.namespace, e.account.name = namespace, name
	}
	e.values = e.variables()
	return e
}

// variables returns the values of the variables in patterns.
func (e *evaluation) variables() names.Values {
	r := &e.in.Request
	v := names.Values{
		Namespace: cmp.Or(r.Namespace, e.account.namespace), ServiceAccount: e.account.name, User: e.requester.Username,
		Unknown: map[string]string{},
	}
	if node, isNode := strings.CutPrefix(e.requester.Username, nodeid.UserPrefix); isNode {
		v.Node = node
	}
	if namespace := e.namespace(); namespace.Known && namespace.Value != nil {
		v.NamespaceLabels = namespace.Value.Labels
	} else if !namespace.Known && v.Namespace != "" {
		v.Unknown["namespaceLabel"] = "namespaces/" + v.Namespace
	}
	if r.Kind != v1alpha1.PodCertificateRequests {
		return v
	}
	if r.Node != nil {
		v.Node = r.Node.Name
	}
	if r.Pod == nil {
		for _, variable := range []string{"pod", "podLabel", "service", "node"} {
			v.Unknown[variable] = "the pod of " + r.Name
		}
		return v
	}
	v.Pod, v.PodLabels = r.Pod.Name, r.Pod.Labels
	for _, service := range r.Services {
		v.Services = append(v.Services, service.Name)
	}
	return v
}

// namespace returns the Namespace that the request counts to.
func (e *evaluation) namespace() Fact[metav1.ObjectMeta] {
	if object := e.in.Request.NamespaceObject; object != nil {
		return Known(object)
	}
	return e.in.Facts.Namespace
}

// evaluate reports whether all parts hold. A part that is open counts before one that has
// failed.
func (m *matchers) evaluate(e *evaluation) matched {
	if len(m.kinds) > 0 && !slices.Contains(m.kinds, e.in.Request.Kind) {
		return matched{no: true, because: "match.kinds: " + string(e.in.Request.Kind) + " is not among them"}
	}
	var open, failed matched
	for _, part := range m.parts {
		switch v := part.holds(e); {
		case v.no:
			return matched{no: true, because: part.at + ": " + v.because}
		case v.open != "" && open.open == "":
			open.open = v.open
		case v.failed && !failed.failed:
			failed = matched{failed: true, because: part.at + ": " + v.because}
		}
	}
	if open.open != "" {
		return open
	}
	return failed
}

// opinion is the opinion of one policy about a request.
type opinion struct {
	policy *Policy
	// applies: the policy applies to the request. because is why not.
	applies bool
	because string
	// findings are the violations; open holds the open conditions.
	findings []finding
	open     []finding
	// unavailable: the policy cannot be evaluated.
	unavailable bool
}

// violated returns the number of violations that no exception covers.
func (o *opinion) violated() int {
	n := 0
	for _, f := range o.findings {
		if f.exception == "" {
			n++
		}
	}
	return n
}

func (o *opinion) holds() bool {
	return o.applies && !o.unavailable && len(o.open) == 0 && o.violated() == 0
}

// evaluate returns the policy's opinion. While it is not known whether the policy
// applies to the request, its conditions are not evaluated. Open conditions become
// violations once the patience with the request is over.
func (p *Policy) evaluate(e *evaluation, exceptions []*Exception) opinion {
	e.begin()
	o := opinion{policy: p}
	if p.matchBroken {
		o.applies, o.unavailable = p.brokenMatch(e), true
		return o
	}
	match := p.match.evaluate(e)
	o.applies = !match.no
	switch {
	case match.no:
		o.because = match.because
		return o
	case match.open != "":
		o.because = match.open
		o.open = append(o.open, finding{at: "match", open: match.open})
	case match.failed && p.spec.Effect == v1alpha1.PolicyAllow:
		o.applies, o.because = false, match.because // it does not allow
		return o
	}
	if len(p.broken) > 0 {
		o.unavailable = true
		return o
	}
	if match.open == "" && p.spec.Effect != v1alpha1.PolicyDenyRest {
		o.judge(e)
	}
	o.endPatience(e)
	o.except(e, exceptions)
	return o
}

// judge evaluates all conditions, not only up to the first violation.
func (o *opinion) judge(e *evaluation) {
	for _, condition := range o.policy.conditions {
		for _, f := range condition(e) {
			if f.open != "" {
				o.open = append(o.open, f)
				continue
			}
			o.findings = append(o.findings, f)
		}
	}
	slices.SortStableFunc(o.findings, byAddress)
	slices.SortStableFunc(o.open, byAddress)
}

// except notes the exceptions that cover violations.
func (o *opinion) except(e *evaluation, exceptions []*Exception) {
	e.begin() // the conditions of exceptions have their own budgets
	for i := range o.findings {
		f := &o.findings[i]
		for _, x := range exceptions {
			if f.exception == "" && x.excepts(e, o.policy.name, f) {
				f.exception = x.name
			}
		}
	}
}

// byAddress compares findings by their addresses, then by their fields: dnsNames[9] is
// before dnsNames[10].
func byAddress(a, b finding) int {
	name, index := splitField(a.field)
	otherName, otherIndex := splitField(b.field)
	return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(name, otherName), cmp.Compare(index, otherIndex), cmp.Compare(a.value, b.value), cmp.Compare(a.open, b.open))
}

func splitField(field string) (name string, index int) {
	name, rest, _ := strings.Cut(field, "[")
	index, err := strconv.Atoi(strings.TrimSuffix(rest, "]"))
	if err != nil { // it has no index, or an object identifier
		return field, 0
	}
	return name, index
}

// endPatience turns open conditions into violations when the request has waited
// long enough.
func (o *opinion) endPatience(e *evaluation) {
	in := e.in
	if len(o.open) == 0 || in.Patience == 0 || in.Request.Created.IsZero() || in.Time.Before(in.Request.Created.Add(in.Patience)) {
		return
	}
	for _, f := range o.open {
		o.findings = append(o.findings, finding{at: f.at, reason: ReasonFactMissing, message: "cannot be judged: " + f.open + " is not known"})
	}
	o.open = nil
}

// brokenMatch reports whether a policy with an invalid match may apply to the request,
// judging by the valid parts of match. With an invalid signer, it may apply to all
// signers.
func (p *Policy) brokenMatch(e *evaluation) bool {
	return len(p.match.signers) < max(1, len(p.spec.Match.Signers)) || p.match.about(e.in.Request.Kind, SignerName(e.in.Request))
}
