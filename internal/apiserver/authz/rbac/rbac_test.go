package rbac

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/informers"
)

// policyOf stores objs in informers that never run.
func policyOf(t *testing.T, objs ...metav1.Object) Policy {
	t.Helper()
	shared := informers.NewSharedInformerFactory(nil, 0)
	policy := FromInformers(shared)
	v1 := shared.Rbac().V1()
	for _, obj := range objs {
		var err error
		switch obj := obj.(type) {
		case *rbacv1.Role:
			err = v1.Roles().Informer().GetIndexer().Add(obj)
		case *rbacv1.ClusterRole:
			err = v1.ClusterRoles().Informer().GetIndexer().Add(obj)
		case *rbacv1.RoleBinding:
			err = v1.RoleBindings().Informer().GetIndexer().Add(obj)
		case *rbacv1.ClusterRoleBinding:
			err = v1.ClusterRoleBindings().Informer().GetIndexer().Add(obj)
		default:
			err = fmt.Errorf("unexpected type %T", obj)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return policy
}

func clusterRole(name string, rules ...rbacv1.PolicyRule) *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}
}

func role(namespace, name string, rules ...rbacv1.PolicyRule) *rbacv1.Role {
	return &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Rules: rules}
}

func clusterRoleBinding(name, to string, subjects ...rbacv1.Subject) *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: to},
		Subjects:   subjects,
	}
}

func roleBinding(namespace, name, kind, to string, subjects ...rbacv1.Subject) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: to},
		Subjects:   subjects,
	}
}

func subject(kind, name string) rbacv1.Subject {
	return rbacv1.Subject{Kind: kind, Name: name}
}

func account(namespace, name string) rbacv1.Subject {
	return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}
}

func allow(verb, group, resource string, names ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: []string{verb}, APIGroups: []string{group}, Resources: []string{resource}, ResourceNames: names}
}

func allowURL(verb, url string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: []string{verb}, NonResourceURLs: []string{url}}
}

func TestAllows(t *testing.T) {
	resource := func(verb, group, resource, subresource, name string) authorizer.AttributesRecord {
		return authorizer.AttributesRecord{ResourceRequest: true, Verb: verb, APIGroup: group, Resource: resource, Subresource: subresource, Name: name}
	}
	url := func(verb, path string) authorizer.AttributesRecord {
		return authorizer.AttributesRecord{Verb: verb, Path: path}
	}
	tests := []struct {
		reason  string
		rule    rbacv1.PolicyRule
		request authorizer.AttributesRecord
		want    bool
	}{
		{"all equal", allow("get", "g", "pods"), resource("get", "g", "pods", "", "a"), true},
		{"other verb", allow("get", "g", "pods"), resource("list", "g", "pods", "", ""), false},
		{"any verb", allow("*", "g", "pods"), resource("approve", "g", "pods", "", ""), true},
		{"other group", allow("get", "g", "pods"), resource("get", "", "pods", "", ""), false},
		{"any group", allow("get", "*", "pods"), resource("get", "", "pods", "", ""), true},
		{"other resource", allow("get", "g", "pods"), resource("get", "g", "nodes", "", ""), false},
		{"any resource", allow("get", "g", "*"), resource("get", "g", "nodes", "", ""), true},
		{"any resource includes subresources", allow("get", "g", "*"), resource("get", "g", "nodes", "status", ""), true},
		{"a resource does not include its subresources", allow("update", "g", "pods"), resource("update", "g", "pods", "status", ""), false},
		{"a subresource does not include its resource", allow("update", "g", "pods/status"), resource("update", "g", "pods", "", ""), false},
		{"subresource equal", allow("update", "g", "pods/status"), resource("update", "g", "pods", "status", ""), true},
		{"status of any resource", allow("update", "g", "*/status"), resource("update", "g", "pods", "status", ""), true},
		{"status of any resource, other subresource", allow("update", "g", "*/status"), resource("update", "g", "pods", "scale", ""), false},
		{"status of any resource, resource itself", allow("update", "g", "*/status"), resource("update", "g", "pods", "", ""), false},
		{"there is no wildcard for subresources", allow("update", "g", "pods/*"), resource("update", "g", "pods", "status", ""), false},
		{"name listed", allow("sign", "g", "signers", "a.b/c"), resource("sign", "g", "signers", "", "a.b/c"), true},
		{"other name", allow("sign", "g", "signers", "a.b/c"), resource("sign", "g", "signers", "", "a.b/d"), false},
		{"request without a name", allow("list", "g", "signers", "a.b/c"), resource("list", "g", "signers", "", ""), false},
		{"names have no wildcards", allow("sign", "g", "signers", "*"), resource("sign", "g", "signers", "", "a.b/c"), false},
		{"domain wildcards are plain names", allow("sign", "g", "signers", "a.b/*"), resource("sign", "g", "signers", "", "a.b/*"), true},
		{"URL equal", allowURL("get", "/metrics"), url("get", "/metrics"), true},
		{"URL below", allowURL("get", "/metrics"), url("get", "/metrics/slis"), false},
		{"URL ending in a star", allowURL("get", "/metrics/*"), url("get", "/metrics/slis"), true},
		{"star does not match the folder", allowURL("get", "/metrics/*"), url("get", "/metrics"), false},
		{"any URL", allowURL("get", "*"), url("get", "/x"), true},
		{"other verb on a URL", allowURL("get", "*"), url("post", "/x"), false},
		{"a star in the middle is a plain character", allowURL("get", "/a/*/c"), url("get", "/a/b/c"), false},
		{"a URL rule says nothing about resources", allowURL("*", "*"), resource("get", "g", "pods", "", ""), false},
		{"a resource rule says nothing about URLs", allow("*", "*", "*"), url("get", "/x"), false},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			if got := Allows(&tt.rule, tt.request); got != tt.want {
				t.Errorf("Allows(%v, %+v) = %v, want %v", tt.rule, tt.request, got, tt.want)
			}
		})
	}
}

func authorizeTestPolicy(t *testing.T) Policy {
	t.Helper()
	return policyOf(t,
		clusterRole("reader", allow("get", "", "secrets")),
		role("blue", "writer", allow("update", "", "secrets")),
		clusterRoleBinding("by-name", "reader", subject("User", "ann")),
		clusterRoleBinding("by-group", "reader", subject("User", "nobody"), subject("Group", "staff")),
		clusterRoleBinding("by-account", "reader", account("blue", "robot")),
		clusterRoleBinding("dangling", "nosuch", subject("User", "dora")),
		clusterRoleBinding("nowhere", "reader", account("", "robot")),
		roleBinding("blue", "writers", "Role", "writer", subject("User", "ben"), account("", "robot"), account("red", "robot")),
		roleBinding("blue", "readers", "ClusterRole", "reader", subject("User", "cleo")),
		roleBinding("red", "dangling", "Role", "writer", subject("User", "ben")),
		roleBinding("red", "odd", "Widget", "writer", subject("User", "oz")),
	)
}

func TestAuthorize(t *testing.T) {
	policy := authorizeTestPolicy(t)
	tests := []struct {
		reason          string
		user            user.Info
		verb, namespace string
		want            authorizer.Decision
		wantReason      string
	}{
		{"user, everywhere", &user.DefaultInfo{Name: "ann"}, "get", "green", authorizer.DecisionAllow,
			`RBAC: allowed by ClusterRoleBinding "by-name" of ClusterRole "reader" to User "ann"`},
		{"user, other verb", &user.DefaultInfo{Name: "ann"}, "update", "green", authorizer.DecisionNoOpinion, ""},
		{"a group's name is no user's name", &user.DefaultInfo{Name: "staff"}, "get", "green", authorizer.DecisionNoOpinion, ""},
		{"group", &user.DefaultInfo{Name: "eve", Groups: []string{"x", "staff"}}, "get", "", authorizer.DecisionAllow,
			`RBAC: allowed by ClusterRoleBinding "by-group" of ClusterRole "reader" to Group "staff"`},
		{"service account", &user.DefaultInfo{Name: "system:serviceaccount:blue:robot"}, "get", "", authorizer.DecisionAllow,
			`RBAC: allowed by ClusterRoleBinding "by-account" of ClusterRole "reader" to ServiceAccount "robot/blue"`},
		{"service account of the same name elsewhere", &user.DefaultInfo{Name: "system:serviceaccount:red:robot"}, "get", "", authorizer.DecisionNoOpinion, ""},
		{"service account of no namespace is nobody", &user.DefaultInfo{Name: "system:serviceaccount::robot"}, "get", "", authorizer.DecisionNoOpinion, ""},
		{"role in its namespace", &user.DefaultInfo{Name: "ben"}, "update", "blue", authorizer.DecisionAllow,
			`RBAC: allowed by RoleBinding "writers/blue" of Role "writer" to User "ben"`},
		{"role in another namespace", &user.DefaultInfo{Name: "ben"}, "update", "green", authorizer.DecisionNoOpinion, ""},
		{"role in all namespaces", &user.DefaultInfo{Name: "ben"}, "update", "", authorizer.DecisionNoOpinion, ""},
		{"account without namespace is of the binding's", &user.DefaultInfo{Name: "system:serviceaccount:blue:robot"}, "update", "blue", authorizer.DecisionAllow,
			`RBAC: allowed by RoleBinding "writers/blue" of Role "writer" to ServiceAccount "robot/blue"`},
		{"account of another namespace", &user.DefaultInfo{Name: "system:serviceaccount:red:robot"}, "update", "blue", authorizer.DecisionAllow,
			`RBAC: allowed by RoleBinding "writers/blue" of Role "writer" to ServiceAccount "robot/red"`},
		{"cluster role through a role binding", &user.DefaultInfo{Name: "cleo"}, "get", "blue", authorizer.DecisionAllow,
			`RBAC: allowed by RoleBinding "readers/blue" of ClusterRole "reader" to User "cleo"`},
		{"cluster role through a role binding, elsewhere", &user.DefaultInfo{Name: "cleo"}, "get", "red", authorizer.DecisionNoOpinion, ""},
		{"missing cluster role is named", &user.DefaultInfo{Name: "dora"}, "get", "red", authorizer.DecisionNoOpinion,
			`RBAC: clusterrole.rbac.authorization.k8s.io "nosuch" not found`},
		{"a role is looked up in the binding's namespace", &user.DefaultInfo{Name: "ben"}, "update", "red", authorizer.DecisionNoOpinion,
			`RBAC: role.rbac.authorization.k8s.io "writer" not found`},
		{"missing role does not hide other grants", &user.DefaultInfo{Name: "ben", Groups: []string{"staff"}}, "get", "red", authorizer.DecisionAllow,
			`RBAC: allowed by ClusterRoleBinding "by-group" of ClusterRole "reader" to Group "staff"`},
		{"unknown kind of role", &user.DefaultInfo{Name: "oz"}, "get", "red", authorizer.DecisionNoOpinion,
			`RBAC: unsupported role reference kind: "Widget"`},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			request := authorizer.AttributesRecord{
				User: tt.user, Verb: tt.verb, Namespace: tt.namespace, Resource: "secrets", Name: "s", ResourceRequest: true,
			}
			got, reason, err := New(policy).Authorize(t.Context(), request)
			if err != nil {
				t.Fatal(err)
			}
			if got != tt.want {
				t.Errorf("decision = %v, want %v", got, tt.want)
			}
			if diff := cmp.Diff(tt.wantReason, reason); diff != "" {
				t.Errorf("reason (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAuthorizeWithoutUser(t *testing.T) {
	got, _, err := New(policyOf(t)).Authorize(t.Context(), authorizer.AttributesRecord{})
	if got != authorizer.DecisionNoOpinion || err == nil {
		t.Errorf("Authorize without a user = %v, %v; want no opinion and an error", got, err)
	}
}

func TestConditionsAwareAuthorizeAgrees(t *testing.T) {
	a := New(policyOf(t, clusterRole("r", allow("get", "", "pods")), clusterRoleBinding("b", "r", subject("User", "ann"))))
	request := authorizer.AttributesRecord{User: &user.DefaultInfo{Name: "ann"}, Verb: "get", Resource: "pods", ResourceRequest: true}
	if got := a.ConditionsAwareAuthorize(t.Context(), request); !got.IsAllow() {
		t.Errorf("decision = %v, want Allow", got)
	}
	decision, _, err := a.EvaluateConditions(t.Context(), authorizer.ConditionsAwareDecision{}, nil)
	if decision != authorizer.DecisionDeny || !errors.Is(err, authorizer.ErrorConditionEvaluationNotSupported) {
		t.Errorf("EvaluateConditions = %v, %v; want a denial", decision, err)
	}
}

func TestRulesFor(t *testing.T) {
	both := rbacv1.PolicyRule{Verbs: []string{"get"}, NonResourceURLs: []string{"/version"}}
	a := New(policyOf(t,
		clusterRole("r", allow("get", "", "pods", "p"), both),
		role("blue", "r", allow("list", "", "pods")),
		clusterRoleBinding("b", "r", subject("User", "ann"), subject("Group", "staff")),
		clusterRoleBinding("broken", "nosuch", subject("User", "ann")),
		roleBinding("blue", "b", "Role", "r", subject("Group", "staff")),
	))
	resources, urls, incomplete, err := a.RulesFor(t.Context(), &user.DefaultInfo{Name: "ann", Groups: []string{"staff"}}, "blue")

	wantResources := []authorizer.ResourceRuleInfo{
		&authorizer.DefaultResourceRuleInfo{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}, ResourceNames: []string{"p"}},
		&authorizer.DefaultResourceRuleInfo{Verbs: []string{"list"}, APIGroups: []string{""}, Resources: []string{"pods"}},
	}
	if diff := cmp.Diff(wantResources, resources); diff != "" {
		t.Errorf("a binding that names the user twice counts once; resources (-want +got):\n%s", diff)
	}
	wantURLs := []authorizer.NonResourceRuleInfo{
		&authorizer.DefaultNonResourceRuleInfo{Verbs: []string{"get"}, NonResourceURLs: []string{"/version"}},
	}
	if diff := cmp.Diff(wantURLs, urls); diff != "" {
		t.Errorf("URLs (-want +got):\n%s", diff)
	}
	if incomplete {
		t.Error("the list is marked as incomplete, but RBAC can list all its rules")
	}
	if err == nil {
		t.Error("no error, want one about the missing role")
	}
}

func TestConfirmNoEscalation(t *testing.T) {
	policy := policyOf(t,
		clusterRole("staff", allow("get", "", "*/status"), allow("get", "", "pods"), allow("*", "certificates.k8s.io", "signers", "a.b/c"), allowURL("get", "/metrics/*")),
		role("blue", "writer", allow("*", "*", "*")),
		clusterRoleBinding("staff", "staff", subject("Group", "staff")),
		clusterRoleBinding("broken", "nosuch", subject("User", "dora")),
		roleBinding("blue", "writers", "Role", "writer", subject("Group", "staff")),
	)
	ann := &user.DefaultInfo{Name: "ann", Groups: []string{"staff", "x"}}
	tests := []struct {
		reason    string
		user      user.Info
		namespace string
		rules     []rbacv1.PolicyRule
		want      string
	}{
		{"held", ann, "", []rbacv1.PolicyRule{allow("get", "", "pods", "p")}, ""},
		{"held through a wildcard", ann, "", []rbacv1.PolicyRule{allow("get", "", "nodes/status"), allow("sign", "certificates.k8s.io", "signers", "a.b/c")}, ""},
		{"URL held through a wildcard", ann, "", []rbacv1.PolicyRule{allowURL("get", "/metrics/slis")}, ""},
		{"held in the namespace only", ann, "blue", []rbacv1.PolicyRule{allow("delete", "apps", "deployments")}, ""},
		{"the whole resource is more than one name", ann, "", []rbacv1.PolicyRule{allow("sign", "certificates.k8s.io", "signers")},
			"user \"ann\" (groups=[\"staff\" \"x\"]) is attempting to grant RBAC permissions not currently held:\n" +
				`{APIGroups:["certificates.k8s.io"], Resources:["signers"], Verbs:["sign"]}`},
		{"a star is more than the verbs that exist", ann, "", []rbacv1.PolicyRule{allow("*", "", "pods")},
			"user \"ann\" (groups=[\"staff\" \"x\"]) is attempting to grant RBAC permissions not currently held:\n" +
				`{APIGroups:[""], Resources:["pods"], Verbs:["*"]}`},
		{"verbs of one resource share a line, lines are sorted", ann, "", []rbacv1.PolicyRule{
			{Verbs: []string{"list", "get", "watch"}, APIGroups: []string{""}, Resources: []string{"secrets", "pods"}},
			{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{"a", "b"}},
			allowURL("get", "/logs"),
		}, "user \"ann\" (groups=[\"staff\" \"x\"]) is attempting to grant RBAC permissions not currently held:\n" +
			`{APIGroups:[""], Resources:["configmaps"], ResourceNames:["a"], Verbs:["get"]}` + "\n" +
			`{APIGroups:[""], Resources:["configmaps"], ResourceNames:["b"], Verbs:["get"]}` + "\n" +
			`{APIGroups:[""], Resources:["pods"], Verbs:["list" "watch"]}` + "\n" +
			`{APIGroups:[""], Resources:["secrets"], Verbs:["list" "get" "watch"]}` + "\n" +
			`{NonResourceURLs:["/logs"], Verbs:["get"]}`},
		{"broken bindings are part of the explanation", &user.DefaultInfo{Name: "dora"}, "", []rbacv1.PolicyRule{allow("get", "", "pods")},
			"user \"dora\" (groups=[]) is attempting to grant RBAC permissions not currently held:\n" +
				`{APIGroups:[""], Resources:["pods"], Verbs:["get"]}` +
				`; resolution errors: [clusterrole.rbac.authorization.k8s.io "nosuch" not found]`},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			got := ""
			if err := ConfirmNoEscalation(t.Context(), NewResolver(policy), tt.user, tt.namespace, tt.rules); err != nil {
				got = err.Error()
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
		})
	}
}

// TestIndexFollowsUpdates checks that a removed subject loses its rights.
func TestIndexFollowsUpdates(t *testing.T) {
	shared := informers.NewSharedInformerFactory(nil, 0)
	policy := FromInformers(shared)
	store := shared.Rbac().V1().ClusterRoleBindings().Informer().GetIndexer()
	ann := &user.DefaultInfo{Name: "ann"}
	for _, step := range []struct {
		subjects []rbacv1.Subject
		want     int
	}{
		{[]rbacv1.Subject{subject("User", "ann")}, 1},
		{[]rbacv1.Subject{subject("User", "ben")}, 0},
	} {
		if err := store.Update(clusterRoleBinding("b", "r", step.subjects...)); err != nil {
			t.Fatal(err)
		}
		got, err := policy.ClusterRoleBindings(t.Context(), ann)
		if err != nil || len(got) != step.want {
			t.Errorf("bindings for ann with subjects %v = %d, %v; want %d", step.subjects, len(got), err, step.want)
		}
	}
}
