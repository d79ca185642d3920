package explain

import (
	"context"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/policy/issuance"
	"github.com/certplane/certplane/internal/policy/issuance/secret"
)

// CertificateExplanation is the explanation of a Certificate, for JSON and YAML.
type CertificateExplanation struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
	// State is the state of the certificate and of its renewal.
	State CertificateState `json:"state"`
	// Verdict is the explanation in one sentence.
	Verdict  string `json:"verdict"`
	Issuer   string `json:"issuer"`
	Secret   string `json:"secret"`
	Revision int    `json:"revision,omitempty"`
	// The times of the present certificate.
	NotBefore   *time.Time `json:"notBefore,omitempty"`
	NotAfter    *time.Time `json:"notAfter,omitempty"`
	RenewalTime *time.Time `json:"renewalTime,omitempty"`
	// SuggestedRenewal is the CA's suggestion for RenewalTime.
	SuggestedRenewal *SuggestedRenewal `json:"suggestedRenewal,omitempty"`
	// RetryTime is the time when a failed issuance is retried, if the server uses the
	// default back-off.
	RetryTime *time.Time `json:"retryTime,omitempty"`
	Created   time.Time  `json:"created"`
	// Checks are the relevant checks, in their order.
	Checks []Check `json:"checks"`
	// Events are the reports of controllers about the Certificate, latest last.
	Events []Event `json:"events,omitempty"`
	Next   []Step  `json:"next,omitempty"`
}

// CertificateState is the state of a Certificate.
type CertificateState string

// The states. Ready Certificates whose next certificate is being issued are
// Renewing.
const (
	CertificateReady    CertificateState = "Ready"
	CertificateRenewing CertificateState = "Renewing"
	CertificateIssuing  CertificateState = "Issuing"
	CertificateFailed   CertificateState = "Failed"
	CertificateNotReady CertificateState = "NotReady"
)

// IssuedCertificate explains one Certificate of cert-manager.io.
func IssuedCertificate(ctx context.Context, api Reader, q Query) (CertificateExplanation, error) {
	f, err := GatherCertificate(ctx, api, q, false)
	if err != nil {
		return CertificateExplanation{}, err
	}
	return f.Explain(), nil
}

// CertificateFacts are the API's data about a Certificate. They include the
// metadata of its Secret, and the content only if it was requested.
type CertificateFacts struct {
	Query
	issuance.Situation
	Issuer *IssuerFacts
	// SecretExists is whether the Secret exists.
	SecretExists Result
	// RequestsUnknown is the reason why the requests are unknown; empty if they are
	// known.
	RequestsUnknown string
	// Next is the request for the next certificate; nil if none exists.
	Next   *RequestFacts
	Events Events

	// others are the other Certificates that name the same Secret.
	others []string
	// passwords are the passwords of the keystores that are in Secrets.
	passwords []*secretKey
}

// GatherCertificate reads the facts of a Certificate. With contents, it also
// reads the content of the Secret and the events of the issuer.
func GatherCertificate(ctx context.Context, api Reader, q Query, contents bool) (*CertificateFacts, error) {
	crt := &cmv1.Certificate{}
	if err := issuedCertificates.get(ctx, api, q, crt); err != nil {
		return nil, err
	}
	f := &CertificateFacts{Query: q, Situation: issuance.Situation{Certificate: crt}}
	return f, readError("finding out about the Certificate", f.gather(ctx, api, contents))
}

func (f *CertificateFacts) gather(ctx context.Context, api Reader, contents bool) error {
	crt := f.Certificate
	var err error
	if f.Issuer, err = findIssuer(ctx, api, crt.Spec.IssuerRef, crt.Namespace); err != nil {
		return err
	}
	if f.Secret, f.SecretExists, err = findSecret(ctx, api, crt.Namespace, crt.Spec.SecretName, contents); err != nil {
		return err
	}
	for _, part := range []func(context.Context, Reader) error{f.findConflicts, f.findRequests, f.findPasswords} {
		if err := part(ctx, api); err != nil {
			return err
		}
	}
	if contents && f.Issuer.Object != nil {
		if f.Issuer.Events, err = EventsOf(ctx, api, f.Issuer.Object); err != nil {
			return err
		}
	}
	f.Events, err = EventsOf(ctx, api, crt)
	return err
}

// findConflicts finds the Certificates that name the same Secret.
func (f *CertificateFacts) findConflicts(ctx context.Context, api Reader) error {
	all := &cmv1.CertificateList{}
	if known, err := list(ctx, api, all, client.InNamespace(f.Certificate.Namespace)); known != Yes {
		return err
	}
	var naming []*cmv1.Certificate
	for i := range all.Items {
		crt := &all.Items[i]
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

// findRequests finds the Certificate's own requests, and the state of the one
// for the next certificate.
func (f *CertificateFacts) findRequests(ctx context.Context, api Reader) error {
	all := &cmv1.CertificateRequestList{}
	known, err := list(ctx, api, all, client.InNamespace(f.Certificate.Namespace))
	if known == Unknown {
		f.RequestsUnknown = mayNotRead("list", "certificaterequests", f.Certificate.Namespace)
	}
	var requests []*cmv1.CertificateRequest
	for i := range all.Items {
		requests = append(requests, &all.Items[i])
	}
	f.Requests = issuance.Own(f.Certificate, requests)
	if next := f.Situation.Next(); err == nil && len(next) > 0 {
		if f.Next, err = gatherRequest(ctx, api, next[0], f.Query); err == nil {
			f.Next.otherwise = correctReference
		}
	}
	return err
}

// findPasswords looks for the Secrets with the passwords of the keystores.
func (f *CertificateFacts) findPasswords(ctx context.Context, api Reader) error {
	jks, pkcs12 := secret.PasswordRefs(&f.Certificate.Spec)
	for _, ref := range []*secret.PasswordRef{jks, pkcs12} {
		if ref == nil || ref.Secret == "" || jks != nil && ref == pkcs12 && *jks == *pkcs12 {
			continue
		}
		password := &secretKey{namespace: f.Certificate.Namespace, secret: ref.Secret, key: ref.Key, what: "the password of a keystore"}
		if err := password.find(ctx, api); err != nil {
			return err
		}
		f.passwords = append(f.passwords, password)
	}
	return nil
}

// madeFor describes the Certificate that a Secret was written for.
func madeFor(secret *corev1.Secret) string {
	if name := secret.Annotations[cmv1.CertificateNameKey]; name != "" {
		return "exists, written for Certificate " + name
	}
	return "exists, and does not name its Certificate"
}
