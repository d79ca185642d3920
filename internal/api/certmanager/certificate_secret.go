package certmanager

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Sizes of RSA keys, in bits. Smaller keys are not safe, and larger ones take
// minutes to generate.
const (
	minRSABits = 2048
	maxRSABits = 8192
)

// signatureAlgorithms are the algorithms that a key can sign with.
var signatureAlgorithms = map[cmv1.PrivateKeyAlgorithm][]cmv1.SignatureAlgorithm{
	cmv1.RSAKeyAlgorithm:     {cmv1.SHA256WithRSA, cmv1.SHA384WithRSA, cmv1.SHA512WithRSA},
	cmv1.ECDSAKeyAlgorithm:   {cmv1.ECDSAWithSHA256, cmv1.ECDSAWithSHA384, cmv1.ECDSAWithSHA512},
	cmv1.Ed25519KeyAlgorithm: {cmv1.PureEd25519},
}

// KeyAlgorithm returns the algorithm of the key of a Certificate.
func KeyAlgorithm(spec *cmv1.CertificateSpec) cmv1.PrivateKeyAlgorithm {
	if spec.PrivateKey == nil || spec.PrivateKey.Algorithm == "" {
		return cmv1.RSAKeyAlgorithm
	}
	return spec.PrivateKey.Algorithm
}

func validatePrivateKey(spec *cmv1.CertificateSpec, path *field.Path) field.ErrorList {
	algorithm := KeyAlgorithm(spec)
	possible, known := signatureAlgorithms[algorithm]
	if !known {
		return field.ErrorList{field.NotSupported(path.Child("privateKey", "algorithm"), algorithm, slices.Sorted(maps.Keys(signatureAlgorithms)))}
	}
	var errs field.ErrorList
	if spec.SignatureAlgorithm != "" && !slices.Contains(possible, spec.SignatureAlgorithm) {
		errs = append(errs, field.Invalid(path.Child("signatureAlgorithm"), spec.SignatureAlgorithm,
			fmt.Sprintf("a key of algorithm %s can sign with %v", algorithm, possible)))
	}
	if spec.PrivateKey != nil && spec.PrivateKey.Size != 0 {
		errs = append(errs, validateKeySize(algorithm, spec.PrivateKey.Size, path.Child("privateKey", "size"))...)
	}
	return errs
}

func validateKeySize(algorithm cmv1.PrivateKeyAlgorithm, size int, path *field.Path) field.ErrorList {
	switch algorithm {
	case cmv1.RSAKeyAlgorithm:
		if size < minRSABits || size > maxRSABits {
			return field.ErrorList{field.Invalid(path, size, fmt.Sprintf("must be between %d and %d for RSA", minRSABits, maxRSABits))}
		}
	case cmv1.ECDSAKeyAlgorithm:
		if size != 256 && size != 384 && size != 521 {
			return field.ErrorList{field.NotSupported(path, size, []string{"256", "384", "521"})}
		}
	case cmv1.Ed25519KeyAlgorithm: // there is only one size
	}
	return nil
}

// injection is the only annotation of certplane that a template may set: the
// owner of a Secret may allow its CA to be copied from it.
const injection = "cert-manager.io/allow-direct-injection"

// validateFreeAnnotations refuses the other ones: they describe the content of
// a Secret, and controllers read them.
func validateFreeAnnotations(annotations map[string]string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		if strings.HasPrefix(key, Group+"/") && key != injection {
			errs = append(errs, field.Invalid(path, key, "cert-manager.io/* annotations are not allowed"))
		}
	}
	return errs
}

func validateOutputs(spec *cmv1.CertificateSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen := map[cmv1.CertificateOutputFormatType]bool{}
	for i, format := range spec.AdditionalOutputFormats {
		if seen[format.Type] {
			errs = append(errs, field.Duplicate(path.Child("additionalOutputFormats").Index(i).Child("type"), format.Type))
		}
		seen[format.Type] = true
	}
	return errs
}

func validateKeystores(spec *cmv1.CertificateSpec, path *field.Path) field.ErrorList {
	if spec.Keystores == nil {
		return nil
	}
	var errs field.ErrorList
	path = path.Child("keystores")
	if jks := spec.Keystores.JKS; jks != nil {
		errs = append(errs, validateKeystorePassword(jks.Create, jks.Password, jks.PasswordSecretRef, path.Child("jks"))...)
	}
	if pkcs12 := spec.Keystores.PKCS12; pkcs12 != nil {
		errs = append(errs, validateKeystorePassword(pkcs12.Create, pkcs12.Password, pkcs12.PasswordSecretRef, path.Child("pkcs12"))...)
	}
	return errs
}

// validateKeystorePassword never repeats the password.
func validateKeystorePassword(create bool, password *string, ref cmmeta.SecretKeySelector, path *field.Path) field.ErrorList {
	switch {
	case !create:
		return nil
	case password != nil && ref.Name != "":
		return field.ErrorList{field.Forbidden(path, "must have a password or a passwordSecretRef, not both")}
	case password != nil && *password == "":
		return field.ErrorList{field.Forbidden(path.Child("password"), "must not be empty")}
	case password == nil && ref.Name == "":
		return field.ErrorList{field.Required(path.Child("passwordSecretRef", "name"), "must be set, or a password")}
	case password == nil && ref.Key == "":
		return field.ErrorList{field.Required(path.Child("passwordSecretRef", "key"), "must be the key of the password in the Secret")}
	default:
		return nil
	}
}
