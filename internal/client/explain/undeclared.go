package explain

import (
	"context"
	"fmt"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/issuing/signer"
	"github.com/certplane/certplane/internal/rights"
)

// signersDomain is the prefix of the names of Kubernetes' signers.
const signersDomain = "kubernetes.io/"

// promises are the statements of Kubernetes' signers, as in docs/signers.md; the other
// statements are identical for all of them.
var promises = map[string]struct{ subjects, usages string }{
	certificatesv1.KubeAPIServerClientSignerName: {
		"any subject, any names", "client auth; digital signature, key encipherment if requested",
	},
	certificatesv1.KubeAPIServerClientKubeletSignerName: {
		"the organization system:nodes, a common name that begins with system:node:, no other names", "client auth, digital signature; key encipherment if requested",
	},
	certificatesv1.KubeletServingSignerName: {
		"the organization system:nodes, a common name that begins with system:node:, DNS names or IP addresses", "server auth, digital signature; key encipherment if requested",
	},
	signer.LegacyUnknown: {"any; the API takes no new requests for it", "any"},
}

// builtInStatements returns the statements of a signer that certplane implements.
func builtInStatements(name string) []Statement {
	profile, err := signer.Lookup(name)
	if err != nil {
		return nil
	}
	promise, ignoring := promises[name], v1alpha1.SignerProfile{Extensions: v1alpha1.IgnoreExtensions, CertificateAuthorities: v1alpha1.IgnoreCAs}
	return newStatements([...]string{
		trust(v1alpha1.SignerSpec{SignerName: name}) + ", where the controller " + rights.Trust.Name + " runs",
		promise.subjects,
		extensions(ignoring),
		promise.usages + fmt.Sprintf("; keys: RSA from %d bits, ECDSA, Ed25519", profile.Policy.MinRSABits),
		fmt.Sprintf("at most %s, also the default for requests without one, unless configured to less", length(profile.Lifetime.Max)),
		caBit(ignoring),
		chain(v1alpha1.ChainIntermediates),
	})
}

// explainUndeclared explains a signer that no object declares, or that the caller may not
// list.
func explainUndeclared(ctx context.Context, api Reader, q Query, declarersKnown bool) (*SignerExplanation, error) {
	e := &SignerExplanation{SignerName: q.Name, Ready: Unknown, Statements: builtInStatements(q.Name)}
	if form := certmanager.SignerForm(q.Name); form != "" {
		e.Ready, e.Verdict = No, malformedIssuer(q.Name, form)
		return e, nil
	}
	if named, isIssuer := certmanager.ParseSignerName(q.Name); isIssuer {
		issuer, err := findReferred(ctx, api, named)
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
		e.Unknown = append(e.Unknown, mayNotListSigners+", one of which may declare this signer")
	}
	signers, known, err := permittedSigners(ctx, api, accounts, q.Name)
	if err != nil {
		return nil, err
	}
	e.judgeRights(signers, known, declarersKnown)
	if e.Statements == nil && declarersKnown {
		e.Next = []Step{step("To list the declared signers:", q.kubectl("get", "signers", "-o", "wide"))}
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
		e.Verdict = e.SignerName + " is not a signer of Kubernetes"
	}
	switch {
	case !known:
		e.Verdict += "; " + mayNotCheckSigners
	case len(signers) == 0:
		e.Ready = No
		e.Verdict += "; no service account of certplane or Kubernetes may sign for it: another program must sign"
	default:
		e.Verdict += "; may sign, where they run: " + strings.Join(signers, ", ")
	}
}
