package explain

import (
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
)

// signerAccounts are the service accounts that sign: those of certplane's
// server, those of its controllers in a cluster, and that of
// kube-controller-manager.
var signerAccounts = []string{
	"kube-system/csr-signer", "kube-system/csr-webhook-signer",
	"certplane-system/csr-signer", "certplane-system/csr-webhook-signer",
	"kube-system/certificate-controller",
}

// declaredAccounts sign for declared signers.
var declaredAccounts = []string{"kube-system/declared-signer", "certplane-system/declared-signer"}

// issuerAccounts answer requests that name issuers: those of certplane's server
// and of its controllers in a cluster, and that of cert-manager.
var issuerAccounts = []string{
	"kube-system/cert-manager-certificatesigningrequests",
	"certplane-system/cert-manager-certificatesigningrequests",
	"cert-manager/cert-manager",
}

// approverAccounts approve every request that they may approve: those of
// certplane's server and of its controllers in a cluster, and that of
// cert-manager.
var approverAccounts = []string{
	"kube-system/cert-manager-certificaterequests-approver",
	"certplane-system/cert-manager-certificaterequests-approver",
	"cert-manager/cert-manager",
}

// asAccount is about a service account.
func asAccount(account string, access authorizationv1.ResourceAttributes) authorizationv1.SubjectAccessReviewSpec {
	namespace, name, _ := strings.Cut(account, "/")
	return authorizationv1.SubjectAccessReviewSpec{
		User:               "system:serviceaccount:" + namespace + ":" + name,
		Groups:             []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"},
		ResourceAttributes: &access,
	}
}
