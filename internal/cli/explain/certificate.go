package explain

import (
	"context"
	"fmt"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/certplane/certplane/internal/cli/advice"
	"github.com/certplane/certplane/internal/cli/output"
	"github.com/certplane/certplane/internal/cli/page"
	"github.com/certplane/certplane/internal/policy/issuance"
)

// CertificateExplanation is what is known of a Certificate, as machines get it.
type CertificateExplanation struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
	// State is whether there is a certificate and what is done about the next.
	State CertificateState `json:"state"`
	// Verdict is the explanation in one sentence.
	Verdict  string `json:"verdict"`
	Issuer   string `json:"issuer"`
	Secret   string `json:"secret"`
	Revision int    `json:"revision,omitempty"`
	// The times are those of the certificate that there is.
	NotBefore   *time.Time `json:"notBefore,omitempty"`
	NotAfter    *time.Time `json:"notAfter,omitempty"`
	RenewalTime *time.Time `json:"renewalTime,omitempty"`
	// RetryTime is when an issuance that has failed is tried again, if the server
	// has the default back-off.
	RetryTime *time.Time `json:"retryTime,omitempty"`
	Created   time.Time  `json:"created"`
	// Checks are what matters, in the order in which it does.
	Checks []Check `json:"checks"`
	// Events are what controllers told of the Certificate, the latest last.
	Events []Event `json:"events,omitempty"`
	Next   []Step  `json:"next,omitempty"`
}

// CertificateState is where a Certificate is.
type CertificateState string

// The states. Ready Certificates whose next certificate is under way are
// Renewing.
const (
	CertificateReady    CertificateState = "Ready"
	CertificateRenewing CertificateState = "Renewing"
	CertificateIssuing  CertificateState = "Issuing"
	CertificateFailed   CertificateState = "Failed"
	CertificateNotReady CertificateState = "NotReady"
)

var certificatesResource = cmv1.SchemeGroupVersion.WithResource("certificates")

// IssuedCertificate explains one Certificate of cert-manager.io.
func IssuedCertificate(ctx context.Context, cfg Config) error {
	clients, err := cfg.Connect()
	if err != nil {
		return err
	}
	crt := &cmv1.Certificate{}
	if err := get(ctx, clients, certificatesResource, cfg, "Certificate", crt); err != nil {
		return err
	}
	f := &certificateFacts{Config: cfg, now: cfg.Now(), Situation: issuance.Situation{Certificate: crt}}
	if err := f.gather(ctx, clients); err != nil {
		return advice.On("finding out about the Certificate", err)
	}
	e := f.explain()
	return output.Write(cfg.Stdout, cfg.Output, e, func() string { return e.text(f.now) })
}

// certificateFacts are what the API tells of a Certificate. Of its Secret there
// is the metadata: what it holds nobody needs to read.
type certificateFacts struct {
	Config
	issuance.Situation
	now    time.Time
	issuer *issuerFacts
	// secret is whether the Secret exists, requests whether they could be listed.
	secret, requests Result
	// others name the same Secret.
	others []string
	// next is the request of the certificate to come; nil if there is none.
	next *requestFacts
	// passwords are those of the keystores, where Secrets have them.
	passwords []passwordFacts
	events    facts
}

func (f *certificateFacts) gather(ctx context.Context, clients *Clients) error {
	crt := f.Certificate
	var err error
	if f.issuer, err = findIssuer(ctx, clients, crt.Spec.IssuerRef, crt.Namespace); err != nil {
		return err
	}
	if f.Secret, f.secret, err = secretMetadata(ctx, clients, crt.Namespace, crt.Spec.SecretName); err != nil {
		return err
	}
	for _, part := range []func(context.Context, *Clients) error{f.findRivals, f.findRequests, f.findPasswords} {
		if err := part(ctx, clients); err != nil {
			return err
		}
	}
	return f.events.listEventsOf(ctx, clients.Kubernetes, crt.Namespace, crt.UID)
}

// findRivals finds the Certificates that name the same Secret.
func (f *certificateFacts) findRivals(ctx context.Context, clients *Clients) error {
	all, known, err := listOf[cmv1.Certificate](ctx, clients, certificatesResource, f.Certificate.Namespace)
	if err != nil || !known {
		return err
	}
	var naming []*cmv1.Certificate
	for _, crt := range all {
		if crt.Spec.SecretName != f.Certificate.Spec.SecretName {
			continue
		}
		if naming = append(naming, crt); crt.Name != f.Certificate.Name {
			f.others = append(f.others, crt.Name)
		}
	}
	f.Owner = issuance.Owner(naming, f.Secret)
	return nil
}

// findRequests finds the Certificate's own requests, and what becomes of the one
// for the next certificate.
func (f *certificateFacts) findRequests(ctx context.Context, clients *Clients) error {
	all, known, err := listOf[cmv1.CertificateRequest](ctx, clients, requestsResource, f.Certificate.Namespace)
	if f.requests = No; err != nil || !known {
		return err
	}
	f.requests, f.Requests = Yes, issuance.Own(f.Certificate, all)
	if next := f.Next(); len(next) > 0 {
		if f.next, err = gatherRequest(ctx, clients, next[0], f.Config); err == nil {
			f.next.otherwise = correctReference
		}
	}
	return err
}

// listOf lists the objects of a namespace; known is false for whoever may not.
func listOf[T any](ctx context.Context, clients *Clients, resource schema.GroupVersionResource, namespace string) (all []*T, known bool, err error) {
	list, err := clients.Dynamic.Resource(resource).Namespace(namespace).List(ctx, metav1.ListOptions{})
	if apierrors.IsForbidden(err) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	for i := range list.Items {
		object := new(T)
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(list.Items[i].Object, object); err != nil {
			return nil, false, fmt.Errorf("reading %s %s: %w", resource.Resource, list.Items[i].GetName(), err)
		}
		all = append(all, object)
	}
	return all, true, nil
}

// text is the explanation for people: the verdict first.
func (e CertificateExplanation) text(now time.Time) string {
	p := &page.Page{}
	p.Line(e.Verdict)
	rows := [][]string{{"issuer", e.Issuer}, {"secret", e.Secret}, {"created", page.Ago(now, e.Created)}}
	if e.Revision > 0 {
		rows = append(rows, []string{"issued", fmt.Sprintf("%d times", e.Revision)})
	}
	for _, at := range []struct {
		name string
		time *time.Time
	}{{"valid from", e.NotBefore}, {"valid until", e.NotAfter}, {"renewed at", e.RenewalTime}, {"tried again at", e.RetryTime}} {
		if at.time != nil {
			rows = append(rows, []string{at.name, at.time.UTC().Format(time.RFC3339)})
		}
	}
	p.Section("Certificate", rows)
	p.Section("Checks", checkRows(e.Checks))
	p.Section("Events", eventRows(e.Events, now))
	writeSteps(p, e.Next)
	return p.String()
}

func timeOf(t *metav1.Time) *time.Time {
	if t == nil {
		return nil
	}
	return &t.Time
}

// madeFor says of a Secret for which Certificate it was written.
func madeFor(secret *corev1.Secret) string {
	if name := secret.Annotations[cmv1.CertificateNameKey]; name != "" {
		return "exists, written for Certificate " + name
	}
	return "exists, and does not say for which Certificate"
}
