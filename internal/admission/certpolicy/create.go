package certpolicy

import (
	"context"
	"fmt"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policies"
	policy "github.com/certplane/certplane/internal/policy/certpolicy"
	"github.com/certplane/certplane/internal/policy/request"
)

// Create refuses a new request that the policies certainly forbid. Its requester must
// be the authenticated user. The approver denies requests for Certificates and of
// kubelets instead, because their controllers would make a refused request again and
// again. In a dry run, nothing is recorded.
func (c *Checks) Create(ctx context.Context, resource schema.GroupResource, r request.Request, dryRun bool) Outcome {
	if !c.policies.Settings().CreateChecks || isKubelets(r) {
		return Outcome{}
	}
	d, err := c.policies.Decide(ctx, policy.Input{Stage: v1alpha1.StageCreate, Request: r})
	if err != nil || d == nil {
		return Outcome{} // the approver and the signers decide later
	}
	if c.policies.IsForCertificate(ctx, &r) {
		return Outcome{}
	}
	outcome := Outcome{Audit: audit(d.PolicyDecision), Warnings: append(shadowWarnings(d.PolicyDecision), d.Set.UsedUp(d.PolicyDecision, &d.Input)...)}
	if d.Outcome == v1alpha1.OutcomeDeny {
		outcome.Refusal = forbidden(resource, r.Name, d.Message, causes(d, specField)...)
		if !dryRun {
			c.policies.Recorder().Record(d)
		}
	}
	return outcome
}

// isKubelets reports whether a request is for a signer of kubelets, which try
// again with a new key after each refusal.
func isKubelets(r request.Request) bool {
	return r.SignerName == certificatesv1.KubeletServingSignerName || r.SignerName == certificatesv1.KubeAPIServerClientKubeletSignerName
}

// shadowWarnings returns the changes that the policies of mode Warn would make.
func shadowWarnings(d *v1alpha1.PolicyDecision) []string {
	var warnings []string
	for _, s := range d.Shadow {
		if s.Mode != v1alpha1.PolicyWarn || !s.Differs {
			continue
		}
		text := fmt.Sprintf("certificate policy %s is not enforced yet; with it, the outcome would be %s instead of %s", s.Policy, s.Outcome, d.Outcome)
		if s.Message != "" {
			text += ": " + strings.TrimPrefix(s.Message, "certificate policy "+s.Policy+": ")
		}
		warnings = append(warnings, cutWarning(text))
	}
	return warnings
}

// causes returns a cause for each violation that the requester may see. at
// returns the field of an object that a violation is about.
func causes(d *policies.Decision, at func(kind v1alpha1.RequestKind, field string) string) []metav1.StatusCause {
	var list []metav1.StatusCause
	for _, v := range d.Set.Disclosed(d.Violations) {
		list = append(list, metav1.StatusCause{Type: metav1.CauseType(v.Reason), Field: at(d.Input.Request.Kind, v.Field), Message: v.Message})
	}
	return list
}

// specField returns the field of a request's spec that a violation is about.
// Names, subject, key and extensions are in the PKCS#10 request.
func specField(kind v1alpha1.RequestKind, at string) string {
	name, _, _ := strings.Cut(at, "[")
	switch {
	case name == "usages", name == "isCA" && kind == v1alpha1.CertificateRequests:
		return "spec." + at
	case name == "duration" && kind == v1alpha1.CertificateRequests:
		return "spec.duration"
	case name == "duration":
		return "spec.expirationSeconds"
	default:
		return "spec.request"
	}
}
