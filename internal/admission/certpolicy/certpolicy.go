// Package certpolicy checks writes by the certificate policies: of the policies
// themselves, of requests for certificates, and of their approvals.
//
// A server that contains the package and a webhook beside another server call
// the same functions.
package certpolicy

import (
	"context"
	"errors"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policies"
	"github.com/certplane/certplane/internal/policy/acmeorder"
	"github.com/certplane/certplane/internal/policy/quorum"
	"github.com/certplane/certplane/internal/policy/request"
)

// Authorize reports whether a user may do something with resources. If the
// answer is unknown, it returns an error or false.
type Authorize func(ctx context.Context, user authenticationv1.UserInfo, what authorizationv1.ResourceAttributes) (allowed bool, err error)

// Checks decides about writes. It is safe for concurrent use.
type Checks struct {
	policies  *policies.Policies
	authorize Authorize
}

// New returns checks that decide by the policies of the process, and call authorize for
// the rights of users.
func New(p *policies.Policies, authorize Authorize) *Checks { return &Checks{p, authorize} }

// ConcernNew reports whether the checks of a new CertificateSigningRequest can have an outcome.
func (c *Checks) ConcernNew(csr *certificatesv1.CertificateSigningRequest) bool {
	return c.policies.Concern(v1alpha1.CertificateSigningRequests, csr.Spec.SignerName) || SetsOverride(csr.Annotations, nil)
}

// ConcernStored reports whether the checks of a write of the conditions or the certificate of a
// stored CertificateSigningRequest can have an outcome: a policy can be about it, an order of an
// ACME client may prove it, or it has conditions of approvals by people.
func (c *Checks) ConcernStored(sent, stored *certificatesv1.CertificateSigningRequest) bool {
	_, ofOrder := acmeorder.OrderKeyOf(stored.Spec.Username, "", stored.Name)
	return ofOrder || c.policies.Concern(v1alpha1.CertificateSigningRequests, stored.Spec.SignerName) ||
		slices.ContainsFunc(stored.Status.Conditions, isOwn) || slices.ContainsFunc(sent.Status.Conditions, isOwn)
}

func isOwn(c certificatesv1.CertificateSigningRequestCondition) bool {
	return strings.HasPrefix(string(c.Type), quorum.ConditionPrefix)
}

// Outcome is the outcome of the checks of a write. The zero value lets it through.
type Outcome struct {
	// Refusal is nil if the write is let through.
	Refusal *apierrors.StatusError
	// Warnings are for the user.
	Warnings []string
	// Audit are annotations for the audit log, by the part of their keys after
	// AuditPrefix.
	Audit map[string]string
}

// AuditPrefix begins the keys of annotations in the audit log of the server.
const AuditPrefix = "policy." + v1alpha1.GroupName + "/"

// audit returns the annotations for a decision. They contain no values of the request,
// because audit logs are often readable by other users.
func audit(d *v1alpha1.PolicyDecision) map[string]string {
	if d == nil || d.Outcome == "" {
		return nil
	}
	notes := map[string]string{"outcome": string(d.Outcome)}
	if d.Policy != nil {
		notes["policy"] = d.Policy.Name
	}
	var at []string
	for _, v := range d.Violations {
		if v.Exception == "" {
			at = append(at, v.Policy+":"+v.At)
		}
	}
	if len(at) > 0 {
		notes["violations"] = strings.Join(at, ",")
	}
	return notes
}

// forbidden returns the refusal 403 with a message and its causes.
func forbidden(resource schema.GroupResource, name, message string, causes ...metav1.StatusCause) *apierrors.StatusError {
	refusal := apierrors.NewForbidden(resource, name, errors.New(message))
	refusal.ErrStatus.Details.Causes = causes
	return refusal
}

// unavailable returns the refusal 503: clients try again.
func unavailable(err error) *apierrors.StatusError {
	refusal := apierrors.NewServiceUnavailable(err.Error())
	refusal.ErrStatus.Details = &metav1.StatusDetails{RetryAfterSeconds: 1}
	return refusal
}

func writes(operation admissionv1.Operation) bool {
	return operation == admissionv1.Create || operation == admissionv1.Update
}

// Person returns a user in the form for policies.
func Person(user authenticationv1.UserInfo) request.Requester {
	who := request.Requester{Username: user.Username, UID: user.UID, Groups: user.Groups}
	for key, values := range user.Extra {
		if who.Extra == nil {
			who.Extra = map[string][]string{}
		}
		who.Extra[key] = values
	}
	return who
}
