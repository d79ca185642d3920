package shim

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/mail"
	"slices"
	"strconv"
	"strings"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/pki"
)

// issuer returns the issuer that annotations select. The texts are those of cert-manager.
func issuer(annotations map[string]string, defaults IngressSettings) (cmmeta.IssuerReference, error) {
	ref := cmmeta.IssuerReference{Name: defaults.DefaultIssuerName, Kind: defaults.DefaultIssuerKind, Group: defaults.DefaultIssuerGroup}
	name, hasIssuer := annotations[cmv1.IngressIssuerNameAnnotationKey]
	if hasIssuer {
		ref.Name, ref.Kind = name, cmv1.IssuerKind
	}
	name, hasClusterIssuer := annotations[cmv1.IngressClusterIssuerNameAnnotationKey]
	if hasClusterIssuer {
		ref.Name, ref.Kind = name, cmv1.ClusterIssuerKind
	}
	kind, hasKind := annotations[cmv1.IssuerKindAnnotationKey]
	if hasKind {
		ref.Kind = kind
	}
	group, hasGroup := annotations[cmv1.IssuerGroupAnnotationKey]
	if hasGroup {
		ref.Group = group
	}
	var problems []string
	if ref.Name == "" {
		problems = append(problems, "failed to determine issuer name to be used for ingress resource")
	}
	conflict := func(a, b string, both bool) {
		if both {
			problems = append(problems, fmt.Sprintf("both %q and %q may not be set", a, b))
		}
	}
	conflict(cmv1.IngressIssuerNameAnnotationKey, cmv1.IngressClusterIssuerNameAnnotationKey, hasIssuer && hasClusterIssuer)
	conflict(cmv1.IngressClusterIssuerNameAnnotationKey, cmv1.IssuerGroupAnnotationKey, hasClusterIssuer && hasGroup)
	conflict(cmv1.IngressClusterIssuerNameAnnotationKey, cmv1.IssuerKindAnnotationKey, hasClusterIssuer && hasKind)
	if len(problems) > 0 {
		return cmmeta.IssuerReference{}, errors.New(strings.Join(problems, ", "))
	}
	return ref, nil
}

// rule sets a field of a Certificate to the value of an annotation.
type rule struct {
	annotation string
	set        func(spec *cmv1.CertificateSpec, value string) error
}

// rules are applied in this order: the size of a key depends on its algorithm. The texts of
// errors are those of cert-manager.
var rules = []rule{
	{cmv1.CommonNameAnnotationKey, setCommonName},
	{cmv1.AltNamesAnnotationKey, addDNSNames},
	{cmv1.IPSANAnnotationKey, addIPAddresses},
	{cmv1.EmailsAnnotationKey, setEmailAddresses},
	{cmv1.SubjectOrganizationsAnnotationKey, subject(func(s *cmv1.X509Subject) *[]string { return &s.Organizations })},
	{cmv1.SubjectOrganizationalUnitsAnnotationKey, subject(func(s *cmv1.X509Subject) *[]string { return &s.OrganizationalUnits })},
	{cmv1.SubjectCountriesAnnotationKey, subject(func(s *cmv1.X509Subject) *[]string { return &s.Countries })},
	{cmv1.SubjectProvincesAnnotationKey, subject(func(s *cmv1.X509Subject) *[]string { return &s.Provinces })},
	{cmv1.SubjectLocalitiesAnnotationKey, subject(func(s *cmv1.X509Subject) *[]string { return &s.Localities })},
	{cmv1.SubjectPostalCodesAnnotationKey, subject(func(s *cmv1.X509Subject) *[]string { return &s.PostalCodes })},
	{cmv1.SubjectStreetAddressesAnnotationKey, subject(func(s *cmv1.X509Subject) *[]string { return &s.StreetAddresses })},
	{cmv1.SubjectSerialNumberAnnotationKey, setSubjectSerialNumber},
	{cmv1.DurationAnnotationKey, duration("duration", cmv1.MinimumCertificateDuration, func(s *cmv1.CertificateSpec) **metav1.Duration { return &s.Duration })},
	{cmv1.RenewBeforeAnnotationKey, duration("renewBefore", cmv1.MinimumRenewBefore, func(s *cmv1.CertificateSpec) **metav1.Duration { return &s.RenewBefore })},
	{cmv1.RenewBeforePercentageAnnotationKey, setRenewBeforePercentage},
	{cmv1.UsagesAnnotationKey, setUsages},
	{cmv1.RevisionHistoryLimitAnnotationKey, setRevisionHistoryLimit},
	{cmv1.PrivateKeyAlgorithmAnnotationKey, key("algorithm", func(k *cmv1.CertificatePrivateKey) *cmv1.PrivateKeyAlgorithm { return &k.Algorithm },
		cmv1.RSAKeyAlgorithm, cmv1.ECDSAKeyAlgorithm, cmv1.Ed25519KeyAlgorithm)},
	{cmv1.PrivateKeyEncodingAnnotationKey, key("encoding", func(k *cmv1.CertificatePrivateKey) *cmv1.PrivateKeyEncoding { return &k.Encoding },
		cmv1.PKCS1, cmv1.PKCS8)},
	{cmv1.PrivateKeySizeAnnotationKey, setKeySize},
	{cmv1.PrivateKeyRotationPolicyAnnotationKey, key("rotation policy", func(k *cmv1.CertificatePrivateKey) *cmv1.PrivateKeyRotationPolicy { return &k.RotationPolicy },
		cmv1.RotationPolicyNever, cmv1.RotationPolicyAlways)},
	{cmv1.IngressSecretTemplate, setSecretTemplate},
}

// translate applies the annotations to the spec of a Certificate. It returns an error for the
// first invalid one.
func translate(annotations map[string]string, spec *cmv1.CertificateSpec) error {
	for _, rule := range rules {
		value, ok := annotations[rule.annotation]
		if !ok {
			continue
		}
		if err := rule.set(spec, value); err != nil {
			return fmt.Errorf("invalid ingress annotation %q: %w", rule.annotation, err)
		}
	}
	return nil
}

func setCommonName(spec *cmv1.CertificateSpec, value string) error {
	if len(value) > 64 { // ub-common-name of RFC 5280
		return errors.New("common name may not be more than 64 bytes")
	}
	spec.CommonName = value
	return nil
}

// addDNSNames neither trims nor removes repeated names, like cert-manager.
func addDNSNames(spec *cmv1.CertificateSpec, value string) error {
	if value != "" {
		spec.DNSNames = append(spec.DNSNames, strings.Split(value, ",")...)
	}
	return nil
}

func addIPAddresses(spec *cmv1.CertificateSpec, value string) error {
	if value == "" {
		return nil
	}
	for address := range strings.SplitSeq(value, ",") {
		address = strings.TrimSpace(address)
		if net.ParseIP(address) == nil {
			return fmt.Errorf("%q is not a valid IP address", address)
		}
		spec.IPAddresses = append(spec.IPAddresses, address)
	}
	return nil
}

func setEmailAddresses(spec *cmv1.CertificateSpec, value string) error {
	for address := range strings.SplitSeq(value, ",") {
		address = strings.TrimSpace(address)
		parsed, err := mail.ParseAddress(address)
		if err != nil {
			return fmt.Errorf("%q is not a valid email address", address)
		}
		if parsed.Address != address {
			return fmt.Errorf("%q must only contain the email address itself", address)
		}
		spec.EmailAddresses = append(spec.EmailAddresses, address)
	}
	return nil
}

// subject returns a rule for a field of the subject whose values are one line of CSV.
func subject(field func(*cmv1.X509Subject) *[]string) func(*cmv1.CertificateSpec, string) error {
	return func(spec *cmv1.CertificateSpec, value string) error {
		lines, err := csv.NewReader(strings.NewReader(value)).ReadAll()
		switch {
		case err != nil:
			return fmt.Errorf("failed to parse %q as CSV: %w", value, err)
		case len(lines) == 0:
			return fmt.Errorf("no values found after parsing %q", value)
		case len(lines) > 1:
			return fmt.Errorf("refusing to use %q as input as it parses as multiple lines of CSV", value)
		}
		*field(subjectOf(spec)) = lines[0]
		return nil
	}
}

func setSubjectSerialNumber(spec *cmv1.CertificateSpec, value string) error {
	if value != "" {
		subjectOf(spec).SerialNumber = value
	}
	return nil
}

func subjectOf(spec *cmv1.CertificateSpec) *cmv1.X509Subject {
	if spec.Subject == nil {
		spec.Subject = &cmv1.X509Subject{}
	}
	return spec.Subject
}

// duration returns a rule for a duration of at least this length.
func duration(name string, least time.Duration, field func(*cmv1.CertificateSpec) **metav1.Duration) func(*cmv1.CertificateSpec, string) error {
	return func(spec *cmv1.CertificateSpec, value string) error {
		d, err := time.ParseDuration(value)
		if err == nil && d < least {
			err = fmt.Errorf("%s must be greater than or equal to %s", name, least)
		}
		*field(spec) = &metav1.Duration{Duration: d}
		return err
	}
}

func setRenewBeforePercentage(spec *cmv1.CertificateSpec, value string) (err error) {
	spec.RenewBeforePercentage, err = parseInt32(value)
	return err
}

func parseInt32(value string) (*int32, error) {
	n, err := strconv.ParseInt(value, 10, 32)
	if err != nil {
		return nil, err
	}
	return new(int32(n)), nil
}

func setUsages(spec *cmv1.CertificateSpec, value string) error {
	spec.Usages = nil // the defaults
	for name := range strings.SplitSeq(value, ",") {
		usage := cmv1.KeyUsage(strings.Trim(name, " "))
		if _, err := pki.ParseUsages([]cmv1.KeyUsage{usage}); err != nil {
			return fmt.Errorf("invalid key usage name %q", name)
		}
		spec.Usages = append(spec.Usages, usage)
	}
	return nil
}

func setRevisionHistoryLimit(spec *cmv1.CertificateSpec, value string) error {
	limit, err := parseInt32(value)
	if err != nil {
		return err
	}
	if *limit < 1 {
		return fmt.Errorf("revision history limit must be a positive number %q", value)
	}
	spec.RevisionHistoryLimit = limit
	return nil
}

// key returns a rule for a field of the private key that has one of these values.
func key[T ~string](name string, field func(*cmv1.CertificatePrivateKey) *T, values ...T) func(*cmv1.CertificateSpec, string) error {
	return func(spec *cmv1.CertificateSpec, value string) error {
		if !slices.Contains(values, T(value)) {
			return fmt.Errorf("invalid private key %s %q", name, value)
		}
		*field(keyOf(spec)) = T(value)
		return nil
	}
}

func setKeySize(spec *cmv1.CertificateSpec, value string) error {
	size, err := strconv.Atoi(value)
	if err != nil {
		return err
	}
	algorithm := certmanager.KeyAlgorithm(spec)
	if algorithm == cmv1.ECDSAKeyAlgorithm && size != 256 && size != 384 && size != 521 || algorithm == cmv1.RSAKeyAlgorithm && (size < 2048 || size > 8192) {
		return fmt.Errorf("invalid private key size for %s algorithm %q", algorithm, value)
	}
	keyOf(spec).Size = size
	return nil
}

func keyOf(spec *cmv1.CertificateSpec) *cmv1.CertificatePrivateKey {
	if spec.PrivateKey == nil {
		spec.PrivateKey = &cmv1.CertificatePrivateKey{}
	}
	return spec.PrivateKey
}

func setSecretTemplate(spec *cmv1.CertificateSpec, value string) error {
	decoder := json.NewDecoder(strings.NewReader(value))
	decoder.DisallowUnknownFields()
	template := &cmv1.CertificateSecretTemplate{}
	if err := decoder.Decode(template); err != nil {
		return fmt.Errorf("error parsing secret template JSON: %w", err)
	}
	for _, key := range slices.Sorted(maps.Keys(template.Annotations)) {
		if strings.HasPrefix(key, cmv1.SchemeGroupVersion.Group+"/") {
			return fmt.Errorf("secretTemplate must not have cert-manager.io/ annotations: %q", key)
		}
	}
	if len(template.Annotations)+len(template.Labels) > 0 {
		spec.SecretTemplate = template
	}
	return nil
}
