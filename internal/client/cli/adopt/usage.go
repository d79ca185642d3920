package adopt

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/client/cli/print"
	"github.com/certplane/certplane/internal/rights"
)

const (
	topicUse   = "In use"
	topicWork  = "At work now"
	topicTrust = "Trust"
)

var (
	deploymentKind = appsv1.SchemeGroupVersion.WithKind("Deployment")
	definitionKind = schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}
)

// kinds looks at the kinds of the program, and at kinds that certplane does not serve.
func (m *reader) kinds(ctx context.Context, p *Plan) error {
	definitions, err := m.list(ctx, p, topicUse, definitionKind)
	if err != nil {
		return err
	}
	for _, d := range definitions {
		group, _, _ := unstructured.NestedString(d.Object, "spec", "group")
		stored, _, _ := unstructured.NestedStringSlice(d.Object, "status", "storedVersions")
		if slices.Contains(m.Groups, group) && (d.GetDeletionTimestamp() != nil || !slices.Equal(stored, []string{m.Version})) {
			p.fail(topicUse, fmt.Sprintf("the definition %s is being deleted, or its objects are stored in other versions than %s: %s", d.GetName(), m.Version, strings.Join(stored, ", ")), "Run cmctl upgrade migrate-api-version first.")
		}
	}
	for _, name := range m.Uncovered {
		found, err := m.list(ctx, p, topicUse, schema.ParseGroupKind(name))
		if err != nil {
			return err
		}
		if len(found) > 0 {
			p.fail(topicUse, fmt.Sprintf("the cluster has %s, which certplane does not read", print.Number(len(found), found[0].GetKind())))
		}
	}
	return nil
}

// usage looks at the issuers and Certificates, and at what cert-manager is doing now.
func (m *reader) usage(ctx context.Context, p *Plan) error {
	for _, kind := range []string{cmv1.IssuerKind, cmv1.ClusterIssuerKind} {
		issuers, err := m.list(ctx, p, topicUse, schema.GroupKind{Group: certmanager.Group, Kind: kind})
		if err != nil {
			return err
		}
		for _, issuer := range issuers {
			if _, isVenafi, _ := unstructured.NestedMap(issuer.Object, "spec", "venafi"); isVenafi {
				p.fail(topicUse, fmt.Sprintf("%s %s is of the type Venafi", kind, nameOf(&issuer)), "Only a separate build of certplane has it: see docs/venafi.md.")
			}
		}
		p.ok(topicUse, "%s", print.Number(len(issuers), kind))
	}
	var unset, cas, busy []string
	for _, crt := range p.crts {
		if key := crt.Spec.PrivateKey; key == nil || key.RotationPolicy == "" {
			if unset = append(unset, nameOf(crt)); crt.Spec.IsCA {
				cas = append(cas, nameOf(crt))
			}
		}
		if certmanager.CertificateIs(crt, cmv1.CertificateConditionIssuing) {
			busy = append(busy, "Certificate "+nameOf(crt))
		}
	}
	if p.keepsKeys && len(unset) > 0 {
		p.warn(topicUse, fmt.Sprintf("this cert-manager keeps keys at renewal unless a rotationPolicy is set, and certplane makes new ones: %s. CAs: %s", some(unset), print.OrNone(some(cas))),
			"Set spec.privateKey.rotationPolicy: Never where a key must stay, as for CAs.")
	}
	final := []acmev1.State{acmev1.Valid, acmev1.Invalid, acmev1.Expired, acmev1.Errored}
	for _, kind := range []string{acmev1.OrderKind, acmev1.ChallengeKind} {
		found, err := m.list(ctx, p, topicWork, schema.GroupKind{Group: acmev1.SchemeGroupVersion.Group, Kind: kind})
		if err != nil {
			return err
		}
		for _, o := range found {
			if state, _, _ := unstructured.NestedString(o.Object, "status", "state"); !slices.Contains(final, acmev1.State(state)) {
				busy = append(busy, kind+" "+nameOf(&o))
			}
		}
	}
	if len(busy) > 0 {
		p.warn(topicWork, "cert-manager works on "+some(busy), "certplane finishes it. It is calmer to wait.")
	}
	return nil
}

// Trusted is a binding that gives rights to the account of the program by name.
type Trusted struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	Role      string `json:"role"`
	// Accounts are the accounts of certplane that need the rights; empty if a person must
	// decide.
	Accounts []string `json:"accounts"`
}

// need is a row of data.yaml.
type need struct{ Resource, Verb, Account string }

func (n need) matches(r rbacv1.PolicyRule) bool {
	if !slices.Contains(r.Verbs, n.Verb) && !slices.Contains(r.Verbs, rbacv1.VerbAll) {
		return false
	}
	if n.Resource != "" {
		return slices.Contains(r.Resources, n.Resource)
	}
	return slices.ContainsFunc(r.APIGroups, func(group string) bool {
		return strings.Contains(group, ".") && !strings.HasSuffix(group, ".k8s.io") && !strings.HasSuffix(group, certmanager.Group)
	})
}

// trusted finds the bindings, of other programs, that name the account of the controller.
func (m *reader) trusted(ctx context.Context, p *Plan) error {
	controller := p.part("controller")
	account := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: controller.Namespace, Name: controller.Account}
	for _, kind := range []string{"RoleBinding", "ClusterRoleBinding"} {
		all, err := listAs[rbacv1.RoleBinding](ctx, m, p, topicTrust, schema.GroupKind{Group: rbacv1.GroupName, Kind: kind})
		if err != nil {
			return err
		}
		for _, b := range all {
			if !slices.Contains(b.Subjects, account) || m.owns(b) && b.Labels[instanceLabel] == controller.found.Labels[instanceLabel] {
				continue
			}
			t := Trusted{Kind: kind, Namespace: b.Namespace, Name: b.Name, Role: b.RoleRef.Kind + " " + b.RoleRef.Name, Accounts: []string{}}
			role, held := &unstructured.Unstructured{}, &rbacv1.ClusterRole{}
			role.SetGroupVersionKind(rbacv1.SchemeGroupVersion.WithKind(b.RoleRef.Kind))
			namespace := b.Namespace
			if b.RoleRef.Kind == "ClusterRole" {
				namespace = ""
			}
			_, err := m.exists(ctx, namespace, b.RoleRef.Name, role)
			if err := errors.Join(err, decode(role.Object, held)); err != nil {
				return fmt.Errorf("reading %s: %w", t.Role, err)
			}
			copied := &rbacv1.RoleBinding{TypeMeta: metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: kind}, RoleRef: b.RoleRef}
			copied.Namespace, copied.Name, copied.Labels = b.Namespace, b.Name+"-certplane", map[string]string{nameLabel: "certplane"}
			for _, rule := range held.Rules {
				at := slices.IndexFunc(m.Needs, func(n need) bool { return n.matches(rule) })
				if at < 0 || slices.Contains(t.Accounts, m.Needs[at].Account) {
					continue
				}
				t.Accounts = append(t.Accounts, m.Needs[at].Account)
				copied.Subjects = append(copied.Subjects, rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: m.namespace, Name: m.Needs[at].Account})
			}
			if p.Trusted = append(p.Trusted, t); len(t.Accounts) == 0 {
				p.warn(topicTrust, fmt.Sprintf("%s %s gives %s to the account of %s, and certplane cannot tell for what", kind, nameOf(b), t.Role, m.Name), "Grant it to the account of certplane that needs it: see docs/controllers.md.")
				continue
			}
			p.ok(topicTrust, "%s %s (%s) is copied, for %s", kind, nameOf(b), t.Role, strings.Join(t.Accounts, ", "))
			o, err := asUnstructured(copied)
			if err != nil {
				return err
			}
			p.bindings = append(p.bindings, o)
		}
	}
	return m.mentions(ctx, p, controller)
}

const instanceLabel, nameLabel = "app.kubernetes.io/instance", "app.kubernetes.io/name"

// labelNames are the values of nameLabel that its installation gives to the program's objects.
func (m *reader) labelNames() []string {
	names := []string{m.Name}
	for _, of := range m.Parts[1:] {
		names = append(names, of.Component)
	}
	return names
}

// owns reports whether the program itself has installed an object: it has the labels of its
// installation.
func (m *reader) owns(o metav1.Object) bool {
	return slices.Contains(m.labelNames(), o.GetLabels()[nameLabel]) && o.GetLabels()[instanceLabel] != ""
}

// mentions finds policies and clouds that trust the account of the controller by name: these are
// changed by hand.
func (m *reader) mentions(ctx context.Context, p *Plan, controller *Part) error {
	theirs, ours := fmt.Sprintf("system:serviceaccount:%s:%s", controller.Namespace, controller.Account), fmt.Sprintf("system:serviceaccount:%s:", m.namespace)
	for _, name := range m.Policies {
		found, err := m.list(ctx, p, topicTrust, schema.ParseGroupKind(name))
		if err != nil {
			return err
		}
		for _, o := range found {
			text, err := json.Marshal(o.Object["spec"])
			if err != nil {
				return fmt.Errorf("reading %s: %w", name, err)
			}
			if strings.Contains(string(text), theirs) && !strings.Contains(string(text), ours) {
				p.fail(topicTrust, fmt.Sprintf("%s %s names the account of %s", o.GetKind(), nameOf(&o), m.Name), "Add the accounts of certplane, such as "+ours+rights.IssueCertificates.Account+" for the requests of Certificates.")
			}
		}
	}
	account, own := &corev1.ServiceAccount{}, &corev1.ServiceAccount{}
	if skip, err := p.unread(topicTrust, "service accounts", m.api.Get(ctx, client.ObjectKey{Namespace: controller.Namespace, Name: controller.Account}, account)); err != nil || skip {
		return err
	}
	if _, err := m.exists(ctx, m.namespace, controllersName, own); err != nil {
		return fmt.Errorf("reading the service account of certplane: %w", err)
	}
	for key, cloud := range m.Clouds {
		if account.Annotations[key] != "" && own.Annotations[key] == "" {
			p.fail(topicTrust, fmt.Sprintf("%s trusts the account of %s (annotation %s)", cloud, m.Name, key),
				fmt.Sprintf("Let it trust %s/%s, and annotate this service account in the same way.", m.namespace, controllersName))
		}
	}
	return nil
}
