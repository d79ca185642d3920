package signers

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/issuing/signer/declared"
	"github.com/certplane/certplane/internal/issuing/signer/webhook"
	"github.com/certplane/certplane/internal/keystore"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/rotation"
	"github.com/certplane/certplane/internal/revocation"
)

// issuer signs for a Signer: a CA or an endpoint.
type issuer struct {
	// declaration is the Signer that the issuer was made from, and id a digest
	// of the other sources. Issuers with the same of both are the same.
	declaration, id string
	ca              func() (*pki.Authority, error) // nil: endpoint signs
	endpoint        *webhook.Endpoint
	// moreRoots are roots in addition to the CA's own root.
	moreRoots []*x509.Certificate
	// revoked has the revoked certificates; nil if they are not known.
	revoked *revocation.Index
	// generated is a CA that is generated for the Signer, without Done, and former are the
	// earlier ones whose keys are kept.
	generated rotation.CA
	former    []declared.FormerCA
	closer    io.Closer // can be nil
}

// certificate returns the CA's certificate, or nil.
func (s *issuer) certificate() *x509.Certificate {
	if s == nil || s.ca == nil {
		return nil
	}
	authority, err := s.ca()
	if err != nil {
		return nil
	}
	return authority.Certificate()
}

// roots returns the roots that verify what the issuer signs, now and soon.
func (s *issuer) roots() []*x509.Certificate {
	if s.ca == nil {
		return s.moreRoots
	}
	authority, err := s.ca()
	if err != nil {
		return nil
	}
	return append([]*x509.Certificate{authority.Anchor()}, s.moreRoots...)
}

// usable returns why the issuer cannot sign now, or nil.
func (s *issuer) usable(now time.Time) *problem {
	if s.ca == nil {
		return nil
	}
	cert := s.certificate()
	switch {
	case cert == nil:
		return newProblem(reasonUnavailable, "the CA cannot be used at present")
	case !now.Before(cert.NotAfter):
		return newProblem(reasonCAExpired, "the CA %s expired on %s: replace it", cert.Subject, cert.NotAfter.Format(time.RFC3339))
	case now.Before(cert.NotBefore):
		return newProblem(reasonCAExpired, "the CA %s is not valid before %s", cert.Subject, cert.NotBefore.Format(time.RFC3339))
	}
	if err := revokedCA(s.revoked, s.ca); err != nil {
		return newProblem(reasonCARevoked, "%v: replace the CA", err)
	}
	return nil
}

// revokedCA returns an error if a CA, which can be nil, or one above it is revoked.
func revokedCA(index *revocation.Index, ca func() (*pki.Authority, error)) error {
	if ca == nil {
		return nil
	}
	authority, err := ca()
	if err != nil {
		return nil // it does not sign
	}
	return index.RevokedCA(append(authority.Chain(authority.Certificate()), authority.Anchor())...)
}

// distrusted returns why the CA must not sign, or nil.
func (s *issuer) distrusted(of *v1alpha1.Signer) *problem {
	cert := s.certificate()
	if cert == nil || !distrusts(of, pki.Fingerprint(cert)) {
		return nil
	}
	return newProblem(reasonDistrusted, "the CA %s is among spec.distrustedCAs: replace it", cert.Subject)
}

// end returns when the CA expires; zero if there is no CA.
func (s *issuer) end() time.Time {
	if cert := s.certificate(); cert != nil {
		return cert.NotAfter
	}
	return time.Time{}
}

// close ends the use of a remote key.
func (s *issuer) close() {
	if s == nil || s.closer == nil {
		return
	}
	if err := s.closer.Close(); err != nil {
		klog.ErrorS(err, "Cannot close the key of a declared signer")
	}
}

// declarationOf returns the part of a Signer that declares its CA.
func declarationOf(s *v1alpha1.Signer) string {
	text, err := json.Marshal(s.Spec.CA)
	if err != nil { // it was decoded from JSON
		return err.Error()
	}
	return string(text)
}

// issuer opens the CA or the endpoint of a Signer. again is the time until the next step.
// Its errors are *problem or API errors.
func (r *reconciler) issuer(ctx context.Context, s *v1alpha1.Signer, now time.Time) (opened *issuer, again time.Time, err error) {
	switch ca := s.Spec.CA; {
	case ca.Generated != nil:
		return r.generated(ctx, s, now)
	case ca.Secret != nil:
		opened, err = r.fromSecret(ctx, s, ca.Secret.Name)
	case ca.Key != nil:
		opened, err = r.fromKey(ctx, s, ca.Key)
	case ca.BuiltIn != nil:
		opened, err = r.builtIn(s)
		again = now.Add(lookEvery) // it changes without notice
	case ca.Webhook != nil:
		opened, err = r.fromWebhook(ctx, s, ca.Webhook)
	default:
		err = newProblem(reasonInvalid, "spec.ca: set exactly one of generated, secret, key, builtIn and webhook")
	}
	return opened, again, err
}

// reuseOrMake returns the issuer in use if it was made of the same parts, and
// calls make otherwise.
func (r *reconciler) reuseOrMake(s *v1alpha1.Signer, make func() (*issuer, error), parts ...[]byte) (*issuer, error) {
	declaration, id := declarationOf(s), digest(parts...)
	if before := r.memory.issuer(s); before != nil && before.declaration == declaration && before.id == id {
		return before, nil
	}
	made, err := make()
	if err != nil {
		return nil, err
	}
	made.declaration, made.id, made.revoked = declaration, id, r.Revoked
	return made, nil
}

func digest(parts ...[]byte) string {
	whole := sha256.New()
	for _, part := range parts {
		sum := sha256.Sum256(part)
		whole.Write(sum[:])
	}
	return hex.EncodeToString(whole.Sum(nil))
}

// secretOf returns the name of the Secret that a Signer uses, or "".
func secretOf(s *v1alpha1.Signer) string {
	switch ca := s.Spec.CA; {
	case ca.Generated != nil:
		return generatedName(s)
	case ca.Secret != nil:
		return ca.Secret.Name
	case ca.Webhook != nil && ca.Webhook.Credentials != nil:
		return ca.Webhook.Credentials.Name
	}
	return ""
}

func (r *reconciler) secret(ctx context.Context, name string) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	err := r.secrets.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: name}, secret)
	if apierrors.IsNotFound(err) {
		return nil, newProblem(reasonCANotFound, "the Secret %s/%s does not exist: create it with kubectl --namespace %s create secret tls %s --cert FILE --key FILE",
			r.Namespace, name, r.Namespace, name)
	}
	return secret, err
}

// rootsKey is the key in Secrets for further roots. By the convention of other tools, these
// are the roots of the issuer or of a future CA.
const rootsKey = "ca.crt"

func (r *reconciler) fromSecret(ctx context.Context, s *v1alpha1.Signer, name string) (*issuer, error) {
	secret, err := r.secret(ctx, name)
	if err != nil {
		return nil, err
	}
	if secret.Type != corev1.SecretTypeTLS {
		return nil, newProblem(reasonCAInvalid, "the Secret %s/%s is of the type %s: it must be %s", r.Namespace, name, secret.Type, corev1.SecretTypeTLS)
	}
	cert, key, more := secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey], secret.Data[rootsKey]
	return r.reuseOrMake(s, func() (*issuer, error) {
		authority, err := pki.ParseAuthority(cert, key)
		if err != nil {
			return nil, newProblem(reasonCAInvalid, "the Secret %s/%s: %v", r.Namespace, name, err)
		}
		further, err := parseRoots(more)
		if err != nil {
			return nil, newProblem(reasonCAInvalid, "the Secret %s/%s: %s: %v", r.Namespace, name, rootsKey, err)
		}
		return &issuer{ca: always(authority), moreRoots: further}, nil
	}, cert, key, more)
}

// always returns a CA that does not change.
func always(authority *pki.Authority) func() (*pki.Authority, error) {
	return func() (*pki.Authority, error) { return authority, nil }
}

func parseRoots(data []byte) ([]*x509.Certificate, error) {
	if len(data) == 0 {
		return nil, nil
	}
	return pki.ParseBundle(data)
}

// openTimeout is how long it may take to find a CA's key.
const openTimeout = 30 * time.Second

func (r *reconciler) fromKey(ctx context.Context, s *v1alpha1.Signer, ca *v1alpha1.KeyCA) (*issuer, error) {
	return r.reuseOrMake(s, func() (*issuer, error) {
		ctx, cancel := context.WithTimeout(ctx, openTimeout)
		defer cancel()
		key, err := keystore.OpenKey(ctx, ca.URI, []byte(ca.Certificate))
		if err != nil {
			return nil, newProblem(reasonUnavailable, "opening the CA's key: %v", err)
		}
		return &issuer{ca: always(key.Authority), closer: key}, nil
	})
}

func (r *reconciler) builtIn(s *v1alpha1.Signer) (*issuer, error) {
	if r.BuiltIn == nil {
		return nil, newProblem(reasonCANotFound, "no CA is configured for the built-in signers: set signing.ca in the configuration of certplane")
	}
	authority, err := r.BuiltIn.Current()
	if err != nil {
		return nil, newProblem(reasonUnavailable, "the CA of the built-in signers cannot be used: %v", err)
	}
	// The CA is looked up for each certificate. An issuer with another CA
	// notifies the requests that have waited.
	return r.reuseOrMake(s, func() (*issuer, error) { return &issuer{ca: r.BuiltIn.Current}, nil }, authority.Certificate().Raw)
}

func (r *reconciler) fromWebhook(ctx context.Context, s *v1alpha1.Signer, ca *v1alpha1.WebhookCA) (*issuer, error) {
	credentials := webhook.Credentials{CA: []byte(ca.CABundle)}
	if ca.Credentials != nil {
		secret, err := r.secret(ctx, ca.Credentials.Name)
		if err != nil {
			return nil, err
		}
		credentials.Certificate = secret.Data[corev1.TLSCertKey]
		credentials.Key = secret.Data[corev1.TLSPrivateKeyKey]
		credentials.Token = secret.Data["token"]
	}
	return r.reuseOrMake(s, func() (*issuer, error) {
		settings := webhook.Settings{SignerName: s.Spec.SignerName, URL: ca.URL}
		if ca.Timeout != nil {
			settings.Timeout = *ca.Timeout
		}
		roots, err := parseRoots([]byte(ca.Roots))
		if err != nil {
			return nil, newProblem(reasonInvalid, "spec.ca.webhook.roots: %v", err)
		}
		endpoint, err := webhook.NewEndpoint(webhook.Config{Settings: settings, Credentials: &credentials, Honoured: r.Honoured, Metrics: r.Metrics})
		if err != nil {
			return nil, newProblem(reasonCAInvalid, "spec.ca.webhook: %v", err)
		}
		return &issuer{endpoint: endpoint, moreRoots: roots}, nil
	}, credentials.CA, credentials.Certificate, credentials.Key, credentials.Token)
}
