package explain

import (
	"context"
	"fmt"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/api/certificates"
	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/cli/advice"
	"github.com/certplane/certplane/internal/cli/output"
	"github.com/certplane/certplane/internal/cli/page"
	"github.com/certplane/certplane/internal/pki"
)

// IssuerRequest is what was asked for, of whom and by whom.
type IssuerRequest struct {
	Issuer   string    `json:"issuer"`
	Created  time.Time `json:"created"`
	Username string    `json:"username"`
	Groups   []string  `json:"groups,omitempty"`
	// Owner is the Certificate that the request is for, if there is one.
	Owner   string `json:"certificate,omitempty"`
	Subject string `json:"subject,omitempty"`
	// Names are the subject alternative names, each with its kind in front.
	Names    []string         `json:"names,omitempty"`
	Usages   []string         `json:"usages"`
	IsCA     bool             `json:"isCA"`
	Key      string           `json:"key,omitempty"`
	Duration *metav1.Duration `json:"duration,omitempty"`
}

// invalid is the state of requests that somebody has declared impossible to
// sign. It is final.
const invalid certificates.State = "Invalid"

var requestsResource = cmv1.SchemeGroupVersion.WithResource("certificaterequests")

// CertificateRequest explains one CertificateRequest of cert-manager.io.
func CertificateRequest(ctx context.Context, cfg Config) error {
	clients, err := cfg.Connect()
	if err != nil {
		return err
	}
	cr := &cmv1.CertificateRequest{}
	if err := get(ctx, clients, requestsResource, cfg, "CertificateRequest", cr); err != nil {
		return err
	}
	f, err := gatherRequest(ctx, clients, cr, cfg)
	if err != nil {
		return advice.On("finding out about the request", err)
	}
	e := f.explain()
	return output.Write(cfg.Stdout, cfg.Output, e, func() string { return e.text(f.now) })
}

// explain decides what the facts mean.
func (f *requestFacts) explain() RequestExplanation {
	state := stateOf(f.cr)
	e := RequestExplanation{
		Namespace: f.cr.Namespace, Name: f.cr.Name, UID: string(f.cr.UID), State: state,
		Request: describeIssuerRequest(f.cr, f.issuer),
		Checks:  append(f.checks(state), f.further()...), Events: describeEvents(f.events.events), Next: f.next(state),
	}
	if state == certificates.Issued {
		e.Certificate = describeCertificate(f.cr.Status.Certificate)
	}
	e.Verdict = f.cr.Name + " " + f.verdict(state, e.Certificate)
	return e
}

// stateOf reads a request's status in the order of those who sign.
func stateOf(cr *cmv1.CertificateRequest) certificates.State {
	reason := certmanager.ReadyReason(cr)
	switch {
	case certmanager.RequestIs(cr, cmv1.CertificateRequestConditionDenied):
		return certificates.Denied
	case certmanager.RequestIs(cr, cmv1.CertificateRequestConditionInvalidRequest):
		return invalid
	case reason == cmv1.CertificateRequestReasonFailed:
		return certificates.Failed
	case reason == cmv1.CertificateRequestReasonIssued, len(cr.Status.Certificate) > 0:
		return certificates.Issued
	case certmanager.RequestIs(cr, cmv1.CertificateRequestConditionApproved):
		return certificates.Approved
	default:
		return certificates.Pending
	}
}

func describeIssuerRequest(cr *cmv1.CertificateRequest, issuer *issuerFacts) IssuerRequest {
	spec := &cr.Spec
	r := IssuerRequest{
		Issuer: issuer.String(), Created: cr.CreationTimestamp.Time, Username: spec.Username, Groups: spec.Groups,
		Owner: ownerOf(cr), IsCA: spec.IsCA, Duration: spec.Duration, Usages: []string{},
	}
	for _, usage := range spec.Usages {
		r.Usages = append(r.Usages, string(usage))
	}
	if parsed, err := certmanager.ParseRequest(spec.Request); err == nil {
		r.Subject, r.Names, r.Key = parsed.Subject.String(), pki.RequestNames(parsed), pki.KeyName(parsed.PublicKey)
	}
	return r
}

// ownerOf is the Certificate that a request is for.
func ownerOf(cr *cmv1.CertificateRequest) string {
	if owner := metav1.GetControllerOf(cr); owner != nil && owner.Kind == cmv1.CertificateKind {
		return owner.Name
	}
	return ""
}

func (r IssuerRequest) rows(now time.Time) [][]string {
	duration, usages := certmanager.DefaultDuration, list(r.Usages)
	if r.Duration != nil {
		duration = r.Duration.Duration
	}
	if len(r.Usages) == 0 {
		usages = "digital signature, key encipherment (as none are given)"
	}
	if r.IsCA {
		usages += "; as a CA"
	}
	return [][]string{
		{"issuer", r.Issuer},
		{"requester", r.Username},
		{"groups", list(r.Groups)},
		{"for", page.OrNone(r.Owner)},
		{"subject", page.OrNone(r.Subject)},
		{"names", list(r.Names)},
		{"usages", usages},
		{"key", page.OrNone(r.Key)},
		{"lifetime", fmt.Sprint(duration)},
		{"created", page.Ago(now, r.Created)},
	}
}
