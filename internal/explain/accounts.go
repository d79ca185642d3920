package explain

import (
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/certplane/certplane/internal/policy/request"
	"github.com/certplane/certplane/internal/rights"
)

// certManagerAccount is the service account of cert-manager.
const certManagerAccount = "cert-manager/cert-manager"

// The service accounts that may answer requests, as NAMESPACE/NAME.
var (
	// signerAccounts sign: the accounts of certplane and that of
	// kube-controller-manager.
	signerAccounts = append(ours(rights.Sign, rights.SignByWebhook), rights.ServeNamespace+"/"+rights.KubeCertificates.Account)
	// declaredAccounts sign for declared signers.
	declaredAccounts = ours(rights.SignDeclared)
	// issuerAccounts answer requests that name issuers.
	issuerAccounts = append(ours(rights.AnswerCSRs), certManagerAccount)
	// approverAccounts approve every request that they are permitted to
	// approve.
	approverAccounts = append(ours(rights.ApproveRequests), certManagerAccount)
)

// ours returns the accounts of these controllers, first in certplane's server
// and then in a cluster.
func ours(controllers ...rights.Controller) []string {
	var accounts []string
	for _, namespace := range []string{rights.ServeNamespace, rights.ClusterNamespace} {
		for _, c := range controllers {
			accounts = append(accounts, namespace+"/"+c.Account)
		}
	}
	return accounts
}

// asAccount returns the specification of a review of a service account's
// access.
func asAccount(account string, access authorizationv1.ResourceAttributes) authorizationv1.SubjectAccessReviewSpec {
	namespace, name, _ := strings.Cut(account, "/")
	who := request.ServiceAccount(namespace, name)
	return authorizationv1.SubjectAccessReviewSpec{User: who.Username, Groups: who.Groups, ResourceAttributes: &access}
}
