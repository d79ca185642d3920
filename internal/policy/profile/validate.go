package profile

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/certificates"
	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/pki"
)

// validate checks all of spec except its expressions.
func validate(spec v1alpha1.SignerSpec, path *field.Path) field.ErrorList {
	errs := validateSignerName(spec.SignerName, path.Child("signerName"))
	errs = append(errs, validateRequests(spec, path.Child("requests"))...)
	errs = append(errs, validateCA(spec, path.Child("ca"))...)
	errs = append(errs, validateProfile(spec, path.Child("profile"))...)
	chains := []v1alpha1.ChainContent{"", v1alpha1.ChainIntermediates, v1alpha1.ChainIntermediatesAndRoot, v1alpha1.ChainNone}
	return append(errs, oneOf(spec.Chain, chains, path.Child("chain"))...)
}

// APIServerClientPod is the only signer of kubernetes.io that can be declared:
// Kubernetes defines it but has no controller that signs for it (KEP-4317).
const APIServerClientPod = "kubernetes.io/kube-apiserver-client-pod"

func validateSignerName(name string, path *field.Path) field.ErrorList {
	if errs := certificates.ValidateSignerName(path, name); len(errs) > 0 {
		return errs
	}
	domain, _, _ := strings.Cut(name, "/")
	reserved := domain == "kubernetes.io" || strings.HasSuffix(domain, ".kubernetes.io")
	if reserved && name != APIServerClientPod {
		return field.ErrorList{field.Invalid(path, name,
			"names under kubernetes.io are reserved for Kubernetes: use your own domain, or "+APIServerClientPod)}
	}
	if domain == "issuers."+certmanager.Group || domain == "clusterissuers."+certmanager.Group {
		return field.ErrorList{field.Invalid(path, name,
			"names under "+domain+" are reserved for Issuers and ClusterIssuers: use your own domain")}
	}
	return nil
}

func validateRequests(spec v1alpha1.SignerSpec, path *field.Path) field.ErrorList {
	if len(spec.Requests) == 0 {
		return field.ErrorList{field.Required(path, "the kinds of requests to serve: "+join(requestKinds))}
	}
	errs := set(spec.Requests, requestKinds, path)
	if spec.SignerName == APIServerClientPod && slices.Contains(spec.Requests, v1alpha1.CertificateSigningRequests) {
		errs = append(errs, field.Invalid(path, spec.Requests, APIServerClientPod+" serves only PodCertificateRequests"))
	}
	return errs
}

var requestKinds = []v1alpha1.RequestKind{v1alpha1.CertificateSigningRequests, v1alpha1.PodCertificateRequests}

func serves(spec v1alpha1.SignerSpec, kind v1alpha1.RequestKind) bool {
	return slices.Contains(spec.Requests, kind)
}

func validateProfile(spec v1alpha1.SignerSpec, path *field.Path) field.ErrorList {
	profile := spec.Profile
	errs := validateSubject(spec, path)
	if len(profile.Rules) > maxRules {
		errs = append(errs, field.TooMany(path.Child("rules"), len(profile.Rules), maxRules))
	}
	for i, rule := range profile.Rules {
		errs = append(errs, validateRule(rule, path.Child("rules").Index(i))...)
	}
	errs = append(errs, validateAnnotations(spec, path.Child("annotations"))...)
	errs = append(errs, set(profile.KeyTypes, allKeyTypes, path.Child("keyTypes"))...)
	errs = append(errs, validateUsages(spec, path.Child("usages"))...)
	errs = append(errs, oneOf(profile.CertificateAuthorities, []v1alpha1.CARequests{"", v1alpha1.RefuseCAs, v1alpha1.IgnoreCAs}, path.Child("certificateAuthorities"))...)
	errs = append(errs, oneOf(profile.Extensions, []v1alpha1.ExtensionRequests{"", v1alpha1.RefuseExtensions, v1alpha1.IgnoreExtensions}, path.Child("extensions"))...)
	errs = append(errs, validateLifetime(spec, path.Child("lifetime"))...)
	return append(errs, validateRefresh(profile.Refresh, path.Child("refresh"))...)
}

const maxRules = 64

var allKeyTypes = []v1alpha1.KeyType{
	v1alpha1.RSA2048, v1alpha1.RSA3072, v1alpha1.RSA4096, v1alpha1.ECDSAP256, v1alpha1.ECDSAP384, v1alpha1.ECDSAP521, v1alpha1.ED25519,
}

func validateSubject(spec v1alpha1.SignerSpec, path *field.Path) field.ErrorList {
	subject, names := spec.Profile.Subject, spec.Profile.Names
	made := subject.CommonName != "" || subject.Organizations != "" || subject.OrganizationalUnits != ""
	at := path.Child("subject", "fromRequest")
	switch {
	case subject.FromRequest && made:
		return field.ErrorList{field.Invalid(at, true, "the subject is either taken from the request or made by the other fields: set one or the other")}
	case subject.FromRequest && serves(spec, v1alpha1.PodCertificateRequests):
		return field.ErrorList{field.Invalid(at, true, "requests of pods have no subject: make one from the pod, or declare another Signer for CertificateSigningRequests")}
	case !subject.FromRequest && !made && names == (v1alpha1.NamesProfile{}):
		return field.ErrorList{field.Required(path.Child("names"), "certificates need a name or a subject")}
	}
	return nil
}

func validateRule(rule v1alpha1.ProfileRule, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(rule.Message) > 1024 {
		errs = append(errs, field.TooLong(path.Child("message"), "", 1024))
	}
	if strings.ContainsAny(rule.Message, "\r\n") {
		errs = append(errs, field.Invalid(path.Child("message"), rule.Message, "must be one line"))
	}
	if rule.Reason != "" && !isReason(rule.Reason) {
		errs = append(errs, field.Invalid(path.Child("reason"), rule.Reason, "must be a CamelCase word of letters, digits, and _ , : within it, such as NotInProduction"))
	}
	if len(rule.Reason) > 256 {
		errs = append(errs, field.TooLong(path.Child("reason"), "", 256))
	}
	return errs
}

func validateAnnotations(spec v1alpha1.SignerSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(spec.Profile.Annotations) > 0 && !serves(spec, v1alpha1.PodCertificateRequests) {
		errs = append(errs, field.Forbidden(path, "only PodCertificateRequests have annotations, and spec.requests does not contain them"))
	}
	for i, key := range spec.Profile.Annotations {
		at := path.Index(i)
		for _, problem := range validation.IsQualifiedName(strings.ToLower(key)) {
			errs = append(errs, field.Invalid(at, key, problem))
		}
		if !strings.Contains(key, "/") {
			errs = append(errs, field.Invalid(at, key, "must begin with a domain and a slash, as in example.com/name"))
		}
		if slices.Contains(spec.Profile.Annotations[:i], key) {
			errs = append(errs, field.Duplicate(at, key))
		}
	}
	return errs
}

func validateUsages(spec v1alpha1.SignerSpec, path *field.Path) field.ErrorList {
	if len(spec.Profile.Usages) == 0 {
		return field.ErrorList{field.Required(path, `what certificates may be used for, such as "digital signature" and "client auth"`)}
	}
	var errs field.ErrorList
	for i, name := range spec.Profile.Usages {
		_, err := pki.ParseUsages([]string{name})
		switch {
		case err != nil:
			errs = append(errs, field.Invalid(path.Index(i), name, "is not a usage of CertificateSigningRequests"))
		case name == "cert sign" || name == "crl sign":
			errs = append(errs, field.Invalid(path.Index(i), name, "is for CAs, and no Signer issues CA certificates"))
		case slices.Contains(spec.Profile.Usages[:i], name):
			errs = append(errs, field.Duplicate(path.Index(i), name))
		case spec.SignerName == APIServerClientPod && !slices.Contains(clientUsages, name):
			errs = append(errs, field.Invalid(path.Index(i), name, fmt.Sprintf("certificates of %s can only have the usages %s", APIServerClientPod, join(clientUsages))))
		}
	}
	return errs
}

var clientUsages = []string{"client auth", "digital signature", "key encipherment"}

func validateRefresh(r v1alpha1.RefreshProfile, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if p := r.AtPercent; p != 0 && (p < 10 || p > 90) {
		errs = append(errs, field.Invalid(path.Child("atPercent"), p, "must be from 10 to 90"))
	}
	if p := r.JitterPercent; p != nil && (*p < 0 || *p > 30) {
		errs = append(errs, field.Invalid(path.Child("jitterPercent"), *p, "must be from 0 to 30"))
	}
	return errs
}

// isReason reports whether the API accepts word as a condition's reason.
func isReason(word string) bool {
	if word == "" {
		return false
	}
	for i, c := range word {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		inner := c >= '0' && c <= '9' || c == '_'
		within := c == ',' || c == ':'
		switch {
		case letter:
		case i > 0 && inner:
		case i > 0 && i < len(word)-1 && within:
		default:
			return false
		}
	}
	return true
}

func oneOf[T ~string](value T, allowed []T, path *field.Path) field.ErrorList {
	if slices.Contains(allowed, value) {
		return nil
	}
	return field.ErrorList{field.NotSupported(path, value, slices.DeleteFunc(slices.Clone(allowed), func(v T) bool { return v == "" }))}
}

func set[T ~string](values, allowed []T, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, value := range values {
		if errs = append(errs, oneOf(value, allowed, path.Index(i))...); slices.Contains(values[:i], value) {
			errs = append(errs, field.Duplicate(path.Index(i), value))
		}
	}
	return errs
}
