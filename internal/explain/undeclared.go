package explain

import (
	"context"
	"fmt"
	"slices"
	"strings"

	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/signer"
)

// signersDomain is the prefix of the names of Kubernetes' signers.
const signersDomain = "kubernetes.io/"

// promises are the statements of Kubernetes' signers, as in docs/signers.md;
// the other statements are the same for all of them.
var promises = map[string]struct{ subjects, usages string }{
	"kubernetes.io/kube-apiserver-client": {
		"any subject, any names", "client auth; digital signature, key encipherment if requested",
	},
	"kubernetes.io/kube-apiserver-client-kubelet": {
		"the organization system:nodes, a common name that begins with system:node:, no other names", "client auth, digital signature; key encipherment if requested",
	},
	"kubernetes.io/kubelet-serving": {
		"the organization system:nodes, a common name that begins with system:node:, DNS names or IP addresses", "server auth, digital signature; key encipherment if requested",
	},
	signer.LegacyUnknown: {"any; the API takes no new requests for it", "any"},
}

// builtInStatements returns the statements of a signer that certplane can act
// as.
func builtInStatements(name string) []Statement {
	profile, err := signer.Lookup(name)
	if err != nil {
		return nil
	}
	promise := promises[name]
	return []Statement{
		{"Trust distribution", fmt.Sprintf("the roots are published as ClusterTrustBundles with spec.signerName=%s, where the controller trust runs", name)},
		{"Permitted subjects", promise.subjects},
		{"Permitted extensions", "alternative names and usages; requested others are left out"},
		{"Key usages", promise.usages + fmt.Sprintf("; keys: RSA from %d bits, ECDSA, Ed25519", profile.Policy.MinRSABits)},
		{"Lifetime", fmt.Sprintf("at most %s, which is also what a request gets that names none, unless it is set to less", length(profile.Lifetime.Max))},
		{"CA bit", "never set; who asks for it gets a certificate without"},
		{"Further PEM blocks", "the CAs between the certificate and its root, nearest first, if there are any"},
	}
}

// explainUndeclared explains a signer that no object declares, or none that the
// caller may list.
func explainUndeclared(ctx context.Context, api Reader, q Query, declarersKnown bool) (*SignerExplanation, error) {
	e := &SignerExplanation{SignerName: q.Name, Ready: Unknown, Statements: builtInStatements(q.Name)}
	if form := certmanager.SignerForm(q.Name); form != "" {
		e.Ready, e.Verdict = No, fmt.Sprintf("nobody signs for %s: issuers have names of the form %s", q.Name, form)
		return e, nil
	}
	if who, isIssuer := certmanager.ParseSignerName(q.Name); isIssuer {
		issuer, err := findIssuer(ctx, api, cmmeta.IssuerReference{Name: who.Name, Kind: who.Kind}, who.Namespace)
		if err != nil {
			return nil, err
		}
		check := issuer.check()
		e.Ready, e.Verdict = check.Result, fmt.Sprintf("%s is %s: %s", q.Name, issuer, check.Message)
		e.Next = issuer.steps(q, "name another one")
		return e, nil
	}
	accounts := signerAccounts
	if !declarersKnown && e.Statements == nil {
		accounts = slices.Concat(signerAccounts, declaredAccounts)
		e.Unknown = append(e.Unknown, fmt.Sprintf("you may not list signers.%s, one of which may declare it", v1alpha1.GroupName))
	}
	signers, known, err := whoMaySign(ctx, api, accounts, q.Name)
	if err != nil {
		return nil, err
	}
	e.judgeRights(signers, known, declarersKnown)
	if e.Statements == nil && declarersKnown {
		e.Next = []Step{step("To see which signers are declared:", q.kubectl("get", "signers", "-o", "wide"))}
	}
	return e, nil
}

// judgeRights sets the result that follows from the accounts that may sign. The
// permission of an account does not show that its controller runs.
func (e *SignerExplanation) judgeRights(signers []string, known, declarersKnown bool) {
	e.Verdict = e.SignerName + " is declared by no Signer"
	switch {
	case e.Statements != nil:
		e.Verdict = e.SignerName + " is a signer of Kubernetes"
	case !declarersKnown:
		e.Verdict = e.SignerName + " is no signer of Kubernetes"
	}
	switch {
	case !known:
		e.Verdict += "; you may not ask who may sign"
	case len(signers) == 0:
		e.Ready = No
		e.Verdict += "; no service account of certplane or Kubernetes may sign for it: another program has to"
	default:
		e.Verdict += "; may sign, where they run: " + strings.Join(signers, ", ")
	}
}
