package certmanager

import (
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"fmt"
	"net/mail"
	"net/netip"
	"net/url"
	"time"
	"unicode/utf8"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/certplane/certplane/internal/pki"
)

const (
	// maxCommonName is ub-common-name of RFC 5280 appendix A.1, in characters.
	maxCommonName = 64
	// minDuration and minRenewBefore give an issuer time to answer.
	minDuration    = time.Hour
	minRenewBefore = 5 * time.Minute
)

// DefaultDuration is how long a certificate lasts if no duration is set.
const DefaultDuration = 90 * 24 * time.Hour

// ValidateCertificate returns the errors of a new Certificate.
func ValidateCertificate(crt *cmv1.Certificate) field.ErrorList {
	return validateCertificateSpec(&crt.Spec, specPath)
}

// ValidateCertificateUpdate returns the errors of replacing old by crt. A spec
// that does not change stays valid: otherwise the status of existing
// Certificates could not be written after a server gets stricter rules.
func ValidateCertificateUpdate(crt, old *cmv1.Certificate) field.ErrorList {
	if apiequality.Semantic.DeepEqual(crt.Spec, old.Spec) {
		return nil
	}
	return validateCertificateSpec(&crt.Spec, specPath)
}

func validateCertificateSpec(spec *cmv1.CertificateSpec, path *field.Path) field.ErrorList {
	errs := validateSecretName(spec.SecretName, path.Child("secretName"))
	errs = append(errs, validateIssuerRef(spec.IssuerRef, path.Child("issuerRef"))...)
	for _, validate := range []func(*cmv1.CertificateSpec, *field.Path) field.ErrorList{
		validateSubject,
		validateNames,
		validateTimes,
		validateRenewal,
		validatePrivateKey,
		validateCertificateUsages,
		validateNameConstraints,
		validateSecretTemplate,
		validateOutputs,
		validateKeystores,
	} {
		errs = append(errs, validate(spec, path)...)
	}
	if limit := spec.RevisionHistoryLimit; limit != nil && *limit < 1 {
		errs = append(errs, field.Invalid(path.Child("revisionHistoryLimit"), *limit, "must be 1 or more"))
	}
	return errs
}

func validateSecretName(name string, path *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(path, "must be the name of the Secret to write")}
	}
	var errs field.ErrorList
	for _, why := range apivalidation.NameIsDNSSubdomain(name, false) {
		errs = append(errs, field.Invalid(path, name, why))
	}
	return errs
}

// validateSubject requires that only one of the two ways to define the subject
// is used.
func validateSubject(spec *cmv1.CertificateSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	commonName := spec.CommonName
	if spec.LiteralSubject != "" {
		literal := path.Child("literalSubject")
		if spec.CommonName != "" {
			errs = append(errs, field.Invalid(path.Child("commonName"), spec.CommonName, "must be empty where literalSubject is set, which has a CN"))
		}
		if spec.Subject != nil && !apiequality.Semantic.DeepEqual(*spec.Subject, cmv1.X509Subject{}) {
			errs = append(errs, field.Invalid(path.Child("subject"), spec.Subject, "must be empty where literalSubject is set"))
		}
		name, err := pki.ParseDN(spec.LiteralSubject)
		if err != nil {
			return append(errs, field.Invalid(literal, spec.LiteralSubject, literalProblem(err)))
		}
		var parsed pkix.Name
		parsed.FillFromRDNSequence(&name)
		commonName = parsed.CommonName
	}
	if utf8.RuneCountInString(commonName) > maxCommonName {
		errs = append(errs, field.TooLong(path.Child("commonName"), commonName, maxCommonName))
	}
	if commonName == "" && len(spec.DNSNames)+len(spec.IPAddresses)+len(spec.URIs)+len(spec.EmailAddresses)+len(spec.OtherNames) == 0 {
		errs = append(errs, field.Invalid(path, "", "has no subject or names: set at least one of commonName (or a CN in literalSubject), dnsNames, ipAddresses, uris, emailAddresses, otherNames"))
	}
	return errs
}

// literalProblem returns, for an unknown attribute, the message of
// cert-manager's webhook, followed by what would be valid.
func literalProblem(err error) string {
	var unknown *pki.UnknownAttributeError
	if errors.As(err, &unknown) {
		return fmt.Sprintf("Literal subject contains unrecognized key with value [%s]: %v", unknown.Value, err)
	}
	return err.Error()
}

func validateNames(spec *cmv1.CertificateSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, ip := range spec.IPAddresses {
		if address, err := netip.ParseAddr(ip); err != nil || address.Zone() != "" {
			errs = append(errs, field.Invalid(path.Child("ipAddresses").Index(i), ip, "must be an IPv4 or IPv6 address"))
		}
	}
	for i, uri := range spec.URIs {
		if _, err := url.Parse(uri); err != nil {
			errs = append(errs, field.Invalid(path.Child("uris").Index(i), uri, "must be a URI"))
		}
	}
	for i, address := range spec.EmailAddresses {
		if parsed, err := mail.ParseAddress(address); err != nil || parsed.Address != address {
			errs = append(errs, field.Invalid(path.Child("emailAddresses").Index(i), address, "must be an e-mail address and nothing else"))
		}
	}
	for i, other := range spec.OtherNames {
		errs = append(errs, validateOtherName(other, path.Child("otherNames").Index(i))...)
	}
	return errs
}

func validateOtherName(name cmv1.OtherName, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if name.OID == "" {
		errs = append(errs, field.Required(path.Child("oid"), "must be specified"))
	} else if !encodable(name.OID) {
		errs = append(errs, field.Invalid(path.Child("oid"), name.OID, "invalid oid syntax"))
	}
	if name.UTF8Value == "" || !utf8.ValidString(name.UTF8Value) {
		errs = append(errs, field.Required(path.Child("utf8Value"), "must be set to a valid non-empty UTF8 string"))
	}
	return errs
}

func encodable(oid string) bool {
	id, err := pki.ParseOID(oid)
	if err != nil {
		return false
	}
	_, err = asn1.Marshal(id)
	return err == nil
}

// validateTimes checks the durations. The percentage is the share of the
// lifetime that remains when a certificate is renewed.
func validateTimes(spec *cmv1.CertificateSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	duration := DefaultDuration
	if spec.Duration != nil {
		if duration = spec.Duration.Duration; duration < minDuration {
			errs = append(errs, field.Invalid(path.Child("duration"), duration.String(), "must be at least "+minDuration.String()))
		}
	}
	if spec.RenewBefore != nil {
		errs = append(errs, validateRenewBefore(spec.RenewBefore.Duration, duration, path.Child("renewBefore"))...)
	}
	if spec.RenewBeforePercentage == nil {
		return errs
	}
	percentage := path.Child("renewBeforePercentage")
	if spec.RenewBefore != nil {
		return append(errs, field.Invalid(percentage, *spec.RenewBeforePercentage, "must not be set together with renewBefore"))
	}
	share := *spec.RenewBeforePercentage
	if share <= 0 || share >= 100 {
		return append(errs, field.Invalid(percentage, share, "must be above 0 and below 100"))
	}
	// In floating point, because a long duration times a hundred overflows.
	if before := time.Duration(float64(duration) * float64(share) / 100); before < minRenewBefore {
		errs = append(errs, field.Invalid(percentage, share, "would renew "+before.String()+" before the expiry, must be at least "+minRenewBefore.String()))
	}
	return errs
}

func validateRenewBefore(before, duration time.Duration, path *field.Path) field.ErrorList {
	switch {
	case before < minRenewBefore:
		return field.ErrorList{field.Invalid(path, before.String(), "must be at least "+minRenewBefore.String())}
	case before >= duration:
		return field.ErrorList{field.Invalid(path, before.String(), "must be less than the duration, which is "+duration.String())}
	default:
		return nil
	}
}

func validateRenewal(spec *cmv1.CertificateSpec, path *field.Path) field.ErrorList {
	if spec.Renewal == nil {
		return nil
	}
	path = path.Child("renewal")
	var errs field.ErrorList
	switch spec.Renewal.Policy {
	case "", cmv1.CertificateRenewalPolicyRenewBefore:
	case cmv1.CertificateRenewalPolicyDisabled:
		if len(spec.Renewal.Windows) > 0 {
			errs = append(errs, field.Forbidden(path.Child("windows"), "must not be set where renewal.policy is Disabled"))
		}
	default:
		errs = append(errs, field.NotSupported(path.Child("policy"), spec.Renewal.Policy,
			[]cmv1.CertificateRenewalPolicy{cmv1.CertificateRenewalPolicyRenewBefore, cmv1.CertificateRenewalPolicyDisabled}))
	}
	for i, window := range spec.Renewal.Windows {
		_, wrong := parseWindow(window, path.Child("windows").Index(i))
		errs = append(errs, wrong...)
	}
	return errs
}

func validateCertificateUsages(spec *cmv1.CertificateSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, usage := range spec.Usages {
		if _, err := pki.ParseUsages([]cmv1.KeyUsage{usage}); err != nil {
			errs = append(errs, field.Invalid(path.Child("usages").Index(i), usage, "unknown key usage"))
		}
	}
	return errs
}

func validateNameConstraints(spec *cmv1.CertificateSpec, path *field.Path) field.ErrorList {
	constraints := spec.NameConstraints
	if constraints == nil {
		return nil
	}
	path = path.Child("nameConstraints")
	var errs field.ErrorList
	if !spec.IsCA { // RFC 5280 section 4.2.1.10
		errs = append(errs, field.Forbidden(path, "must only be set where isCA is true"))
	}
	if constraints.Permitted == nil && constraints.Excluded == nil {
		errs = append(errs, field.Required(path, "must have permitted or excluded names"))
	}
	errs = append(errs, validateRanges(constraints.Permitted, path.Child("permitted", "ipRanges"))...)
	return append(errs, validateRanges(constraints.Excluded, path.Child("excluded", "ipRanges"))...)
}

func validateRanges(item *cmv1.NameConstraintItem, path *field.Path) field.ErrorList {
	if item == nil {
		return nil
	}
	var errs field.ErrorList
	for i, text := range item.IPRanges {
		if _, err := netip.ParsePrefix(text); err != nil {
			errs = append(errs, field.Invalid(path.Index(i), text, "must be a range of addresses in CIDR notation"))
		}
	}
	return errs
}

func validateSecretTemplate(spec *cmv1.CertificateSpec, path *field.Path) field.ErrorList {
	if spec.SecretTemplate == nil {
		return nil
	}
	path = path.Child("secretTemplate")
	errs := metavalidation.ValidateLabels(spec.SecretTemplate.Labels, path.Child("labels"))
	errs = append(errs, apivalidation.ValidateAnnotations(spec.SecretTemplate.Annotations, path.Child("annotations"))...)
	return append(errs, validateFreeAnnotations(spec.SecretTemplate.Annotations, path.Child("annotations"))...)
}
