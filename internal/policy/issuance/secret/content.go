// Package secret decides what the Secret of a Certificate contains.
package secret

import (
	"bytes"
	"crypto"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	applymetav1 "k8s.io/client-go/applyconfigurations/meta/v1"

	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/issuance/wanted"
)

// FieldManager is the field manager of Apply. With another name, fields that
// were written under this one would not be removed.
const FieldManager = "cert-manager-certificates-issuing"

// TemporaryAnnotation marks a Secret whose certificate is not from the issuer,
// but is a temporary one to serve with until the issuer has answered.
const TemporaryAnnotation = "certplane.dev/temporary-certificate"

// TemporaryIssuer is the name of the CAs that sign such certificates. Each has
// its own key, and no key is kept.
const TemporaryIssuer = "cert-manager.local"

// IsTemporary reports whether a Secret has such a certificate: one of that
// issuer that is marked, or has no annotation of an issuer, as cert-manager
// leaves it. The annotation alone is not enough: any client may have set it,
// and the certificate issued as a replacement would have it too.
func IsTemporary(s *corev1.Secret) bool {
	_, says := s.Annotations[cmv1.IssuerNameAnnotationKey]
	if says && s.Annotations[TemporaryAnnotation] != "true" {
		return false
	}
	certs, err := pki.ParseBundle(s.Data[corev1.TLSCertKey])
	return err == nil && certs[0].Issuer.CommonName == TemporaryIssuer
}

// Content is the wanted content of a Certificate's Secret.
type Content struct {
	Certificate *cmv1.Certificate
	// Key, Chain and CA are PEM, and are written unchanged to the Secret. CA
	// may be empty: then the Secret has no ca.crt.
	Key, Chain, CA []byte
	// Issuer is the issuerRef of the request that was signed, unchanged.
	Issuer cmmeta.IssuerReference
	// Temporary marks a certificate that is not from the issuer.
	Temporary bool
}

// Issued returns the content when a request has been answered. The key is
// encoded as the Certificate requests.
func Issued(crt *cmv1.Certificate, cr *cmv1.CertificateRequest, key crypto.Signer) (Content, error) {
	data, err := wanted.EncodeKey(&crt.Spec, key)
	return Content{Certificate: crt, Key: data, Chain: cr.Status.Certificate, CA: cr.Status.CA, Issuer: cr.Spec.IssuerRef}, err
}

// Interim returns the content while a request waits for its answer: a
// certificate of issuance.Temporary.
func Interim(crt *cmv1.Certificate, chain []byte, key crypto.Signer) (Content, error) {
	data, err := wanted.EncodeKey(&crt.Spec, key)
	return Content{Certificate: crt, Key: data, Chain: chain, Temporary: true}, err
}

// Existing returns the content that a Secret has already, to write again what
// is derived from it. ok is false if it has no certificate or no key.
func Existing(crt *cmv1.Certificate, s *corev1.Secret) (c Content, ok bool) {
	c = Content{
		Certificate: crt, Key: s.Data[corev1.TLSPrivateKeyKey], Chain: s.Data[corev1.TLSCertKey], CA: s.Data[cmmeta.TLSCAKey],
		Issuer: crt.Spec.IssuerRef, Temporary: IsTemporary(s),
	}
	if name, says := s.Annotations[cmv1.IssuerNameAnnotationKey]; says {
		c.Issuer = cmmeta.IssuerReference{
			Name: name, Kind: s.Annotations[cmv1.IssuerKindAnnotationKey], Group: s.Annotations[cmv1.IssuerGroupAnnotationKey],
		}
	}
	return c, len(c.Key) > 0 && len(c.Chain) > 0
}

// Options are the other inputs that decide about a Secret.
type Options struct {
	// Type is the type of the existing Secret, which is immutable; empty if the
	// Secret does not exist.
	Type corev1.SecretType
	// Owned makes the Certificate the owner of the Secret, which is then
	// deleted with it.
	Owned bool
	// Passwords are the passwords of the keystores that spec.keystores
	// requests.
	Passwords Passwords
	// Now is the creation time in keystores.
	Now time.Time
}

// Passwords encrypt keystores.
type Passwords struct{ JKS, PKCS12 string }

// Apply returns the Secret to apply as FieldManager, with force: fields that it
// no longer has are removed.
func (c Content) Apply(o Options) (*applycorev1.SecretApplyConfiguration, error) {
	data, err := c.data()
	if err != nil {
		return nil, err
	}
	stores, err := c.keystores(o)
	if err != nil {
		return nil, err
	}
	maps.Copy(data, stores)
	annotations, err := c.annotations()
	if err != nil {
		return nil, err
	}
	kind := o.Type
	if kind == "" {
		kind = corev1.SecretTypeTLS
	}
	secret := applycorev1.Secret(c.Certificate.Spec.SecretName, c.Certificate.Namespace).
		WithAnnotations(annotations).WithLabels(c.labels()).WithType(kind).WithData(data)
	if o.Owned {
		secret.WithOwnerReferences(c.owner())
	}
	return secret, nil
}

func (c Content) owner() *applymetav1.OwnerReferenceApplyConfiguration {
	owner := metav1.NewControllerRef(c.Certificate, cmv1.SchemeGroupVersion.WithKind(cmv1.CertificateKind))
	return applymetav1.OwnerReference().WithAPIVersion(owner.APIVersion).WithKind(owner.Kind).
		WithName(owner.Name).WithUID(owner.UID).WithController(true).WithBlockOwnerDeletion(true)
}

// data returns everything but the keystores.
func (c Content) data() (map[string][]byte, error) {
	data := map[string][]byte{corev1.TLSCertKey: c.Chain, corev1.TLSPrivateKeyKey: c.Key}
	if len(c.CA) > 0 {
		data[cmmeta.TLSCAKey] = c.CA
	}
	formats, err := c.formats()
	maps.Copy(data, formats)
	return data, err
}

// formats returns the additional output formats of key and certificate.
func (c Content) formats() (map[string][]byte, error) {
	data := make(map[string][]byte)
	for _, format := range c.Certificate.Spec.AdditionalOutputFormats {
		switch format.Type {
		case cmv1.CertificateOutputFormatDER:
			block, _ := pem.Decode(c.Key)
			if block == nil {
				return nil, errors.New("the private key is not PEM")
			}
			data[cmv1.CertificateOutputFormatDERKey] = block.Bytes
		case cmv1.CertificateOutputFormatCombinedPEM:
			data[cmv1.CertificateOutputFormatCombinedPEMKey] = bytes.Join([][]byte{c.Key, c.Chain}, []byte("\n"))
		default:
			return nil, fmt.Errorf("spec.additionalOutputFormats: %q is not known", format.Type)
		}
	}
	return data, nil
}

// formatKeys are the keys in data of the additional output formats.
var formatKeys = []string{cmv1.CertificateOutputFormatDERKey, cmv1.CertificateOutputFormatCombinedPEMKey}

func (c Content) labels() map[string]string {
	labels := make(map[string]string)
	if template := c.Certificate.Spec.SecretTemplate; template != nil {
		maps.Copy(labels, template.Labels)
	}
	labels[cmv1.PartOfCertManagerControllerLabelKey] = "true"
	return labels
}

func (c Content) annotations() (map[string]string, error) {
	annotations := make(map[string]string)
	if template := c.Certificate.Spec.SecretTemplate; template != nil {
		maps.Copy(annotations, template.Annotations)
	}
	managed, err := c.managed()
	maps.Copy(annotations, managed)
	return annotations, err
}

// managed returns the annotations that describe the content of the Secret.
func (c Content) managed() (map[string]string, error) {
	certs, err := pki.ParseBundle(c.Chain)
	if err != nil {
		return nil, fmt.Errorf("reading the certificate: %w", err)
	}
	annotations := describe(certs[0])
	annotations[cmv1.CertificateNameKey] = c.Certificate.Name
	if c.Temporary {
		annotations[TemporaryAnnotation] = "true"
		return annotations, nil
	}
	annotations[cmv1.IssuerNameAnnotationKey] = c.Issuer.Name
	annotations[cmv1.IssuerKindAnnotationKey] = c.Issuer.Kind
	annotations[cmv1.IssuerGroupAnnotationKey] = c.Issuer.Group
	return annotations, nil
}
