package certmanager

import (
	"crypto/x509"
	"slices"
	"strings"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ValidateIssuer returns the errors of a new Issuer or ClusterIssuer, and
// warnings for its author.
func ValidateIssuer(issuer cmv1.GenericIssuer) (field.ErrorList, []string) {
	config := &issuer.GetSpec().IssuerConfig
	return validateIssuerConfig(config, specPath), issuerWarnings(config)
}

// ValidateIssuerUpdate returns the errors of replacing old by issuer. A spec
// that does not change stays valid.
func ValidateIssuerUpdate(issuer, old cmv1.GenericIssuer) (field.ErrorList, []string) {
	if apiequality.Semantic.DeepEqual(issuer.GetSpec(), old.GetSpec()) {
		return nil, nil
	}
	return ValidateIssuer(issuer)
}

// validateIssuerConfig requires that an issuer has exactly one type.
func validateIssuerConfig(config *cmv1.IssuerConfig, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	var one choiceOfOne
	if config.ACME != nil && one.add("acme") {
		errs = append(errs, validateACME(config.ACME, path.Child("acme"))...)
	}
	if config.CA != nil && one.add("ca") {
		errs = append(errs, validateCA(config.CA, path.Child("ca"))...)
	}
	if config.SelfSigned != nil && one.add("selfSigned") {
		errs = append(errs, validateFilled(config.SelfSigned.CRLDistributionPoints, path.Child("selfSigned", "crlDistributionPoints"))...)
	}
	if config.Vault != nil && one.add("vault") {
		errs = append(errs, validateVault(config.Vault, path.Child("vault"))...)
	}
	if config.Venafi != nil && one.add("venafi") {
		errs = append(errs, validateVenafi(config.Venafi, path.Child("venafi"))...)
	}
	return append(errs, one.validate(path, "at least one issuer must be configured", "may not specify more than one issuer type")...)
}

// issuerWarnings returns warnings for the author of a valid issuer. Only certplane warns
// that calls to a Vault server are not encrypted; cert-manager does not.
func issuerWarnings(config *cmv1.IssuerConfig) []string {
	if vault := config.Vault; vault != nil && strings.HasPrefix(strings.ToLower(vault.Server), "http://") {
		return []string{"spec.vault.server: tokens and secrets of logins are sent to the Vault server without encryption: use https:// if it can be reached from other hosts"}
	}
	//lint:ignore SA1019 who still sets it is to be told
	if config.ACME != nil && config.ACME.ExternalAccountBinding != nil && config.ACME.ExternalAccountBinding.KeyAlgorithm != "" {
		return []string{"ACME issuer spec field 'externalAccount.keyAlgorithm' is deprecated. The value of this field will be ignored."}
	}
	return nil
}

// choiceOfOne lists the blocks that are set. Exactly one block must be set.
type choiceOfOne []string

// add records that a block is set. It returns true only for the first: the
// content of the others does not matter, because they must be removed.
func (c *choiceOfOne) add(name string) (first bool) {
	*c = append(*c, name)
	return len(*c) == 1
}

// validate returns errors with the text none if no block is set, and with the
// text several for each block but the first.
func (c choiceOfOne) validate(path *field.Path, none, several string) field.ErrorList {
	if len(c) == 0 {
		return field.ErrorList{field.Required(path, none)}
	}
	var errs field.ErrorList
	for _, name := range c[1:] {
		errs = append(errs, field.Forbidden(path.Child(name), several))
	}
	return errs
}

// validateWhole is like validate, with one error about the whole.
func (c choiceOfOne) validateWhole(path *field.Path, text string) field.ErrorList {
	switch len(c) {
	case 0:
		return field.ErrorList{field.Required(path, text)}
	case 1:
		return nil
	}
	return field.ErrorList{field.Forbidden(path, text)}
}

func validateCA(ca *cmv1.CAIssuer, path *field.Path) field.ErrorList {
	errs := required(ca.SecretName, path.Child("secretName"))
	errs = append(errs, validateFilled(ca.CRLDistributionPoints, path.Child("crlDistributionPoints"))...)
	errs = append(errs, validateFilled(ca.OCSPServers, path.Child("ocspServers"))...)
	return append(errs, validateFilled(ca.IssuingCertificateURLs, path.Child("issuingCertificateURLs"))...)
}

// validateFilled refuses empty URLs: in a certificate they would be an address
// that does not exist.
func validateFilled(urls []string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, url := range urls {
		errs = append(errs, required(url, path.Index(i))...)
	}
	return errs
}

func required(value string, path *field.Path) field.ErrorList {
	return requiredFor(value, path, "must not be empty")
}

// requiredFor returns an error with this text if the value is empty.
func requiredFor(value string, path *field.Path, text string) field.ErrorList {
	if value == "" {
		return field.ErrorList{field.Required(path, text)}
	}
	return nil
}

func requiredKey(ref *cmmeta.SecretKeySelector, path *field.Path) field.ErrorList {
	return append(requiredFor(ref.Name, path.Child("name"), "secret name is required"),
		requiredFor(ref.Key, path.Child("key"), "secret key is required")...)
}

// validateBundle returns an error that shows this in place of the bundle.
func validateBundle(bundle []byte, path *field.Path, shown string) field.ErrorList {
	if len(bundle) > 0 && !x509.NewCertPool().AppendCertsFromPEM(bundle) {
		return field.ErrorList{field.Invalid(path, shown, "cert bundle didn't contain any valid certificates")}
	}
	return nil
}

// validatePath refuses paths that leave the place for which the server's token
// is meant.
func validatePath(path string, fldPath *field.Path) field.ErrorList {
	if slices.Contains(strings.Split(path, "/"), "..") {
		return field.ErrorList{field.Invalid(fldPath, path, "must not contain '..' path segments")}
	}
	return nil
}
