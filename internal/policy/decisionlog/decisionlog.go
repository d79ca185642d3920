// Package decisionlog turns decisions into lines of the decision log, and these
// into what was decided about.
package decisionlog

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/certpolicy"
)

// ours returns whether the signer belongs to this program, nil if that is not known.
func ours(in *certpolicy.Input) *bool {
	if in.Facts.Signer.Value == nil {
		return nil
	}
	return &in.Facts.Signer.Value.Ours
}

// builtIn returns the built-in policy that allows the request, nil if that is not
// known.
func builtIn(in *certpolicy.Input) *string {
	switch fact := in.Facts.BuiltIn; {
	case !fact.Known:
		return nil
	case fact.Value == nil:
		return new("")
	default:
		return fact.Value
	}
}

// Line returns the log line for a decision about in. object is the JSON of the request.
// Without full, the line omits the content of the facts.
func Line(d *v1alpha1.PolicyDecision, in *certpolicy.Input, object []byte, full bool) *v1alpha1.LoggedDecision {
	line := &v1alpha1.LoggedDecision{PolicyDecision: *d, Object: &runtime.RawExtension{Raw: object}, OwnSigner: ours(in), BuiltIn: builtIn(in)}
	line.RequestPolicies, line.Keys, line.Earlier = in.Facts.RequestPolicies, in.Facts.Keys.Value, in.Facts.Earlier.Value
	line.Order = in.Facts.Order
	line.Facts = Facts(in, full)
	if in.Patience > 0 {
		line.Patience = &metav1.Duration{Duration: in.Patience}
	}
	if in.Certificate != nil {
		line.Certificate = in.Certificate.Raw
	}
	if in.Prospective != nil {
		line.Prospective = in.Prospective.Raw
	}
	for _, v := range in.Votes {
		line.Votes = append(line.Votes, v.Logged())
	}
	return line
}

// The kinds of facts, as in the names of facts.
const (
	namespaces      = "namespaces"
	nodes           = "nodes"
	pods            = "pods"
	serviceAccounts = "serviceaccounts"
	services        = "services"
	certificates    = "certificates"
)

// factName returns the name of an object among the facts.
func factName(kind, namespace, name string) string {
	if namespace != "" {
		name = namespace + "/" + name
	}
	return kind + "/" + name
}

// Facts returns the facts that a decision was based on, sorted. Without full, it omits the
// content of objects.
func Facts(in *certpolicy.Input, full bool) []v1alpha1.DecisionFact {
	l := &list{full: full}
	r := &in.Request
	addFact(l, namespaces, "", certpolicy.NamespaceOf(r), in.Facts.Namespace, corev1.SchemeGroupVersion.WithKind("Namespace").Kind)
	if node := in.Facts.Node; node.Known {
		l.node(certpolicy.NodeOf(r), node.Value)
	}
	if in.Facts.Owner.Value != nil {
		addFact(l, certificates, in.Facts.Owner.Value.Namespace, in.Facts.Owner.Value.Name, in.Facts.Owner, cmv1.CertificateKind)
	}
	l.pod(in)
	l.requests(in)
	for what, allowed := range in.Facts.Access {
		l.facts = append(l.facts, v1alpha1.DecisionFact{Access: what.String(), Allowed: new(allowed)})
	}
	for q, use := range in.Facts.Quotas {
		l.facts = append(l.facts, v1alpha1.DecisionFact{Quota: quotaFact(q, use)})
	}
	slices.SortFunc(l.facts, func(a, b v1alpha1.DecisionFact) int {
		return cmp.Or(strings.Compare(a.Object+"\x00"+a.Access, b.Object+"\x00"+b.Access), compareQuotas(a.Quota, b.Quota))
	})
	return l.facts
}

type list struct {
	full  bool
	facts []v1alpha1.DecisionFact
}

// add adds an object; nil stands for an object that is known not to exist.
func (l *list) add(name, resourceVersion string, object any) {
	fact := v1alpha1.DecisionFact{Object: name, ResourceVersion: resourceVersion, Absent: object == nil}
	if l.full && object != nil {
		if data, err := json.Marshal(object); err == nil { // objects of the API can be encoded
			fact.Content = &runtime.RawExtension{Raw: data}
		}
	}
	l.facts = append(l.facts, fact)
}

func addFact(l *list, plural, namespace, name string, fact certpolicy.Fact[metav1.ObjectMeta], kind string) {
	switch {
	case !fact.Known:
	case fact.Value == nil:
		l.add(factName(plural, namespace, name), "", nil)
	default:
		l.metadata(plural, kind, fact.Value)
	}
}

// metadata adds an object whose metadata alone is read.
func (l *list) metadata(plural, kind string, object *metav1.ObjectMeta) {
	content := metav1.PartialObjectMetadata{ObjectMeta: *object}
	content.ManagedFields = nil
	content.Kind = kind
	l.add(factName(plural, object.Namespace, object.Name), object.ResourceVersion, content)
}

func (l *list) node(name string, node *corev1.Node) {
	if node == nil {
		l.add(factName(nodes, "", name), "", nil)
		return
	}
	read := &corev1.Node{
		TypeMeta: metav1.TypeMeta{Kind: "Node"}, ObjectMeta: node.ObjectMeta,
		Spec: corev1.NodeSpec{ProviderID: node.Spec.ProviderID}, Status: corev1.NodeStatus{Addresses: node.Status.Addresses},
	}
	read.ManagedFields = nil
	l.add(factName(nodes, "", node.Name), node.ResourceVersion, read)
}

// requests adds references to the other requests that were read. Their content is in the
// line itself.
func (l *list) requests(in *certpolicy.Input) {
	var all []*v1alpha1.StoredRequest
	if keys := in.Facts.Keys.Value; keys != nil {
		all = append(all, keys.Same, keys.Previous)
	}
	if earlier := in.Facts.Earlier.Value; earlier != nil {
		for i := range earlier.Requests {
			all = append(all, &earlier.Requests[i].StoredRequest)
		}
	}
	for _, r := range all {
		if r == nil {
			continue
		}
		fact := v1alpha1.DecisionFact{Object: factName(strings.ToLower(string(r.Kind))+"s", r.Namespace, r.Name)}
		if !slices.ContainsFunc(l.facts, func(f v1alpha1.DecisionFact) bool { return f.Object == fact.Object }) {
			l.facts = append(l.facts, fact)
		}
	}
}

// pod adds the objects that a pod's request is about.
func (l *list) pod(in *certpolicy.Input) {
	r := &in.Request
	if r.Pod == nil {
		return
	}
	pod := r.Pod.DeepCopy()
	pod.ManagedFields, pod.Kind = nil, "Pod"
	l.add(factName(pods, pod.Namespace, pod.Name), pod.ResourceVersion, pod)
	if r.ServiceAccount != nil {
		l.metadata(serviceAccounts, "ServiceAccount", r.ServiceAccount)
	}
	if r.Node != nil && !in.Facts.Node.Known {
		l.metadata(nodes, "Node", r.Node)
	}
	if r.NamespaceObject != nil && !in.Facts.Namespace.Known {
		l.metadata(namespaces, "Namespace", r.NamespaceObject)
	}
	for _, service := range r.Services {
		l.add(factName(services, service.Namespace, service.Name), "", metav1.PartialObjectMetadata{
			TypeMeta: metav1.TypeMeta{Kind: "Service"}, ObjectMeta: metav1.ObjectMeta{Namespace: service.Namespace, Name: service.Name},
		})
	}
}
