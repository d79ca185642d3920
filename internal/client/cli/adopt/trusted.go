package adopt

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/rights"
)

const topicTrust = "Trust"

// Trusted is a binding that gives rights to the account of the program by name.
type Trusted struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	Role      string `json:"role"`
	// Accounts are the accounts of certplane that need the rights; empty if a person must
	// decide.
	Accounts []string `json:"accounts"`

	ref   rbacv1.RoleRef
	rules []rbacv1.PolicyRule
}

// needs says which account needs a rule that was granted to cert-manager. The first one that
// matches counts.
var needs = []struct {
	account string
	matches func(rbacv1.PolicyRule) bool
}{
	{rights.CheckIssuers.Account, func(r rbacv1.PolicyRule) bool { return slices.Contains(r.Resources, "serviceaccounts/token") }}, // tokens for Vault
	{rights.ApproveRequests.Account, func(r rbacv1.PolicyRule) bool {
		return slices.Contains(r.Resources, "signers") && slices.Contains(r.Verbs, "approve")
	}},
	{rights.IssueCertificates.Account, func(r rbacv1.PolicyRule) bool { // the requester of Certificates' requests
		return slices.Contains(r.Resources, "certificaterequestpolicies") && slices.Contains(r.Verbs, "use")
	}},
	{rights.SolveChallenges.Account, func(r rbacv1.PolicyRule) bool { // the API of a DNS webhook
		return slices.ContainsFunc(r.APIGroups, func(group string) bool {
			return strings.Contains(group, ".") && !strings.HasSuffix(group, ".k8s.io") && !strings.HasSuffix(group, certmanager.Group)
		}) && (slices.Contains(r.Verbs, "create") || slices.Contains(r.Verbs, "*"))
	}},
}

// trusted finds the bindings that name the account of the controller.
func (m *mover) trusted(ctx context.Context, p *Plan) error {
	controller := p.part("controller")
	if controller == nil {
		return nil
	}
	isAccount := func(s rbacv1.Subject) bool {
		return s.Kind == rbacv1.ServiceAccountKind && s.Namespace == controller.Namespace && s.Name == controller.Account
	}
	inNamespaces, err := listAs[rbacv1.RoleBinding](ctx, m, p, topicTrust, kindOf(rbacv1.GroupName, "RoleBinding"))
	if err != nil {
		return err
	}
	inCluster, err := listAs[rbacv1.ClusterRoleBinding](ctx, m, p, topicTrust, kindOf(rbacv1.GroupName, "ClusterRoleBinding"))
	if err != nil {
		return err
	}
	for _, b := range inCluster {
		inNamespaces = append(inNamespaces, &rbacv1.RoleBinding{ObjectMeta: b.ObjectMeta, Subjects: b.Subjects, RoleRef: b.RoleRef})
	}
	for _, b := range inNamespaces {
		if !slices.ContainsFunc(b.Subjects, isAccount) || m.owns(p.Parts[0].found.Labels["app.kubernetes.io/instance"], b) {
			continue
		}
		t := Trusted{Kind: "RoleBinding", Namespace: b.Namespace, Name: b.Name, Role: b.RoleRef.Kind + " " + b.RoleRef.Name, Accounts: []string{}, ref: b.RoleRef}
		if b.Namespace == "" {
			t.Kind = "ClusterRoleBinding"
		}
		if t.rules, err = m.rulesOf(ctx, p, b); err != nil {
			return err
		}
		for _, rule := range t.rules {
			for _, need := range needs {
				if need.matches(rule) {
					if !slices.Contains(t.Accounts, need.account) {
						t.Accounts = append(t.Accounts, need.account)
					}
					break
				}
			}
		}
		p.Trusted = append(p.Trusted, t)
		if len(t.Accounts) == 0 {
			p.warn(topicTrust, fmt.Sprintf("%s %s gives %s to the account of %s, and certplane cannot tell for what", t.Kind, nameOf(b), t.Role, m.name), "Grant it to the account of certplane that needs it: see docs/controllers.md.")
		} else {
			p.ok(topicTrust, "%s %s (%s) is copied, for %s", t.Kind, nameOf(b), t.Role, strings.Join(t.Accounts, ", "))
		}
	}
	return nil
}

// rulesOf returns the rules of a binding's role; none if it does not exist.
func (m *mover) rulesOf(ctx context.Context, p *Plan, b *rbacv1.RoleBinding) ([]rbacv1.PolicyRule, error) {
	var rules []rbacv1.PolicyRule
	var err error
	if b.RoleRef.Kind == "Role" {
		role := &rbacv1.Role{}
		err = m.api.Get(ctx, client.ObjectKey{Namespace: b.Namespace, Name: b.RoleRef.Name}, role)
		rules = role.Rules
	} else {
		role := &rbacv1.ClusterRole{}
		err = m.api.Get(ctx, client.ObjectKey{Name: b.RoleRef.Name}, role)
		rules = role.Rules
	}
	if client.IgnoreNotFound(err) == nil {
		return rules, nil
	}
	_, err = p.unread(topicTrust, b.RoleRef.Kind+" "+b.RoleRef.Name, err)
	return nil, err
}

// owns reports whether the program itself has installed an object: it has the labels of its
// Deployment's release.
func (m *mover) owns(instance string, o metav1.Object) bool {
	name := o.GetLabels()["app.kubernetes.io/name"]
	known := name == m.name || slices.ContainsFunc(m.parts, func(of part) bool { return of.component != "" && name == of.component })
	return instance != "" && o.GetLabels()["app.kubernetes.io/instance"] == instance && known
}

// copies returns the bindings that give the rights to the accounts of certplane.
func (m *mover) copies(p *Plan) (objects []client.Object) {
	for _, t := range p.Trusted {
		if len(t.Accounts) == 0 {
			continue
		}
		b := &rbacv1.RoleBinding{RoleRef: t.ref}
		b.Namespace, b.Name = t.Namespace, t.Name+"-certplane"
		b.Labels = map[string]string{"app.kubernetes.io/name": "certplane", "app.kubernetes.io/component": "controllers"}
		for _, account := range t.Accounts {
			b.Subjects = append(b.Subjects, rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: m.namespace, Name: account})
		}
		if t.Namespace != "" {
			b.SetGroupVersionKind(rbacv1.SchemeGroupVersion.WithKind("RoleBinding"))
			objects = append(objects, b)
			continue
		}
		c := &rbacv1.ClusterRoleBinding{ObjectMeta: b.ObjectMeta, Subjects: b.Subjects, RoleRef: b.RoleRef}
		c.SetGroupVersionKind(rbacv1.SchemeGroupVersion.WithKind("ClusterRoleBinding"))
		objects = append(objects, c)
	}
	return objects
}

// policyKinds are the kinds of objects that can name an account in a text.
var policyKinds = []schema.GroupKind{
	{Group: "admissionregistration.k8s.io", Kind: "ValidatingAdmissionPolicy"}, {Group: "admissionregistration.k8s.io", Kind: "MutatingAdmissionPolicy"},
	{Group: "policy.cert-manager.io", Kind: "CertificateRequestPolicy"}, {Group: "certplane.dev", Kind: "CertificatePolicy"},
	{Group: "kyverno.io", Kind: "ClusterPolicy"}, {Group: "kyverno.io", Kind: "Policy"}, {Group: "templates.gatekeeper.sh", Kind: "ConstraintTemplate"},
}

// cloudAnnotations are the annotations with which clouds trust an account.
var cloudAnnotations = map[string]string{
	"eks.amazonaws.com/role-arn": "AWS", "iam.gke.io/gcp-service-account": "Google Cloud", "azure.workload.identity/client-id": "Azure",
}

// mentions finds policies and clouds that trust the account of the controller by name: these are
// changed by hand.
func (m *mover) mentions(ctx context.Context, p *Plan) error {
	controller := p.part("controller")
	if controller == nil {
		return nil
	}
	user := func(namespace, name string) string {
		return fmt.Sprintf("system:serviceaccount:%s:%s", namespace, name)
	}
	for _, kind := range policyKinds {
		found, err := m.list(ctx, p, topicTrust, kind)
		if err != nil {
			return err
		}
		for _, o := range found {
			text, err := json.Marshal(o.Object["spec"])
			if err != nil {
				return fmt.Errorf("reading %s: %w", kind, err)
			}
			if strings.Contains(string(text), user(controller.Namespace, controller.Account)) && !strings.Contains(string(text), user(m.namespace, "")) {
				p.fail(topicTrust, fmt.Sprintf("%s %s names the account of %s", kind.Kind, nameOf(&o), m.name),
					fmt.Sprintf("Add the accounts of certplane, such as %s for the requests of Certificates.", user(m.namespace, rights.IssueCertificates.Account)))
			}
		}
	}
	return m.clouds(ctx, p, controller)
}

func (m *mover) clouds(ctx context.Context, p *Plan, controller *Part) error {
	theirs, ours := &corev1.ServiceAccount{}, &corev1.ServiceAccount{}
	_, err := m.exists(ctx, controller.Namespace, controller.Account, theirs)
	if skip, err := p.unread(topicTrust, "the service account of "+m.name, err); err != nil || skip {
		return err
	}
	if _, err := m.exists(ctx, m.namespace, controllersName, ours); err != nil {
		return fmt.Errorf("reading the service account of certplane: %w", err)
	}
	for _, key := range slices.Sorted(maps.Keys(theirs.Annotations)) {
		if cloud := cloudAnnotations[key]; cloud != "" && ours.Annotations[key] == "" {
			p.fail(topicTrust, fmt.Sprintf("%s trusts the account of %s (annotation %s)", cloud, m.name, key),
				fmt.Sprintf("Let it trust %s/%s, and annotate this service account in the same way.", m.namespace, controllersName))
		}
	}
	return nil
}
