package profile

import (
	"crypto/x509"
	"net/url"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/pki"
)

func validateCA(spec v1alpha1.SignerSpec, path *field.Path) field.ErrorList {
	ca := spec.CA
	var given []string
	for _, one := range []struct {
		name string
		is   bool
	}{
		{"generated", ca.Generated != nil}, {"secret", ca.Secret != nil}, {"key", ca.Key != nil},
		{"builtIn", ca.BuiltIn != nil}, {"webhook", ca.Webhook != nil},
	} {
		if one.is {
			given = append(given, one.name)
		}
	}
	const choice = "set exactly one of generated, secret, key, builtIn and webhook"
	switch {
	case len(given) == 0:
		return field.ErrorList{field.Required(path, choice)}
	case len(given) > 1:
		return field.ErrorList{field.Invalid(path, strings.Join(given, ", "), choice)}
	case ca.Generated != nil:
		return validateGenerated(spec, path.Child("generated"))
	case ca.Secret != nil:
		return validateSecretName(ca.Secret.Name, path.Child("secret", "name"))
	case ca.Key != nil:
		return validateKey(*ca.Key, path.Child("key"))
	case ca.Webhook != nil:
		return validateWebhook(spec, path.Child("webhook"))
	}
	return nil
}

// The defaults of a generated CA.
const (
	defaultCALifetime = 87600 * time.Hour
	minCALifetime     = time.Hour
)

// validateGenerated checks the settings of a generated CA. The CA must be
// replaced early enough for its last certificate to have the longest permitted
// lifetime.
func validateGenerated(spec v1alpha1.SignerSpec, path *field.Path) field.ErrorList {
	g, longest := spec.CA.Generated, lifetimeOf(spec.Profile.Lifetime).maximum
	var errs field.ErrorList
	if g.SecretName != "" {
		errs = append(errs, validateSecretName(g.SecretName, path.Child("secretName"))...)
	}
	if len(g.CommonName) > 64 { // RFC 5280 appendix A.1, ub-common-name
		errs = append(errs, field.TooLong(path.Child("commonName"), "", 64))
	}
	if g.KeyType != "" {
		errs = append(errs, oneOf(g.KeyType, allKeyTypes, path.Child("keyType"))...)
	}
	life, before := defaultCALifetime, time.Duration(0)
	if g.Lifetime != nil {
		life = g.Lifetime.Duration
	}
	if before = life / 3; g.RotateBefore != nil {
		before = g.RotateBefore.Duration
	}
	switch {
	case life < minCALifetime:
		return append(errs, field.Invalid(path.Child("lifetime"), life.String(), "must be at least 1h"))
	case g.Propagation != nil && g.Propagation.Duration > life/10:
		return append(errs, field.Invalid(path.Child("propagation"), g.Propagation.Duration.String(), "must be at most a tenth of lifetime, "+(life/10).String()))
	case before >= life:
		return append(errs, field.Invalid(path.Child("rotateBefore"), before.String(), "must be less than lifetime, "+life.String()))
	case before < longest && g.RotateBefore == nil:
		return append(errs, field.Invalid(path.Child("lifetime"), life.String(),
			"a third of it, after which the CA is replaced, must be at least the longest lifetime of a certificate, "+longest.String()+
				": raise it, set rotateBefore, or lower spec.profile.lifetime.maximum"))
	case before < longest:
		return append(errs, field.Invalid(path.Child("rotateBefore"), before.String(),
			"must be at least the longest lifetime of a certificate, "+longest.String()+": raise it, or lower spec.profile.lifetime.maximum"))
	}
	return errs
}

func validateSecretName(name string, path *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(path, "the name of a Secret")}
	}
	var errs field.ErrorList
	for _, problem := range validation.IsDNS1123Subdomain(name) {
		errs = append(errs, field.Invalid(path, name, problem))
	}
	return errs
}

func validateKey(key v1alpha1.KeyCA, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if scheme, rest, ok := strings.Cut(key.URI, ":"); !ok || scheme == "" || rest == "" {
		errs = append(errs, field.Invalid(path.Child("uri"), key.URI, "must be a URI such as pkcs11:object=ca?... or awskms:key-id=...: see docs/ca-keys.md"))
	}
	chain, problems := certificatesIn(key.Certificate, path.Child("certificate"))
	if errs = append(errs, problems...); len(chain) > 0 && !chain[0].IsCA {
		errs = append(errs, field.Invalid(path.Child("certificate"), chain[0].Subject.String(), "the first certificate must be the CA's own"))
	}
	return errs
}

func validateWebhook(spec v1alpha1.SignerSpec, path *field.Path) field.ErrorList {
	hook := spec.CA.Webhook
	var errs field.ErrorList
	if u, err := url.Parse(hook.URL); err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || u.Fragment != "" {
		errs = append(errs, field.Invalid(path.Child("url"), hook.URL, "must be https://HOST[:PORT]/PATH"))
	}
	if hook.CABundle != "" {
		_, problems := certificatesIn(hook.CABundle, path.Child("caBundle"))
		errs = append(errs, problems...)
	}
	if hook.Credentials != nil {
		errs = append(errs, validateSecretName(hook.Credentials.Name, path.Child("credentials", "name"))...)
	}
	if t := hook.Timeout; t != nil && (t.Duration < time.Second || t.Duration > time.Minute) {
		errs = append(errs, field.Invalid(path.Child("timeout"), t.Duration.String(), "must be from 1s to 1m"))
	}
	if hook.Roots != "" {
		_, problems := certificatesIn(hook.Roots, path.Child("roots"))
		return append(errs, problems...)
	}
	if spec.PublishTrustBundle == nil || *spec.PublishTrustBundle {
		errs = append(errs, field.Required(path.Child("roots"), "the roots that are published: set them, or spec.publishTrustBundle to false"))
	}
	return errs
}

func certificatesIn(text string, path *field.Path) ([]*x509.Certificate, field.ErrorList) {
	if text == "" {
		return nil, field.ErrorList{field.Required(path, "certificates in PEM")}
	}
	certs, err := pki.ParseBundle([]byte(text))
	if err != nil {
		return nil, field.ErrorList{field.Invalid(path, "<PEM>", err.Error())}
	}
	return certs, nil
}
