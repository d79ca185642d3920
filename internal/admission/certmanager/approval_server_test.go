package certmanager_test

import (
	"fmt"
	"strings"
	"testing"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	crdclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/apitest"
)

var both = []cmv1.CertificateRequestConditionType{cmv1.CertificateRequestConditionApproved, cmv1.CertificateRequestConditionDenied}

// A user who approves or denies needs the right for the issuer, in the form
// that its scope requires.
func TestApprovalNeedsPermission(t *testing.T) {
	w := start(t)
	namespaced, cluster := cmmeta.IssuerReference{Name: "ca"}, cmmeta.IssuerReference{Name: "ca", Kind: "ClusterIssuer", Group: "cert-manager.io"}
	tests := []struct {
		reason string
		issuer cmmeta.IssuerReference
		signer string // "" grants nothing
		may    bool
	}{
		{"nothing is granted", namespaced, "", false},
		{"all issuers", namespaced, "issuers.cert-manager.io/*", true},
		{"this issuer", namespaced, "issuers.cert-manager.io/" + w.namespace + ".ca", true},
		{"an issuer of this name elsewhere", namespaced, "issuers.cert-manager.io/other.ca", false},
		{"the form of a cluster's issuer", namespaced, "issuers.cert-manager.io/ca", false},
		{"all issuers of a namespace is no form", namespaced, "issuers.cert-manager.io/" + w.namespace + ".*", false},
		{"issuers of the cluster only", namespaced, "clusterissuers.cert-manager.io/*", false},
		{"all of the cluster", cluster, "clusterissuers.cert-manager.io/*", true},
		{"this one of the cluster", cluster, "clusterissuers.cert-manager.io/ca", true},
		{"the form of a namespace's issuer", cluster, "clusterissuers.cert-manager.io/" + w.namespace + ".ca", false},
		{"issuers of namespaces only", cluster, "issuers.cert-manager.io/*", false},
	}
	for i, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			user := w.user(fmt.Sprintf("approver-%d", i))
			rules := []rbacv1.PolicyRule{rule("update", "certificaterequests/status")}
			if tc.signer != "" {
				rules = append(rules, rule("approve", "signers", tc.signer))
			}
			approver := w.as(t, user, rules...)
			for _, kind := range both {
				cr := create(t, w.admin, newRequest(t, fmt.Sprintf("r%d-%s", i, strings.ToLower(string(kind))), tc.issuer))
				err := decide(t, approver, cr, kind)
				if tc.may && err != nil {
					t.Errorf("%s: %v", kind, err)
				}
				if !tc.may {
					refused(t, err, fmt.Sprintf("status.conditions: Forbidden: user %q does not have permissions to set approved/denied conditions for issuer {%s %s %s}",
						user, tc.issuer.Name, tc.issuer.Kind, tc.issuer.Group))
				}
			}
		})
	}
}

// A request is decided once, one way, and the decision stays.
func TestDecisionsStay(t *testing.T) {
	w := start(t)
	for i, kind := range both {
		other := both[1-i]
		t.Run(string(kind), func(t *testing.T) {
			cr := create(t, w.admin, newRequest(t, strings.ToLower(string(kind)), someIssuer))
			if err := decide(t, w.admin, cr, kind); err != nil {
				t.Fatal(err)
			}
			for reason, edit := range map[string]func(*cmv1.CertificateRequestCondition){
				"message": func(c *cmv1.CertificateRequestCondition) { c.Message = "other" },
				"reason":  func(c *cmv1.CertificateRequestCondition) { c.Reason = "Other" },
				"time":    func(c *cmv1.CertificateRequestCondition) { c.LastTransitionTime = &metav1.Time{} },
				"status":  func(c *cmv1.CertificateRequestCondition) { c.Status = cmmeta.ConditionFalse },
				"type":    func(c *cmv1.CertificateRequestCondition) { c.Type = other },
			} {
				changed := cr.DeepCopy()
				edit(&changed.Status.Conditions[0])
				t.Log(reason)
				refused(t, w.admin.Status().Update(t.Context(), changed), fmt.Sprintf("status.conditions: Forbidden: '%s' condition may not be modified once set", kind))
			}
			removed := cr.DeepCopy()
			removed.Status.Conditions = nil
			refused(t, w.admin.Status().Update(t.Context(), removed), fmt.Sprintf("'%s' condition may not be modified once set", kind))
			refused(t, decide(t, w.admin, cr, other), "both 'Denied' and 'Approved' conditions cannot coexist")

			// A user who may write the status may add to it, but must keep the
			// decision.
			signer := w.as(t, w.user("signer-"+cr.Name), rule("get update patch", "certificaterequests/status"))
			cr.Status.Conditions = append(cr.Status.Conditions, cmv1.CertificateRequestCondition{
				Type: cmv1.CertificateRequestConditionReady, Status: cmmeta.ConditionFalse, Reason: cmv1.CertificateRequestReasonPending,
			})
			if err := signer.Status().Update(t.Context(), cr); err != nil {
				t.Errorf("keeping the decision: %v", err)
			}
		})
	}
	cr := create(t, w.admin, newRequest(t, "false", someIssuer))
	cr.Status.Conditions = []cmv1.CertificateRequestCondition{{Type: cmv1.CertificateRequestConditionApproved, Status: cmmeta.ConditionFalse}}
	refused(t, w.admin.Status().Update(t.Context(), cr), `"Approved" condition may only be set to True`)
}

// Requests for a kind that does not exist cannot be approved; they can once the
// kind is defined.
func TestApprovalNeedsTheKind(t *testing.T) {
	w := startOn(t, apitest.Start(t, withoutControllers))
	wrong := create(t, w.admin, newRequest(t, "wrong-group", cmmeta.IssuerReference{Name: "x", Kind: "Vault", Group: "issuers.example.com"}))
	refused(t, decide(t, w.admin, wrong, cmv1.CertificateRequestConditionApproved),
		"spec.issuerRef: Forbidden: referenced signer resource does not exist: {x Vault issuers.example.com}")
	absent := create(t, w.admin, newRequest(t, "wrong-kind", cmmeta.IssuerReference{Name: "x", Kind: "Vault", Group: "acme.cert-manager.io"}))
	refused(t, decide(t, w.admin, absent, cmv1.CertificateRequestConditionDenied),
		"spec.issuerRef: Forbidden: referenced signer resource does not exist: {x Vault acme.cert-manager.io}")

	define(t, w)
	apitest.Eventually(t, "a request of an external issuer can be approved", func() bool {
		return decide(t, w.admin, wrong, cmv1.CertificateRequestConditionApproved) == nil
	})
	second := create(t, w.admin, newRequest(t, "external", wrong.Spec.IssuerRef))
	approver := w.as(t, "approver", rule("update", "certificaterequests/status"), rule("approve", "signers", "vaults.issuers.example.com/"+w.namespace+".x"))
	if err := decide(t, approver, second, cmv1.CertificateRequestConditionApproved); err != nil {
		t.Errorf("with the right for the external issuer: %v", err)
	}
}

// define defines a namespaced kind Vault in issuers.example.com.
func define(t *testing.T, w *world) {
	t.Helper()
	crds, err := crdclient.NewForConfig(w.Admin(t))
	if err != nil {
		t.Fatal(err)
	}
	anything := true
	definition := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "vaults.issuers.example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "issuers.example.com", Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "vaults", Kind: "Vault"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", XPreserveUnknownFields: &anything,
				}},
				Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
			}},
		},
	}
	if _, err := crds.ApiextensionsV1().CustomResourceDefinitions().Create(t.Context(), definition, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// The rights of a namespace's viewers, editors and administrators.
func TestRolesOfUsers(t *testing.T) {
	w := start(t)
	for _, role := range []string{"view", "edit", "admin"} {
		binding := &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: role},
			RoleRef:    rbacv1.RoleRef{Kind: "ClusterRole", Name: role},
			Subjects:   []rbacv1.Subject{{Kind: "User", Name: role}},
		}
		if err := w.admin.Create(t.Context(), binding); err != nil {
			t.Fatal(err)
		}
	}
	tests := []struct {
		verb, group, resource, subresource string
		view, edit                         bool
	}{
		{"get", "cert-manager.io", "certificates", "", true, true},
		{"watch", "cert-manager.io", "certificaterequests", "", true, true},
		{"list", "acme.cert-manager.io", "challenges", "", true, true},
		{"create", "cert-manager.io", "issuers", "", false, true},
		{"deletecollection", "cert-manager.io", "certificaterequests", "", false, true},
		{"update", "cert-manager.io", "certificates", "status", false, true},
		{"update", "cert-manager.io", "certificaterequests", "status", false, false},
		{"update", "cert-manager.io", "issuers", "status", false, false},
		{"patch", "acme.cert-manager.io", "challenges", "", false, true},
		{"create", "acme.cert-manager.io", "challenges", "", false, false},
		{"delete", "acme.cert-manager.io", "orders", "", false, true},
		{"create", "acme.cert-manager.io", "orders", "", false, false},
		{"update", "acme.cert-manager.io", "orders", "", false, false},
		{"get", "cert-manager.io", "clusterissuers", "", false, false},
		{"create", "cert-manager.io", "clusterissuers", "", false, false},
		{"approve", "cert-manager.io", "signers", "", false, false},
	}
	for _, tc := range tests {
		what := attributes(w.namespace, tc.verb, tc.group, tc.resource, tc.subresource)
		for user, want := range map[string]bool{"view": tc.view, "edit": tc.edit, "admin": tc.edit} {
			if want {
				apitest.Eventually(t, fmt.Sprintf("%s may %s %s/%s", user, tc.verb, tc.resource, tc.subresource), func() bool {
					return w.Allowed(t, user, nil, what)
				})
			} else if w.Allowed(t, user, nil, what) {
				t.Errorf("%s may %s %s/%s", user, tc.verb, tc.resource, tc.subresource)
			}
		}
	}
}

// Requests can be decided by a patch, and by applying one's own condition.
func TestDecisionByPatch(t *testing.T) {
	w := start(t)
	cr := create(t, w.admin, newRequest(t, "patched", someIssuer))
	nobody := w.as(t, w.user("nobody"), rule("get patch", "certificaterequests certificaterequests/status"))
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"status":{"conditions":[{"type":"Approved","status":"True"}]}}`))
	refused(t, nobody.Status().Patch(t.Context(), cr.DeepCopy(), patch), "does not have permissions")
	apply := client.RawPatch("application/apply-patch+yaml", []byte(`{"apiVersion":"cert-manager.io/v1","kind":"CertificateRequest","status":{"conditions":[{"type":"Approved","status":"True","reason":"Policy","message":"fine"}]}}`))
	refused(t, nobody.Status().Patch(t.Context(), cr.DeepCopy(), apply, client.FieldOwner("policy")), "does not have permissions")
	if err := w.admin.Status().Patch(t.Context(), cr, apply, client.FieldOwner("policy")); err != nil {
		t.Fatal(err)
	}
	ready := client.RawPatch("application/apply-patch+yaml", []byte(`{"apiVersion":"cert-manager.io/v1","kind":"CertificateRequest","status":{"conditions":[{"type":"Ready","status":"False","reason":"Pending"}]}}`))
	if err := nobody.Status().Patch(t.Context(), cr, ready, client.FieldOwner("signer")); err != nil || len(cr.Status.Conditions) != 2 {
		t.Errorf("a signer's own condition beside the approver's: %+v, %v", cr.Status.Conditions, err)
	}
}
