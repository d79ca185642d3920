package status

import (
	"cmp"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/certplane/certplane/internal/api/certmanager"
	apievents "github.com/certplane/certplane/internal/api/events"
	"github.com/certplane/certplane/internal/cli/inspect"
	"github.com/certplane/certplane/internal/pki"
)

// Report is how a Certificate is, as machines get it. Later versions may add
// fields; those that are there stay and mean the same.
type Report struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
	// Ready tells whether its condition Ready is True, and Verdict says how it is
	// in a sentence.
	Ready   bool   `json:"ready"`
	Verdict string `json:"verdict"`
	// IssuerRef says who issues, with the defaults of the API filled in.
	IssuerRef  cmmeta.IssuerReference `json:"issuerRef"`
	SecretName string                 `json:"secretName"`
	// Revision is that of the certificate in the Secret; not there before the
	// first one.
	Revision    *int       `json:"revision,omitempty"`
	NotBefore   *time.Time `json:"notBefore,omitempty"`
	NotAfter    *time.Time `json:"notAfter,omitempty"`
	RenewalTime *time.Time `json:"renewalTime,omitempty"`
	// FailedAttempts is how many have failed in a row; LastFailureTime is when.
	FailedAttempts  int         `json:"failedAttempts"`
	LastFailureTime *time.Time  `json:"lastFailureTime,omitempty"`
	Conditions      []Condition `json:"conditions"`
	// Events are those about the Certificate, the latest last.
	Events []Event `json:"events,omitempty"`
	// Issuer is whom IssuerRef names, Secret that of SecretName, and Request the
	// request for the next certificate: not there if nothing is being issued.
	Issuer  Part   `json:"issuer"`
	Secret  Secret `json:"secret"`
	Request *Part  `json:"request,omitempty"`
	// Problems are what could not be found out, and why.
	Problems []string `json:"problems,omitempty"`
	// Next is what to do if something holds the certificate up.
	Next *Step `json:"next,omitempty"`
}

// Part is an object that has to do with the Certificate.
type Part struct {
	Name string `json:"name"`
	// Problem is why nothing is known of it: it does not exist, for one. Without
	// a problem it is there.
	Problem    string      `json:"problem,omitempty"`
	Conditions []Condition `json:"conditions,omitempty"`
	Events     []Event     `json:"events,omitempty"`
}

// Secret is the Secret of the Certificate, but for its key.
type Secret struct {
	Name string `json:"name"`
	// Problem is why there is no Certificate below.
	Problem     string               `json:"problem,omitempty"`
	Type        string               `json:"type,omitempty"`
	Certificate *inspect.Certificate `json:"certificate,omitempty"`
}

// Condition is one of an object.
type Condition struct {
	Type               string     `json:"type"`
	Status             string     `json:"status"`
	Reason             string     `json:"reason"`
	Message            string     `json:"message"`
	LastTransitionTime *time.Time `json:"lastTransitionTime,omitempty"`
}

// Event is one about an object. Time is when it was seen last.
type Event struct {
	Time   time.Time `json:"time"`
	Type   string    `json:"type"`
	Reason string    `json:"reason"`
	Note   string    `json:"note"`
}

// Step is something to do, and what to type for it, if anything.
type Step struct {
	Text    string   `json:"text"`
	Command []string `json:"command,omitempty"`
}

// report is all of it for machines.
func (f *facts) report() Report {
	status := &f.certificate.Status
	r := Report{
		Namespace: f.Namespace, Name: f.Name, UID: string(f.certificate.UID),
		Ready:   certmanager.CertificateIs(f.certificate, cmv1.CertificateConditionReady),
		Verdict: f.verdict(), IssuerRef: completed(f.certificate.Spec.IssuerRef), SecretName: f.certificate.Spec.SecretName,
		Revision: status.Revision, NotBefore: instant(status.NotBefore), NotAfter: instant(status.NotAfter), RenewalTime: instant(status.RenewalTime),
		FailedAttempts: ptr.Deref(status.FailedIssuanceAttempts, 0), LastFailureTime: instant(status.LastFailureTime),
		Conditions: f.conditions(), Events: f.events.report(), Issuer: f.issuerPart(), Secret: f.secretPart(), Request: f.requestPart(),
	}
	for _, problem := range []string{cmp.Or(f.events.problem, f.issuerEvents.problem, f.requestEvents.problem), f.requestProblem} {
		if problem != "" {
			r.Problems = append(r.Problems, problem)
		}
	}
	if text, command := f.next(); text != "" {
		r.Next = &Step{text, command}
	}
	return r
}

func completed(ref cmmeta.IssuerReference) cmmeta.IssuerReference {
	ref.Kind, ref.Group = cmp.Or(ref.Kind, cmv1.IssuerKind), cmp.Or(ref.Group, certmanager.Group)
	return ref
}

func instant(t *metav1.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return ptr.To(t.UTC())
}

func (e events) report() []Event {
	var list []Event
	for _, event := range e.list {
		list = append(list, Event{apievents.LastSeen(event).UTC(), event.Type, event.Reason, event.Note})
	}
	return list
}

func (f *facts) issuerPart() Part {
	return Part{
		Name: f.certificate.Spec.IssuerRef.Name, Problem: f.issuerProblem, Conditions: f.issuerConditions(), Events: f.issuerEvents.report(),
	}
}

func (f *facts) secretPart() Secret {
	part := Secret{Name: f.certificate.Spec.SecretName, Problem: f.secretProblem}
	if f.secret == nil {
		return part
	}
	part.Type = string(f.secret.Type)
	chain, err := pki.ParseBundle(f.secret.Data[corev1.TLSCertKey])
	if err != nil {
		part.Problem = "tls.crt cannot be read: " + err.Error()
		return part
	}
	part.Certificate = ptr.To(inspect.Describe(chain[0]))
	return part
}

func (f *facts) requestPart() *Part {
	if f.request == nil {
		return nil
	}
	return &Part{Name: f.request.Name, Conditions: f.requestConditions(), Events: f.requestEvents.report()}
}
