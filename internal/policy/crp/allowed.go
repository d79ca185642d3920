package crp

import (
	"strconv"
	"strings"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/certplane/certplane/internal/api/approverpolicy"
)

// allowed is what requests may ask for.
type allowed struct {
	commonName, serialNumber attribute
	// names are alternative names, subject the attributes of the subject with
	// lists of values.
	names, subject              []list
	otherNames, otherAttributes byOID
	// isCA and usages are nil if the policy does not mention them.
	isCA   *bool
	usages *usages
}

// list is an attribute with a list of values, and where they are in a request.
type list struct {
	attribute
	values func(*content) []string
}

type usages struct {
	patterns  []wildcard
	permitted string
}

func compileAllowed(declared *approverpolicy.Allowed) allowed {
	if declared == nil {
		declared = &approverpolicy.Allowed{}
	}
	subject := declared.Subject
	if subject == nil {
		subject = &approverpolicy.AllowedSubject{}
	}
	return allowed{
		commonName:   newSingle(allowedPath.Child(fieldCommonName), declared.CommonName),
		serialNumber: newSingle(subjectPath.Child(fieldSerialNumber), subject.SerialNumber),
		names: []list{
			newList(allowedPath.Child("dnsNames"), declared.DNSNames, func(c *content) []string { return c.dnsNames }),
			newList(allowedPath.Child("ipAddresses"), declared.IPAddresses, func(c *content) []string { return c.ipAddresses }),
			newList(allowedPath.Child("uris"), declared.URIs, func(c *content) []string { return c.uris }),
			newList(allowedPath.Child("emailAddresses"), declared.EmailAddresses, func(c *content) []string { return c.emailAddresses }),
		},
		subject: []list{
			newList(subjectPath.Child("organizations"), subject.Organizations, func(c *content) []string { return c.subject.Organization }),
			newList(subjectPath.Child("countries"), subject.Countries, func(c *content) []string { return c.subject.Country }),
			newList(subjectPath.Child("organizationalUnits"), subject.OrganizationalUnits, func(c *content) []string { return c.subject.OrganizationalUnit }),
			newList(subjectPath.Child("localities"), subject.Localities, func(c *content) []string { return c.subject.Locality }),
			newList(subjectPath.Child("provinces"), subject.Provinces, func(c *content) []string { return c.subject.Province }),
			newList(subjectPath.Child("streetAddresses"), subject.StreetAddresses, func(c *content) []string { return c.subject.StreetAddress }),
			newList(subjectPath.Child("postalCodes"), subject.PostalCodes, func(c *content) []string { return c.subject.PostalCode }),
		},
		otherNames:      newByOID(allowedPath.Child("otherNames"), declared.OtherNames),
		otherAttributes: newByOID(subjectPath.Child("otherAttributes"), subject.OtherAttributes),
		isCA:            declared.IsCA,
		usages:          compileUsages(declared.Usages),
	}
}

func newList(path *field.Path, declared *approverpolicy.AllowedValues, values func(*content) []string) list {
	return list{newAttribute(path, declared), values}
}

func compileUsages(declared *[]cmv1.KeyUsage) *usages {
	if declared == nil {
		return nil
	}
	texts := usageNames(*declared)
	return &usages{patterns: parseWildcards(texts), permitted: strings.Join(texts, ", ")}
}

func usageNames(usages []cmv1.KeyUsage) []string {
	names := make([]string, 0, len(usages))
	for _, usage := range usages {
		names = append(names, string(usage))
	}
	return names
}

// check returns what the request asks for and may not have. The order is the order of
// the texts of approver-policy.
func (a *allowed) check(c *content) field.ErrorList {
	errs := a.commonName.checkSingle(c, c.commonName)
	errs = append(errs, checkLists(c, a.names)...)
	errs = append(errs, a.checkCA(c.request.Spec.IsCA)...)
	errs = append(errs, a.checkUsages(usageNames(c.request.Spec.Usages))...)
	errs = append(errs, c.alternative.violations()...)
	errs = append(errs, a.otherNames.check(c, c.alternative.others)...)
	errs = append(errs, checkLists(c, a.subject)...)
	errs = append(errs, a.serialNumber.checkSingle(c, c.serialNumber)...)
	errs = append(errs, c.unreadable...)
	return append(errs, a.otherAttributes.check(c, c.other)...)
}

func checkLists(c *content, lists []list) field.ErrorList {
	var errs field.ErrorList
	for i := range lists {
		errs = append(errs, lists[i].checkList(c, lists[i].values(c))...)
	}
	return errs
}

func (a *allowed) checkCA(isCA bool) field.ErrorList {
	if !isCA || isTrue(a.isCA) {
		return nil
	}
	permitted := "nil"
	if a.isCA != nil {
		permitted = strconv.FormatBool(*a.isCA)
	}
	return field.ErrorList{field.Invalid(allowedPath.Child("isCA"), isCA, permitted)}
}

func (a *allowed) checkUsages(requested []string) field.ErrorList {
	path := allowedPath.Child("usages")
	switch {
	case len(requested) == 0:
		return nil
	case a.usages == nil:
		return field.ErrorList{field.Invalid(path, requested, "nil")}
	case !matchEach(a.usages.patterns, requested):
		return field.ErrorList{field.Invalid(path, requested, a.usages.permitted)}
	}
	return nil
}
