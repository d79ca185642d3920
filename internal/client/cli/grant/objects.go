package grant

import (
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/client/cli/target"
)

// ManagedBy is the label of objects that certplane writes for users, and Program its
// value.
const ManagedBy, Program = "app.kubernetes.io/managed-by", "certplane"

// Objects returns the roles for the tasks, and their bindings to the subjects. Each role
// precedes its binding, which has the same name.
//
// Rights to signers have an effect only cluster-wide. Other rights that are limited to a
// namespace are in a Role there. This Role is the first object, because the namespace
// might not exist.
func Objects(t target.Target, subjects []rbacv1.Subject) []client.Object {
	ofCluster, ofNamespace, namespace := rulesOf(t)
	var inNamespace, inCluster []client.Object
	if len(ofNamespace) > 0 {
		inNamespace = InNamespace(namespace, Name(t), ofNamespace, subjects)
	}
	if len(ofCluster) > 0 {
		inCluster = InCluster(Name(t), ofCluster, subjects)
	}
	if namespace == metav1.NamespaceDefault && !t.Kind.Namespaced { // the namespace exists
		return slices.Concat(inCluster, inNamespace)
	}
	return slices.Concat(inNamespace, inCluster)
}

// rulesOf returns the rights that are granted in the whole cluster, and those in
// a namespace.
func rulesOf(t target.Target) (ofCluster, ofNamespace []rbacv1.PolicyRule, namespace string) {
	add := func(where string, rules ...rbacv1.PolicyRule) {
		if where == "" {
			ofCluster = append(ofCluster, rules...)
			return
		}
		namespace, ofNamespace = where, append(ofNamespace, rules...)
	}
	add(t.Namespace, onObjects(t)...)
	add("", t.Also...)
	if beside := t.NamespaceBeside(); len(t.Beside) > 0 {
		add(beside, t.Beside...)
	}
	if t.Signers != "" {
		add("", t.OnSigners(t.Signer))
		add("", t.OnSignersBeside(t.Signer)...)
	}
	if reference, where := t.Reference(); len(reference.Verbs) > 0 {
		reference.ResourceNames = reference.ResourceNames[:1]
		add(where, reference)
	}
	return ofCluster, ofNamespace, namespace
}

// Name returns the name of the objects of a grant. It contains the task and its target,
// so that different grants share no objects.
func Name(t target.Target) string {
	words := []string{"certplane", t.Verb}
	switch {
	case t.Endpoint != "":
		return strings.Join(append(words, t.Kind.Resource, t.Endpoint), ":")
	case t.Policy != "":
		return strings.Join(append(words, t.Policy), ":")
	case t.Signers == "" && !t.NeedsReference(): // the rights are the same for all signers
		return strings.Join(append(words, t.Kind.Resource), ":")
	}
	words = append(words, strings.ReplaceAll(t.Signer, "/", ":"))
	if t.Many {
		words = append(words, "many")
	}
	if !t.UsualKind() {
		words = append(words, t.Kind.Short)
	}
	if issuer, ok := t.Issuer(); t.Namespace != "" && !(ok && issuer.Namespace == t.Namespace) {
		words = append(words, "in", t.Namespace)
	}
	return strings.Join(words, ":")
}

// onObjects returns the rights on requests, bundles, policies or endpoints.
func onObjects(t target.Target) []rbacv1.PolicyRule {
	rules := t.OnObjects()
	if name := t.ObjectName(); name != "" {
		rules[0].ResourceNames = []string{name}
	}
	return rules
}

// InCluster returns a ClusterRole and its binding to subjects.
func InCluster(name string, rules []rbacv1.PolicyRule, subjects []rbacv1.Subject) []client.Object {
	return []client.Object{
		&rbacv1.ClusterRole{TypeMeta: typeOf("ClusterRole"), ObjectMeta: meta("", name), Rules: rules},
		&rbacv1.ClusterRoleBinding{
			TypeMeta: typeOf("ClusterRoleBinding"), ObjectMeta: meta("", name),
			RoleRef: roleRef("ClusterRole", name), Subjects: subjects,
		},
	}
}

// InNamespace returns a Role and its binding to subjects.
func InNamespace(namespace, name string, rules []rbacv1.PolicyRule, subjects []rbacv1.Subject) []client.Object {
	return []client.Object{
		&rbacv1.Role{TypeMeta: typeOf("Role"), ObjectMeta: meta(namespace, name), Rules: rules},
		&rbacv1.RoleBinding{
			TypeMeta: typeOf("RoleBinding"), ObjectMeta: meta(namespace, name),
			RoleRef: roleRef("Role", name), Subjects: subjects,
		},
	}
}

func typeOf(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: kind}
}

func meta(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{ManagedBy: Program}}
}

func roleRef(kind, name string) rbacv1.RoleRef {
	return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: name}
}

// allObjects returns the objects of several grants, each once.
func allObjects(targets []target.Target, subjects []rbacv1.Subject) []client.Object {
	var all []client.Object
	for _, t := range targets {
		for _, object := range Objects(t, subjects) {
			if !slices.ContainsFunc(all, func(known client.Object) bool { return describe(known) == describe(object) }) {
				all = append(all, object)
			}
		}
	}
	return all
}

// describe returns the resource and the name of an object, as kubectl does.
func describe(object client.Object) string {
	text := strings.ToLower(object.GetObjectKind().GroupVersionKind().Kind) + "." + rbacv1.GroupName + "/" + object.GetName()
	if namespace := object.GetNamespace(); namespace != "" {
		text += " in " + namespace
	}
	return text
}
