package certpolicy

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"unicode/utf8"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/policies"
)

// CertificatesResource is the resource of Certificates.
var CertificatesResource = schema.GroupResource{Group: cmv1.SchemeGroupVersion.Group, Resource: "certificates"}

// Certificate warns the author of a Certificate, or of a change of its spec, if the
// policies certainly forbid the request that would be made for it. With
// CertificatesRefuse in the settings, it refuses the write. stored is nil for a new
// one. In a dry run, nothing is recorded.
func (c *Checks) Certificate(ctx context.Context, sent, stored *unstructured.Unstructured, dryRun bool) Outcome {
	mode := c.policies.Settings().Certificates
	if mode == policies.CertificatesOff || sent == nil || sent.GetDeletionTimestamp() != nil ||
		stored != nil && reflect.DeepEqual(sent.Object["spec"], stored.Object["spec"]) {
		return Outcome{}
	}
	crt := &cmv1.Certificate{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(sent.Object, crt); err != nil || len(certmanager.ValidateCertificate(crt)) > 0 {
		return Outcome{} // the checks of cert-manager.io refuse it
	}
	d, err := c.policies.DecideCertificate(ctx, crt)
	if err != nil || d == nil {
		return Outcome{} // the approver and the signers decide later
	}
	outcome := Outcome{Audit: audit(d.PolicyDecision), Warnings: shadowWarnings(d.PolicyDecision)}
	if d.Outcome != v1alpha1.OutcomeDeny {
		return outcome
	}
	if mode == policies.CertificatesRefuse {
		outcome.Refusal = forbidden(CertificatesResource, crt.Name, d.Message, causes(d, certificateField)...)
	} else {
		outcome.Warnings = append(deniedWarnings(d), outcome.Warnings...)
	}
	if !dryRun {
		c.policies.Recorder().Record(d)
	}
	return outcome
}

// deniedWarnings returns one warning with all violations if it fits, otherwise one for
// each violation.
func deniedWarnings(d *policies.Decision) []string {
	const what = "this Certificate's request would be denied: "
	violations := d.Set.Disclosed(d.Violations)
	if utf8.RuneCountInString(what+d.Message) <= maxWarning || len(violations) == 0 {
		return []string{cutWarning(what + d.Message)}
	}
	var list []string
	for i, v := range violations {
		if i == maxWarnings {
			return append(list, fmt.Sprintf("%sfor %d more reasons", what, len(violations)-i))
		}
		list = append(list, cutWarning(what+"certificate policy "+v.Policy+": "+v.Message))
	}
	return list
}

// The limits of warnings. API servers cut each at 256 characters, and drop warnings
// beyond 4 Ki characters in total.
const (
	maxWarning  = 256
	maxWarnings = 10
)

// cutWarning cuts a warning at the end of a character, and marks the cut.
func cutWarning(text string) string {
	const cut = "..."
	if utf8.RuneCountInString(text) <= maxWarning {
		return text
	}
	return string([]rune(text)[:maxWarning-len(cut)]) + cut
}

// certificateField returns the field of a Certificate's spec that a violation is
// about.
func certificateField(_ v1alpha1.RequestKind, at string) string {
	name, _, _ := strings.Cut(at, "[")
	switch {
	case name == "subject.commonName":
		return "spec.commonName"
	case name == "key":
		return "spec.privateKey"
	case strings.HasPrefix(name, "nameConstraints"):
		return "spec.nameConstraints"
	case name == "subject", strings.HasPrefix(name, "subject."):
		return "spec." + name
	}
	for _, field := range []string{"dnsNames", "ipAddresses", "uris", "emailAddresses", "otherNames", "usages", "isCA", "duration"} {
		if name == field {
			return "spec." + at
		}
	}
	return "spec"
}
