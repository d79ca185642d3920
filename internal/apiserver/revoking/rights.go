package revoking

import (
	"context"
	"errors"
	"fmt"
	"strings"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	inventoryv1alpha1 "github.com/certplane/certplane/api/inventory/v1alpha1"
	"github.com/certplane/certplane/internal/rights"
)

// The verbs on signers that allow to revoke certificates, and more than fewAtOnce of them.
const (
	Verb     = "revoke"
	VerbMany = "revokemany"

	fewAtOnce = 25
)

// signer is a resource name in rules of authorization.
type signer struct{ group, name string }

// acmeServer is the user as which the ACME server of this process works. It has checked that
// its client may revoke the certificate (RFC 8555 section 7.6).
var acmeServer = serviceaccount.MakeUsername(rights.ServeNamespace, rights.ACMEServerAccount)

func signerOf(record *inventoryv1alpha1.IssuedCertificate) signer {
	if record.Request.Kind == cmv1.CertificateRequestKind {
		return signer{cmv1.SchemeGroupVersion.Group, record.SignerName}
	}
	return signer{certificatesv1.GroupName, record.SignerName}
}

// mayRevoke returns an error unless a user may revoke all certificates. For each, one of
// these suffices: the verb "revoke" on its signer, by name or DOMAIN/*, as for "approve"; the
// verb "revoke" on the resource of its request in the namespace of the request; or the user
// made the request; or the ACME server revokes a certificate of one of its orders. More than
// 25 at once, all of a CA, and certificates of CAs also need "revokemany" on their signers.
func (r *Revoker) mayRevoke(ctx context.Context, by user.Info, object *v1alpha1.Revocation, targets []target) error {
	may := asker{r.Authorizer, by, map[question]bool{}}
	many := len(targets) > fewAtOnce || object.Spec.Selection != nil && len(object.Spec.Selection.AuthorityKeyIDs) > 0
	refused, example, first := 0, signer{}, signer{}
	lacksMany := false
	for _, t := range targets {
		if !may.revoke(ctx, t) {
			if refused++; example == (signer{}) {
				example = t.signer
			}
		}
		if (many || t.isCA) && !may.use(ctx, VerbMany, t.signer) && !lacksMany {
			lacksMany, first = true, t.signer
		}
	}
	switch {
	case refused > 0:
		return forbidden(object, fmt.Sprintf("user %q may not revoke certificates of %s (%s on signers.%s), and has not requested %d of %d",
			by.GetName(), example.name, Verb, example.groupName(), refused, len(targets)))
	case lacksMany:
		return forbidden(object, fmt.Sprintf("%d certificates, some of them of CAs or more than %d, need the verb %s on signers.%s %s",
			len(targets), fewAtOnce, VerbMany, first.groupName(), first.name))
	}
	return nil
}

func forbidden(object *v1alpha1.Revocation, text string) error {
	return apierrors.NewForbidden(Resource, object.Name, errors.New(text))
}

func (s signer) groupName() string {
	if s.group == "" {
		return certificatesv1.GroupName
	}
	return s.group
}

// asker asks each question once.
type asker struct {
	authz authorizer.UnconditionalAuthorizer
	by    user.Info
	known map[question]bool
}

type question struct{ verb, group, resource, namespace, name string }

func (r asker) revoke(ctx context.Context, t target) bool {
	if t.request.requester != "" && t.request.requester == r.by.GetName() && !t.own {
		return true
	}
	if t.forOrder && r.by.GetName() == acmeServer || r.use(ctx, Verb, t.signer) {
		return true
	}
	resource := map[string]string{"CertificateRequest": "certificaterequests", "PodCertificateRequest": "podcertificaterequests"}[t.request.kind]
	return resource != "" && t.request.namespace != "" && r.ask(ctx, question{Verb, t.request.group, resource, t.request.namespace, ""})
}

// use reports whether the user may do something with a signer.
func (r asker) use(ctx context.Context, verb string, s signer) bool {
	domain, _, _ := strings.Cut(s.name, "/")
	return r.ask(ctx, question{verb, s.groupName(), "signers", "", s.name}) || r.ask(ctx, question{verb, s.groupName(), "signers", "", domain + "/*"})
}

// ask fails closed: with an error the answer is no.
func (r asker) ask(ctx context.Context, q question) bool {
	allowed, asked := r.known[q]
	if !asked {
		decision, _, err := r.authz.Authorize(ctx, authorizer.AttributesRecord{
			User: r.by, Verb: q.verb, APIGroup: q.group, APIVersion: "*", Resource: q.resource, Namespace: q.namespace, Name: q.name, ResourceRequest: true,
		})
		allowed = err == nil && decision == authorizer.DecisionAllow
		r.known[q] = allowed
	}
	return allowed
}
