package certificates

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxSignerNameLength allows a domain, a slash and a path of a label, a dot and
// a subdomain: 253 + 1 + 63 + 1 + 253.
const maxSignerNameLength = validation.DNS1123SubdomainMaxLength + 1 +
	validation.DNS1123LabelMaxLength + 1 + validation.DNS1123SubdomainMaxLength

// ValidateSignerName returns why name is not a valid signer name: it must be a
// domain, a slash and a path of dot-separated parts, as in
// "example.com/signer-name".
func ValidateSignerName(fldPath *field.Path, name string) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(fldPath, "")}
	}
	if strings.Count(name, "/") != 1 {
		return field.ErrorList{field.Invalid(fldPath, name,
			"must be a fully qualified domain and path of the form 'example.com/signer-name'")}
	}
	domain, path, _ := strings.Cut(name, "/")

	errs := validateSignerDomain(fldPath, domain)
	errs = append(errs, validateLabels(fldPath, path, validation.IsDNS1123Subdomain)...)
	if len(name) > maxSignerNameLength {
		errs = append(errs, field.TooLong(fldPath, name, maxSignerNameLength))
	}
	return errs
}

func validateSignerDomain(fldPath *field.Path, domain string) field.ErrorList {
	var errs field.ErrorList
	if len(domain) > validation.DNS1123SubdomainMaxLength {
		errs = append(errs, field.TooLong(fldPath, domain, validation.DNS1123SubdomainMaxLength))
	}
	errs = append(errs, validateLabels(fldPath, domain, validation.IsDNS1123Label)...)
	if !strings.Contains(domain, ".") {
		errs = append(errs, field.Invalid(fldPath, domain, "should be a domain with at least two segments separated by dots"))
	}
	return errs
}

// validateLabels applies check to the dot-separated labels of part. It stops at
// the first invalid one: the errors of the others would be the same.
func validateLabels(fldPath *field.Path, part string, check func(string) []string) field.ErrorList {
	for label := range strings.SplitSeq(part, ".") {
		problems := check(label)
		if len(problems) == 0 {
			continue
		}
		var errs field.ErrorList
		for _, problem := range problems {
			errs = append(errs, field.Invalid(fldPath, part, fmt.Sprintf("validating label %q: %s", label, problem)))
		}
		return errs
	}
	return nil
}
