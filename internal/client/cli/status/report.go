package status

import (
	"slices"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/client/cli/inspect"
	"github.com/certplane/certplane/internal/client/explain"
	"github.com/certplane/certplane/internal/pki"
)

// Report is the status of a Certificate, for JSON and YAML. Later versions may add
// fields; existing fields stay and keep their meaning.
type Report struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
	// Ready reports whether its condition Ready is True. State and Verdict are copied
	// from the explanation.
	Ready   bool                     `json:"ready"`
	State   explain.CertificateState `json:"state"`
	Verdict string                   `json:"verdict"`
	// IssuerRef is the reference to the issuer, with the defaults of the API.
	IssuerRef  cmmeta.IssuerReference `json:"issuerRef"`
	SecretName string                 `json:"secretName"`
	// Revision is the revision of the certificate in the Secret; absent before the first
	// certificate.
	Revision    *int       `json:"revision,omitempty"`
	NotBefore   *time.Time `json:"notBefore,omitempty"`
	NotAfter    *time.Time `json:"notAfter,omitempty"`
	RenewalTime *time.Time `json:"renewalTime,omitempty"`
	// SuggestedRenewal is the CA's suggestion for RenewalTime.
	SuggestedRenewal *explain.SuggestedRenewal `json:"suggestedRenewal,omitempty"`
	// FailedAttempts is the number of failures in a row; LastFailureTime is the time of
	// the last one.
	FailedAttempts  int                 `json:"failedAttempts"`
	LastFailureTime *time.Time          `json:"lastFailureTime,omitempty"`
	Conditions      []explain.Condition `json:"conditions"`
	// Checks are copied from the explanation.
	Checks []explain.Check `json:"checks"`
	// Events are the Events of the Certificate, latest last.
	Events []explain.Event `json:"events,omitempty"`
	// Issuer is the issuer that IssuerRef names, Secret the Secret of SecretName, and
	// Request the request for the next certificate, absent if none is being issued.
	Issuer  Part   `json:"issuer"`
	Secret  Secret `json:"secret"`
	Request *Part  `json:"request,omitempty"`
	// Problems are errors that left parts of the status unknown.
	Problems []string `json:"problems,omitempty"`
	// Steps are the next steps if the certificate is delayed, as in the explanation. Next
	// is the first step, with its first command.
	Steps []explain.Step `json:"steps,omitempty"`
	Next  *Next          `json:"next,omitempty"`
}

// Part is an object that is related to the Certificate.
type Part struct {
	Name string `json:"name"`
	// Problem is the reason why its state is unknown, such as that it does not exist. It
	// is empty if the object exists.
	Problem    string              `json:"problem,omitempty"`
	Conditions []explain.Condition `json:"conditions,omitempty"`
	Events     []explain.Event     `json:"events,omitempty"`
}

// Secret is the Secret of the Certificate, without its key.
type Secret struct {
	Name string `json:"name"`
	// Problem is the reason for a missing Certificate below.
	Problem     string               `json:"problem,omitempty"`
	Type        string               `json:"type,omitempty"`
	Certificate *inspect.Certificate `json:"certificate,omitempty"`
}

// Next is a next step, with its command if it has one.
type Next struct {
	Text    string   `json:"text"`
	Command []string `json:"command,omitempty"`
}

// report returns the whole status, for JSON and YAML.
func (f facts) report() Report {
	crt, status := f.Certificate, &f.Certificate.Status
	r := Report{
		Namespace: crt.Namespace, Name: crt.Name, UID: string(crt.UID),
		Ready: certmanager.CertificateIs(crt, cmv1.CertificateConditionReady),
		State: f.explanation.State, Verdict: f.explanation.Verdict, Checks: f.explanation.Checks, IssuerRef: f.Issuer.Ref, SecretName: crt.Spec.SecretName,
		Revision: status.Revision, NotBefore: explain.InUTC(status.NotBefore), NotAfter: explain.InUTC(status.NotAfter),
		RenewalTime: explain.InUTC(status.RenewalTime), SuggestedRenewal: explain.SuggestedRenewalOf(crt),
		FailedAttempts: ptr.Deref(status.FailedIssuanceAttempts, 0), LastFailureTime: explain.InUTC(status.LastFailureTime),
		Conditions: f.Conditions(), Events: f.Events.List, Problems: f.problems(),
		Issuer: Part{Name: f.Issuer.Ref.Name, Problem: f.issuerProblem(), Conditions: f.Issuer.Conditions(), Events: f.Issuer.Events.List},
		Secret: f.secretPart(), Steps: f.steps(),
	}
	if f.Next != nil {
		r.Request = &Part{Name: f.Next.Request.Name, Conditions: f.Next.Conditions(), Events: f.Next.Events.List}
	}
	if len(r.Steps) > 0 {
		r.Next = &Next{Text: r.Steps[0].Text}
		if commands := r.Steps[0].Commands; len(commands) > 0 {
			r.Next.Command = commands[0]
		}
	}
	return r
}

// problems returns the errors that left parts of the status unknown.
func (f facts) problems() []string {
	unknown := []string{f.Events.Unknown, f.Issuer.Events.Unknown, f.RequestsUnknown}
	if f.Next != nil {
		unknown = append(unknown, f.Next.Events.Unknown)
	}
	slices.Sort(unknown)
	return slices.DeleteFunc(slices.Compact(unknown), func(problem string) bool { return problem == "" })
}

// steps returns the next steps if the certificate is delayed.
func (f facts) steps() []explain.Step {
	if f.explanation.State == explain.CertificateReady {
		return nil
	}
	return f.explanation.Next
}

func (f facts) secretPart() Secret {
	part := Secret{Name: f.Certificate.Spec.SecretName, Problem: problemOf(f.SecretExists)}
	if f.Secret == nil {
		return part
	}
	part.Type = string(f.Secret.Type)
	chain, err := pki.ParseBundle(f.Secret.Data[corev1.TLSCertKey])
	if err != nil {
		part.Problem = "tls.crt cannot be read: " + err.Error()
		return part
	}
	part.Certificate = ptr.To(inspect.Describe(chain[0]))
	return part
}
