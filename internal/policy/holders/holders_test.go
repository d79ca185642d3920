package holders_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/policy/holders"
)

const (
	certificates = "certificates.k8s.io"
	certManager  = "cert-manager.io"
)

// The rules of approvers, in parts.
var (
	read     = allow("get list watch", certificates, "certificatesigningrequests")
	update   = allow("update", certificates, "certificatesigningrequests/approval")
	hosts    = allow("approve", certificates, "signers", "example.com/hosts")
	anyHost  = allow("approve", certificates, "signers", "example.com/*")
	status   = allow("update", certManager, "certificaterequests/status")
	shopCA   = allow("approve", certManager, "signers", "issuers.cert-manager.io/shop.ca")
	approver = []rbacv1.PolicyRule{read, update, hosts}
)

// approveHosts asks who may approve for example.com/hosts.
func approveHosts() holders.Question {
	signer := allow("approve", certificates, "signers", "example.com/hosts", "example.com/*")
	return holders.Question{Rights: []holders.Right{
		{AnyOf: []rbacv1.PolicyRule{allow("patch update", certificates, "certificatesigningrequests/approval")}},
		{AnyOf: []rbacv1.PolicyRule{signer}, Mistaken: []string{"certplane.dev"}},
		{AnyOf: []rbacv1.PolicyRule{allow("get", certificates, "certificatesigningrequests")}, Optional: true},
	}}
}

// approveShop asks who may approve for the Issuer shop/ca, or for any
// ClusterIssuer if its namespace is empty.
func approveShop(namespace string) holders.Question {
	signer := allow("approve", certManager, "signers", "issuers.cert-manager.io/shop.ca", "issuers.cert-manager.io/*")
	return holders.Question{Namespace: namespace, Rights: []holders.Right{
		{AnyOf: []rbacv1.PolicyRule{allow("patch update", certManager, "certificaterequests/status")}, Namespaced: true},
		{AnyOf: []rbacv1.PolicyRule{signer}},
		{AnyOf: []rbacv1.PolicyRule{allow("get", certManager, "certificaterequests")}, Namespaced: true, Optional: true},
	}}
}

func TestFind(t *testing.T) {
	for _, tt := range []struct {
		reason   string
		objects  holders.Objects
		question holders.Question // approveHosts, if not given
		may      []string         // all but system:masters
		mayNot   []string
		together bool
	}{
		{reason: "nobody is bound", objects: world(clusterRole("a", approver...))},
		{reason: "a user, a group and an account are bound",
			objects: world(clusterRole("a", approver...), bind("b", "a", user("ann"), group("team-b"), account("shop", "bot"))),
			may:     []string{"Group team-b", "ServiceAccount shop/bot", "User ann"}},
		{reason: "an account by the name of its user",
			objects: world(clusterRole("a", approver...), bind("b", "a", user("system:serviceaccount:shop:bot"))),
			may:     []string{"ServiceAccount shop/bot"}},
		{reason: "an account without a namespace is nobody",
			objects: world(clusterRole("a", approver...), bind("b", "a", account("", "bot")))},
		{reason: "all of a domain's signers",
			objects: world(clusterRole("a", read, update, anyHost), bind("b", "a", user("ann"))), may: []string{"User ann"}},
		{reason: "all signers",
			objects: world(clusterRole("a", read, update, allow("approve", certificates, "signers")), bind("b", "a", user("ann"))), may: []string{"User ann"}},
		{reason: "everything",
			objects: world(clusterRole("a", allow("*", "*", "*")), bind("b", "a", user("ann"))), may: []string{"User ann"}},
		{reason: "the approval of any resource, by patch",
			objects: world(clusterRole("a", read, allow("patch", certificates, "*/approval"), hosts), bind("b", "a", user("ann"))), may: []string{"User ann"}},
		{reason: "rights from two bindings add up",
			objects: world(clusterRole("a", read, update), clusterRole("s", hosts), bind("b", "a", user("ann")), bind("c", "s", user("ann"))), may: []string{"User ann"}},
		{reason: "an account has the rights of the groups of all accounts",
			objects: world(clusterRole("a", read, update), clusterRole("s", hosts), bind("b", "a", group("system:serviceaccounts:shop")), bind("c", "s", account("shop", "bot"))),
			may:     []string{"ServiceAccount shop/bot"},
			mayNot:  []string{"Group system:serviceaccounts:shop lacks approve on signers.certificates.k8s.io example.com/hosts or example.com/*"}},
		{reason: "a group has the rights of all users, and others are not told twice",
			objects: world(clusterRole("a", approver...), bind("b", "a", group("system:authenticated")), clusterRole("s", hosts), bind("c", "s", group("team-b")), bind("d", "s", user("system:anonymous"))),
			may:     []string{"Group system:authenticated", "Group team-b"},
			mayNot:  []string{"User system:anonymous lacks patch or update on certificatesigningrequests/approval; get on certificatesigningrequests?"}},
		{reason: "who has other rights is not told",
			objects: world(clusterRole("a", read, allow("get", "", "pods")), bind("b", "a", user("ann")))},
		{reason: "without reading, it can be done",
			objects: world(clusterRole("a", update, hosts), bind("b", "a", user("ann"))),
			may:     []string{"User ann lacks get on certificatesigningrequests?"}},
		{reason: "the right to the signer alone",
			objects: world(clusterRole("a", read, hosts), bind("b", "a", user("carol"))),
			mayNot:  []string{"User carol lacks patch or update on certificatesigningrequests/approval"}},
		{reason: "another signer",
			objects: world(clusterRole("a", read, update, allow("approve", certificates, "signers", "example.com/host")), bind("b", "a", user("ann"))),
			mayNot:  []string{"User ann lacks approve on signers.certificates.k8s.io example.com/hosts or example.com/*: ClusterRoleBinding b gives it for example.com/host alone"}},
		{reason: "a star that stands for nothing",
			objects: world(clusterRole("a", allow("approve", certificates, "signers", "*")), bind("b", "a", user("ann"))),
			mayNot: []string{"User ann lacks patch or update on certificatesigningrequests/approval; approve on signers.certificates.k8s.io example.com/hosts or example.com/*: " +
				"ClusterRoleBinding b gives it for * alone; a star stands for names only in DOMAIN/*; get on certificatesigningrequests?"}},
		{reason: "the objects that are called signers",
			objects: world(clusterRole("a", read, update, allow("approve", "certplane.dev", "signers")), bind("b", "a", user("ann"))),
			mayNot: []string{"User ann lacks approve on signers.certificates.k8s.io example.com/hosts or example.com/*: " +
				"ClusterRoleBinding b gives it in the API group certplane.dev, which is another right"}},
		{reason: "a right to a signer in a namespace",
			objects: world(clusterRole("a", approver...), bindIn("shop", "b", "ClusterRole", "a", user("ann"))),
			mayNot: []string{"User ann lacks patch or update on certificatesigningrequests/approval: RoleBinding shop/b gives it in the namespace shop alone, which has no effect; " +
				"approve on signers.certificates.k8s.io example.com/hosts or example.com/*: RoleBinding shop/b gives it in the namespace shop alone, which has no effect; " +
				"get on certificatesigningrequests: RoleBinding shop/b gives it in the namespace shop alone, which has no effect?"}},
		{reason: "some requests only",
			objects: world(clusterRole("a", read, hosts, allow("update", certificates, "certificatesigningrequests/approval", "csr-1")), bind("b", "a", user("ann"))),
			mayNot:  []string{"User ann lacks patch or update on certificatesigningrequests/approval: ClusterRoleBinding b gives it for csr-1 alone"}},
		{reason: "a binding to a role that does not exist", objects: world(bind("b", "nosuch", user("ann")), bindIn("shop", "c", "Role", "nosuch", user("ann")))},
		{reason: "a user of two groups could hold all rights",
			objects: world(clusterRole("a", read, update), clusterRole("s", read, hosts), bind("b", "a", group("deciders")), bind("c", "s", group("hosts"))),
			mayNot: []string{"Group deciders lacks approve on signers.certificates.k8s.io example.com/hosts or example.com/*",
				"Group hosts lacks patch or update on certificatesigningrequests/approval"},
			together: true},
		{reason: "nobody is two users",
			objects: world(clusterRole("a", read, update), clusterRole("s", read, hosts), bind("b", "a", user("ann")), bind("c", "s", user("ben"), account("shop", "bot"))),
			mayNot: []string{"ServiceAccount shop/bot lacks patch or update on certificatesigningrequests/approval",
				"User ann lacks approve on signers.certificates.k8s.io example.com/hosts or example.com/*", "User ben lacks patch or update on certificatesigningrequests/approval"}},

		{reason: "requests in one namespace", question: approveShop("shop"),
			objects: world(role("shop", "a", status), clusterRole("s", shopCA), bindIn("shop", "b", "Role", "a", user("ann")), bind("c", "s", user("ann"))),
			may:     []string{"User ann in shop lacks get on certificaterequests?"}},
		{reason: "a cluster role in a namespace", question: approveShop("shop"),
			objects: world(clusterRole("a", status), clusterRole("s", shopCA), bindIn("shop", "b", "ClusterRole", "a", account("", "bot")), bind("c", "s", account("shop", "bot"))),
			may:     []string{"ServiceAccount shop/bot in shop lacks get on certificaterequests?"}},
		{reason: "requests in all namespaces", question: approveShop("shop"),
			objects: world(clusterRole("a", status, shopCA), bind("b", "a", user("ann")), role("shop", "r", status), bindIn("shop", "c", "Role", "r", user("ann"))),
			may:     []string{"User ann lacks get on certificaterequests?"}},
		{reason: "requests in another namespace", question: approveShop("shop"),
			objects: world(role("web", "a", status), clusterRole("s", shopCA), bindIn("web", "b", "Role", "a", user("ann")), bind("c", "s", user("ann"))),
			mayNot:  []string{"User ann lacks patch or update on certificaterequests/status; get on certificaterequests?"}},
		{reason: "any namespace, each for itself", question: approveShop(""),
			objects: world(role("web", "a", status, allow("get", certManager, "certificaterequests")), role("shop", "a", status), clusterRole("s", shopCA),
				bindIn("web", "b", "Role", "a", user("ann")), bindIn("shop", "b", "Role", "a", user("ann"), user("ben")), bind("c", "s", user("ann"))),
			may:    []string{"User ann in shop web lacks get on certificaterequests?"},
			mayNot: []string{"User ben in shop lacks approve on signers.cert-manager.io issuers.cert-manager.io/shop.ca or issuers.cert-manager.io/*; get on certificaterequests?"}},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			question := tt.question
			if question.Rights == nil {
				question = approveHosts()
			}
			got := holders.Find(tt.objects, question)
			masters := []string{"Group system:masters"}
			if diff := cmp.Diff(slices.Sorted(slices.Values(append(masters, tt.may...))), sortedTexts(got.Holders)); diff != "" {
				t.Errorf("may (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.mayNot, sortedTexts(got.Partial)); diff != "" {
				t.Errorf("may not (-want +got):\n%s", diff)
			}
			if got.Together != tt.together {
				t.Errorf("together: %t", got.Together)
			}
		})
	}
}

// Each right is told with where it comes from.
func TestSources(t *testing.T) {
	gathering := clusterRole("all", approver...)
	gathering.AggregationRule = &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{"to": "all"}}}}
	part := clusterRole("part", hosts)
	part.Labels = map[string]string{"to": "all"}
	other := clusterRole("other", update)
	got := holders.Find(world(gathering, part, other,
		bind("b", "all", group("team-b"), group("team-b")), bind("c", "other", group("system:authenticated"))), approveHosts())
	var lines []string
	for _, held := range got.Holders[1].Has {
		for _, s := range held.Sources {
			lines = append(lines, fmt.Sprintf("%s: %s, %s %v %s", held.Right, s.Binding, s.Role, s.From, s.Group))
		}
	}
	want := []string{
		"patch or update on certificatesigningrequests/approval: ClusterRoleBinding b, ClusterRole all [] ",
		"patch or update on certificatesigningrequests/approval: ClusterRoleBinding c, ClusterRole other [] system:authenticated",
		"approve on signers.certificates.k8s.io example.com/hosts or example.com/*: ClusterRoleBinding b, ClusterRole all [part] ",
		"get on certificatesigningrequests: ClusterRoleBinding b, ClusterRole all [] ",
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("sources of %s (-want +got):\n%s", got.Holders[1], diff)
	}
	if masters := got.Holders[0]; !masters.BuiltIn || len(masters.Has) != 1 {
		t.Errorf("%+v", masters)
	}
}

func TestFindActors(t *testing.T) {
	for _, tt := range []struct {
		reason   string
		objects  holders.Objects
		subjects []holders.Subject
		want     []string
	}{
		{"any user", world(clusterRole("a", allow("impersonate", "", "users")), bind("b", "a", user("ann"))), []holders.Subject{aUser("bob")},
			[]string{"User ann as User bob by impersonate on users"}},
		{"another user", world(clusterRole("a", allow("impersonate", "", "users", "cleo")), bind("b", "a", user("ann"))), []holders.Subject{aUser("bob")}, nil},
		{"users, not groups", world(clusterRole("a", allow("impersonate", "", "users")), bind("b", "a", user("ann"))), []holders.Subject{{Kind: "Group", Name: "team-b"}}, nil},
		{"a group, in the newer way", world(clusterRole("a", allow("impersonate:user-info", "authentication.k8s.io", "groups", "team-b")), bind("b", "a", user("ann"))),
			[]holders.Subject{{Kind: "Group", Name: "team-b"}}, []string{"User ann as Group team-b by impersonate:user-info on groups"}},
		{"an account of the namespace, with two rights", world(role("shop", "a", allow("impersonate", "", "serviceaccounts"), allow("create", "", "serviceaccounts/token", "bot")),
			bindIn("shop", "b", "Role", "a", user("ann"))), []holders.Subject{{Kind: "ServiceAccount", Namespace: "shop", Name: "bot"}},
			[]string{"User ann as ServiceAccount shop/bot by create on serviceaccounts/token, impersonate on serviceaccounts"}},
		{"an account of another namespace", world(role("web", "a", allow("impersonate", "", "serviceaccounts")), bindIn("web", "b", "Role", "a", user("ann"))),
			[]holders.Subject{{Kind: "ServiceAccount", Namespace: "shop", Name: "bot"}}, nil},
		{"a user, in a namespace", world(role("web", "a", allow("impersonate", "", "users")), bindIn("web", "b", "Role", "a", user("ann"))), []holders.Subject{aUser("bob")}, nil},
		{"one of the subjects", world(clusterRole("a", allow("*", "*", "*")), bind("b", "a", user("ann"))), []holders.Subject{aUser("ann"), aUser("bob")}, nil},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			var got []string
			for _, actor := range holders.FindActors(tt.objects, tt.subjects) {
				got = append(got, fmt.Sprintf("%s as %s by %s", actor.Subject, actor.As[0], strings.Join(actor.By, ", ")))
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// sortedTexts returns a line for each holder, with what it lacks.
func sortedTexts(list []holders.Holder) []string {
	var texts []string
	for _, h := range list {
		text := h.Subject.String()
		if len(h.Namespaces) > 0 {
			text += " in " + strings.Join(h.Namespaces, " ")
		}
		var lacks []string
		for _, l := range h.Lacks {
			lack := l.Right
			if len(l.Almost) > 0 {
				lack += ": " + strings.Join(l.Almost, ", ")
			}
			if l.Optional {
				lack += "?"
			}
			lacks = append(lacks, lack)
		}
		if len(lacks) > 0 {
			text += " lacks " + strings.Join(lacks, "; ")
		}
		texts = append(texts, text)
	}
	slices.Sort(texts)
	return texts
}

// world returns the objects of RBAC, of any kind.
func world(objects ...any) holders.Objects {
	o := holders.Objects{}
	for _, object := range objects {
		switch object := object.(type) {
		case rbacv1.ClusterRole:
			o.ClusterRoles = append(o.ClusterRoles, object)
		case rbacv1.Role:
			o.Roles = append(o.Roles, object)
		case rbacv1.ClusterRoleBinding:
			o.ClusterRoleBindings = append(o.ClusterRoleBindings, object)
		case rbacv1.RoleBinding:
			o.RoleBindings = append(o.RoleBindings, object)
		default:
			panic(fmt.Sprintf("%T", object))
		}
	}
	return o
}

func allow(verbs, group, resource string, names ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: strings.Fields(verbs), APIGroups: []string{group}, Resources: []string{resource}, ResourceNames: names}
}

func clusterRole(name string, rules ...rbacv1.PolicyRule) rbacv1.ClusterRole {
	return rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}
}

func role(namespace, name string, rules ...rbacv1.PolicyRule) rbacv1.Role {
	return rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Rules: rules}
}

func bind(name, to string, subjects ...rbacv1.Subject) rbacv1.ClusterRoleBinding {
	return rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: to}, Subjects: subjects}
}

func bindIn(namespace, name, kind, to string, subjects ...rbacv1.Subject) rbacv1.RoleBinding {
	return rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, RoleRef: rbacv1.RoleRef{Kind: kind, Name: to}, Subjects: subjects}
}

func user(name string) rbacv1.Subject  { return rbacv1.Subject{Kind: "User", Name: name} }
func group(name string) rbacv1.Subject { return rbacv1.Subject{Kind: "Group", Name: name} }
func account(namespace, name string) rbacv1.Subject {
	return rbacv1.Subject{Kind: "ServiceAccount", Namespace: namespace, Name: name}
}
func aUser(name string) holders.Subject { return holders.Subject{Kind: "User", Name: name} }
