package explain

import (
	"context"
	"fmt"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/policy/request"
	"github.com/certplane/certplane/internal/rights"
)

// certManagerAccount is the service account of cert-manager.
const certManagerAccount = "cert-manager/cert-manager"

// The service accounts that may answer requests, as NAMESPACE/NAME.
var (
	// signerAccounts sign: the accounts of certplane and that of
	// kube-controller-manager.
	signerAccounts = append(certplaneAccounts(rights.Sign, rights.SignByWebhook), rights.ServeNamespace+"/"+rights.KubeCertificates.Account)
	// declaredAccounts sign for declared signers.
	declaredAccounts = certplaneAccounts(rights.SignDeclared)
	// issuerAccounts answer requests that name issuers.
	issuerAccounts = append(certplaneAccounts(rights.AnswerCSRs), certManagerAccount)
	// approverAccounts approve every request that they are permitted to
	// approve.
	approverAccounts = append(certplaneAccounts(rights.ApproveRequests), certManagerAccount)
)

// certplaneAccounts returns the accounts of these controllers, first in
// certplane's server and then in a cluster.
func certplaneAccounts(controllers ...rights.Controller) []string {
	var accounts []string
	for _, namespace := range []string{rights.ServeNamespace, rights.ClusterNamespace} {
		for _, c := range controllers {
			accounts = append(accounts, namespace+"/"+c.Account)
		}
	}
	return accounts
}

// Texts for permissions that the caller lacks.
const (
	mayNotCheckOthers  = "you may not check the permissions of other users: that requires create on subjectaccessreviews"
	mayNotCheckSigners = "you may not check which accounts may sign"
	mayNotListSigners  = "you may not list signers." + v1alpha1.GroupName
)

// malformedIssuer returns the text for a signer name that should name an issuer; form is
// the correct form.
func malformedIssuer(signerName, form string) string {
	return fmt.Sprintf("no signer has the name %s: issuers have names of the form %s", signerName, form)
}

func noSignerAccount(signerName string) string {
	return fmt.Sprintf("no service account of certplane or Kubernetes may sign for %s: another program must sign", signerName)
}

// mayNotRead returns the text for objects that the caller may not read.
// namespace is empty for resources of the whole cluster.
func mayNotRead(verb, resource, namespace string) string {
	text := "you may not " + verb + " " + resource
	if namespace != "" {
		text += " in the namespace " + namespace
	}
	return text
}

// accessCheck reports whether a certain user has an access. The result is
// Unknown if the caller may not ask.
type accessCheck func(authorizationv1.ResourceAttributes) (Result, error)

// ofCaller checks the access of the caller.
func ofCaller(ctx context.Context, api Reader) accessCheck {
	return func(access authorizationv1.ResourceAttributes) (Result, error) { return result(api.MayI(ctx, access)) }
}

// ofAccount checks the access of a service account.
func ofAccount(ctx context.Context, api Reader, account string) accessCheck {
	namespace, name, _ := strings.Cut(account, "/")
	user := request.ServiceAccount(namespace, name)
	return func(access authorizationv1.ResourceAttributes) (Result, error) {
		return result(api.May(ctx, authorizationv1.SubjectAccessReviewSpec{User: user.Username, Groups: user.Groups, ResourceAttributes: &access}))
	}
}

// access returns the attributes of a verb on an object of a group.
func access(verb, group, resource string, object client.Object) authorizationv1.ResourceAttributes {
	return authorizationv1.ResourceAttributes{
		Verb: verb, Group: group, Version: "*", Resource: resource, Namespace: object.GetNamespace(), Name: object.GetName(),
	}
}

// any reports whether the user has at least one of the accesses.
func (check accessCheck) any(accesses []authorizationv1.ResourceAttributes) (Result, error) {
	for _, access := range accesses {
		if answer, err := check(access); err != nil || answer != No {
			return answer, err
		}
	}
	return No, nil
}

// mayApprove reports whether the user may approve a request: this requires the update of
// the request, and one of the permissions for its signer.
func (check accessCheck) mayApprove(update authorizationv1.ResourceAttributes, approve []authorizationv1.ResourceAttributes) (Result, error) {
	if answer, err := check(update); err != nil || answer != Yes {
		return answer, err
	}
	return check.any(approve)
}

// mayGrant reports whether the user may bind roles in a namespace, or in the
// whole cluster if namespace is empty.
func (check accessCheck) mayGrant(namespace string) (Result, error) {
	bindings := "clusterrolebindings"
	if namespace != "" {
		bindings = "rolebindings"
	}
	return check(authorizationv1.ResourceAttributes{
		Verb: "create", Group: rbacv1.GroupName, Version: "*", Resource: bindings, Namespace: namespace,
	})
}

// signerAccess returns alternative accesses that permit a verb on a signer of Kubernetes:
// permissions are granted for the signer or for its domain.
func signerAccess(verb, signerName string) []authorizationv1.ResourceAttributes {
	domain, _, _ := strings.Cut(signerName, "/")
	return signersAccess(verb, certificatesv1.GroupName, signerName, domain+"/*")
}

// signersAccess returns a verb on each of these signers of a group.
func signersAccess(verb, group string, names ...string) []authorizationv1.ResourceAttributes {
	var accesses []authorizationv1.ResourceAttributes
	for _, name := range names {
		accesses = append(accesses, authorizationv1.ResourceAttributes{Verb: verb, Group: group, Version: "*", Resource: "signers", Name: name})
	}
	return accesses
}

// permittedSigners returns the accounts that may sign for a signer. known is false if the
// caller may not check.
func permittedSigners(ctx context.Context, api Reader, accounts []string, signerName string) (permitted []string, known bool, err error) {
	for _, account := range accounts {
		switch allowed, err := ofAccount(ctx, api, account).any(signerAccess("sign", signerName)); {
		case err != nil:
			return nil, false, err
		case allowed == Unknown:
			return nil, false, nil
		case allowed == Yes:
			permitted = append(permitted, account)
		}
	}
	return permitted, true, nil
}

// grant is a permission on a signer of cert-manager.io, for one subject.
type grant struct {
	// namespace is empty for a permission in the whole cluster.
	namespace     string
	role, binding string
	verb, signer  string
	subject       rbacv1.Subject
}

// manifest returns the role and its binding in YAML.
func (g grant) manifest() string {
	kind := "Role"
	if g.namespace == "" {
		kind = "ClusterRole"
	}
	return document(rbacv1.ClusterRole{
		TypeMeta: typeOf(kind), ObjectMeta: metav1.ObjectMeta{Namespace: g.namespace, Name: g.role},
		Rules: []rbacv1.PolicyRule{{APIGroups: []string{certmanager.Group}, Resources: []string{"signers"}, Verbs: []string{g.verb}, ResourceNames: []string{g.signer}}},
	}) + "---\n" + document(rbacv1.ClusterRoleBinding{
		TypeMeta: typeOf(kind + "Binding"), ObjectMeta: metav1.ObjectMeta{Namespace: g.namespace, Name: g.binding},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: g.role},
		Subjects: []rbacv1.Subject{g.subject},
	})
}

func typeOf(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: kind}
}

// document returns an object of RBAC in YAML. All of them can be marshalled.
func document(object any) string {
	text, err := yaml.Marshal(object)
	utilruntime.Must(err)
	return string(text)
}
