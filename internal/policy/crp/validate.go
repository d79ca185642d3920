package crp

import (
	"encoding/asn1"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/certplane/certplane/internal/api/approverpolicy"
)

var specPath = field.NewPath("spec")

// pluginErrors is a list that the compiler of a policy keeps.
type pluginErrors field.ErrorList

func (p pluginErrors) list() field.ErrorList { return slices.Clone(field.ErrorList(p)) }

// validatePlugins refuses all plugins: there are none.
func validatePlugins(plugins map[string]approverpolicy.Plugin) pluginErrors {
	var errs pluginErrors
	for _, name := range slices.Sorted(maps.Keys(plugins)) {
		errs = append(errs, field.NotSupported[string](specPath.Child("plugins"), name, nil))
	}
	return errs
}

func (s *selector) validate(declared *approverpolicy.Selector) field.ErrorList {
	var errs field.ErrorList
	path := specPath.Child("selector")
	if declared.IssuerRef == nil && declared.Namespace == nil {
		errs = append(errs, field.Required(path, "one of issuerRef or namespace must be defined, hint: `{}` on either matches everything"))
	}
	if s.labelsErr != nil {
		errs = append(errs, field.Invalid(path.Child("namespace", "matchLabels"), declared.Namespace.MatchLabels, s.labelsErr.Error()))
	}
	return errs
}

// validate returns the errors in the order of approver-policy.
func (a *allowed) validate() field.ErrorList {
	var errs field.ErrorList
	for _, lists := range [][]list{a.names, a.subject} {
		for i := range lists {
			errs = append(errs, lists[i].validate(lists[i].path)...)
		}
	}
	errs = append(errs, a.commonName.validate(a.commonName.path)...)
	errs = append(errs, a.serialNumber.validate(a.serialNumber.path)...)
	errs = append(errs, a.otherNames.validate(func(string) string { return "" })...)
	return append(errs, a.otherAttributes.validate(reservedAttribute)...)
}

func reservedAttribute(oid string) string {
	if subjectFields[oid] == "" {
		return ""
	}
	return "this OID is covered by a dedicated allowed.commonName / allowed.subject.* field; configure it there instead of otherAttributes"
}

// invalidOID returns why a text is not an object identifier in its only form.
func invalidOID(text string) string {
	var oid asn1.ObjectIdentifier
	for arc := range strings.SplitSeq(text, ".") {
		number, err := strconv.Atoi(arc)
		if err != nil {
			oid = nil
			break
		}
		oid = append(oid, number)
	}
	switch {
	case oid == nil || oid.String() != text:
		return `must be a valid, canonical dotted ASN.1 object identifier (e.g. "1.3.6.1.4.1.311.20.2.3")`
	case slices.ContainsFunc(oid, func(arc int) bool { return arc < 0 }):
		return "OID arcs must be non-negative"
	}
	return ""
}

func validateConstraints(limits *approverpolicy.Constraints) field.ErrorList {
	if limits == nil {
		return nil
	}
	errs := validateKey(limits.PrivateKey)
	longest, shortest := limits.MaxDuration, limits.MinDuration
	if longest != nil && shortest != nil && longest.Duration < shortest.Duration {
		errs = append(errs, field.Invalid(constraintsPath.Child("maxDuration"), longest.Duration.String(), "maxDuration must be the same value as minDuration or larger"))
	}
	errs = append(errs, validateDuration("maxDuration", longest)...)
	return append(errs, validateDuration("minDuration", shortest)...)
}

func validateDuration(name string, limit *metav1.Duration) field.ErrorList {
	if limit == nil || limit.Duration >= 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(constraintsPath.Child(name), limit.Duration.String(), name+" must be a value greater or equal to 0")}
}

func validateKey(limits *approverpolicy.PrivateKeyConstraints) field.ErrorList {
	if limits == nil {
		return nil
	}
	var errs field.ErrorList
	largest, smallest := limits.MaxSize, limits.MinSize
	if limits.Algorithm != nil {
		errs = append(errs, validateAlgorithm(*limits.Algorithm)...)
		if *limits.Algorithm == cmv1.Ed25519KeyAlgorithm {
			errs = append(errs, validateNoSize("maxSize", largest)...)
			errs = append(errs, validateNoSize("minSize", smallest)...)
		}
	}
	errs = append(errs, validateSize("maxSize", largest)...)
	errs = append(errs, validateSize("minSize", smallest)...)
	if largest != nil && smallest != nil && *largest < *smallest {
		errs = append(errs, field.Invalid(privateKeyPath.Child("maxSize"), *largest, "maxSize must be the same value as minSize or larger"))
	}
	return errs
}

func validateAlgorithm(algorithm cmv1.PrivateKeyAlgorithm) field.ErrorList {
	supported := []cmv1.PrivateKeyAlgorithm{cmv1.RSAKeyAlgorithm, cmv1.ECDSAKeyAlgorithm, cmv1.Ed25519KeyAlgorithm}
	if slices.Contains(supported, algorithm) {
		return nil
	}
	return field.ErrorList{field.NotSupported(privateKeyPath.Child("algorithm"), algorithm, supported)}
}

func validateNoSize(name string, size *int) field.ErrorList {
	if size == nil {
		return nil
	}
	return field.ErrorList{field.Invalid(privateKeyPath.Child(name), *size, fmt.Sprintf("%s cannot be defined with algorithm constraint %s", name, cmv1.Ed25519KeyAlgorithm))}
}

func validateSize(name string, size *int) field.ErrorList {
	if size == nil || *size >= 0 && *size <= 8192 {
		return nil
	}
	return field.ErrorList{field.Invalid(privateKeyPath.Child(name), *size, "must be between 0 and 8192 inclusive")}
}
