package certplane

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/acmeorder"
	"github.com/certplane/certplane/internal/rights"
)

// RevocationWebhookName is part of refusals that come from a webhook.
const RevocationWebhookName = "revocations." + WebhookName

// Revocations is the resource of Revocations.
var Revocations = v1alpha1.GroupVersion.WithResource("revocations")

// Certificates returns the certificates that a Revocation has as pem, in their places, and
// nil in the places of those that it names in another way.
func Certificates(spec *v1alpha1.RevocationSpec) ([]*x509.Certificate, field.ErrorList) {
	var errs field.ErrorList
	certs := make([]*x509.Certificate, len(spec.Certificates))
	for i, named := range spec.Certificates {
		if named.PEM == "" {
			continue
		}
		cert, err := pki.ParseOneCertificate([]byte(named.PEM))
		if err != nil {
			errs = append(errs, field.Invalid(certificatesPath.Index(i).Child("pem"), field.OmitValueType{}, err.Error()))
		}
		certs[i] = cert
	}
	return certs, errs
}

var certificatesPath = field.NewPath("spec", "certificates")

// ValidateRevocation returns what is wrong with a Revocation, as far as that shows without
// an inventory and its definition does not refuse it. old is nil for a new one.
func ValidateRevocation(old, revocation *v1alpha1.Revocation, now time.Time) field.ErrorList {
	if old != nil {
		if !reflect.DeepEqual(old.Spec, revocation.Spec) {
			return field.ErrorList{field.Forbidden(field.NewPath("spec"), "a Revocation does not change")}
		}
		return nil
	}
	certs, errs := Certificates(&revocation.Spec)
	for i, cert := range certs {
		if cert == nil {
			continue
		}
		if cert.NotAfter.Before(now) {
			errs = append(errs, field.Forbidden(certificatesPath.Index(i), "ended on "+cert.NotAfter.UTC().Format(time.RFC3339)))
		}
		if string(revocation.Spec.Reason) == pki.ReasonCACompromise.String() && !cert.IsCA {
			errs = append(errs, field.Forbidden(field.NewPath("spec", "reason"), "CACompromise is for CA certificates: use KeyCompromise"))
		}
	}
	return errs
}

// ended reports whether it is known that all certificates of a Revocation have ended.
func ended(revocation *v1alpha1.Revocation, now time.Time) bool {
	certs, errs := Certificates(&revocation.Spec)
	return len(errs) == 0 && len(certs) > 0 && !slices.ContainsFunc(certs, func(cert *x509.Certificate) bool {
		return cert == nil || now.Before(cert.NotAfter)
	})
}

// RevocationChecks checks Revocations where there is no inventory: in clusters, where a
// kube-apiserver asks a webhook about the certificates of its users. It is safe for
// concurrent use.
type RevocationChecks struct {
	authorize Authorize
	now       func() time.Time
}

// NewRevocations returns checks that ask authorize what users may do.
func NewRevocations(authorize Authorize, now func() time.Time) *RevocationChecks {
	return &RevocationChecks{authorize, now}
}

// RevocationWrite is a write of a Revocation.
type RevocationWrite struct {
	Request
	User authenticationv1.UserInfo
}

// Validate refuses Revocations that cannot work without an inventory, and their deletion
// before their certificates have ended: those named by fingerprint have no known end.
//
// Who creates one needs the verb revoke on all signers of certificates.k8s.io, the resource
// name "*", since nothing in a cluster tells which signer has signed a certificate. The ACME
// server, which has the verb serve on all acmeendpoints, may revoke one certificate at a time,
// for its clients.
func (c *RevocationChecks) Validate(ctx context.Context, w RevocationWrite) (warnings []string, refusal *apierrors.StatusError) {
	if w.Subresource != "" {
		return nil, nil
	}
	revocation, old := &v1alpha1.Revocation{}, (*v1alpha1.Revocation)(nil)
	if w.Old != nil {
		old = &v1alpha1.Revocation{}
	}
	if err := errors.Join(convert(w.Object, revocation), convert(w.Old, old)); err != nil {
		return nil, w.invalid(field.ErrorList{field.Invalid(field.NewPath("spec"), field.OmitValueType{}, err.Error())})
	}
	switch {
	case w.Operation == admissionv1.Delete && old != nil:
		if !ended(old, c.now()) {
			return nil, w.forbidden(errors.New("a revocation cannot be undone; this object is deleted when its certificates have ended"))
		}
		return nil, nil
	case !writes(w.Operation) || w.Object == nil:
		return nil, nil
	case old != nil:
		return nil, w.refuse(ValidateRevocation(old, revocation, c.now()))
	}
	if err := c.mayRevoke(ctx, w.User, len(revocation.Spec.Certificates)); err != nil {
		return nil, w.forbidden(err)
	}
	warnings, errs := withoutInventory(&revocation.Spec)
	return warnings, w.refuse(append(errs, ValidateRevocation(nil, revocation, c.now())...))
}

// withoutInventory checks how a Revocation names its certificates.
func withoutInventory(spec *v1alpha1.RevocationSpec) (warnings []string, errs field.ErrorList) {
	if spec.Selection != nil {
		errs = append(errs, field.Forbidden(field.NewPath("spec", "selection"), "needs the inventory of certplane serve: give certificates as pem"))
	}
	for i, named := range spec.Certificates {
		switch path := certificatesPath.Index(i); {
		case named.SerialNumber != "":
			warnings = append(warnings, path.String()+".serialNumber: only revocation lists have it: kube-apiserver's webhook knows fingerprints only: give the certificate as pem")
		case named.Fingerprint != "":
			warnings = append(warnings, path.String()+".fingerprint: refused by this fingerprint alone: the holder of a certificate signed with ECDSA can change it: give the certificate as pem")
		}
	}
	return warnings, errs
}

func (c *RevocationChecks) mayRevoke(ctx context.Context, user authenticationv1.UserInfo, certificates int) error {
	may, err := c.authorize(ctx, user, authorizationv1.ResourceAttributes{
		Verb: "revoke", Group: certificatesv1.GroupName, Version: "*", Resource: "signers", Name: "*",
	})
	if err == nil && !may && certificates == 1 {
		may, err = c.authorize(ctx, user, acmeorder.OnEndpoint(rights.ACMEServe, "*"))
	}
	if err != nil {
		return fmt.Errorf("cannot check whether user %q may revoke certificates: %w", user.Username, err)
	}
	if !may {
		return fmt.Errorf("user %q may not revoke certificates (revoke on signers.%s, for all signers)", user.Username, certificatesv1.GroupName)
	}
	return nil
}

func convert[T any](loose *unstructured.Unstructured, into *T) error {
	if loose == nil {
		return nil
	}
	return runtime.DefaultUnstructuredConverter.FromUnstructured(loose.Object, into)
}

func (w RevocationWrite) refuse(errs field.ErrorList) *apierrors.StatusError {
	if len(errs) == 0 {
		return nil
	}
	return w.invalid(errs)
}

func (w RevocationWrite) invalid(errs field.ErrorList) *apierrors.StatusError {
	return apierrors.NewInvalid(v1alpha1.GroupVersion.WithKind("Revocation").GroupKind(), w.Name, errs)
}

func (w RevocationWrite) forbidden(err error) *apierrors.StatusError {
	return apierrors.NewForbidden(Revocations.GroupResource(), w.Name, err)
}
