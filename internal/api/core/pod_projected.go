package core

import (
	"fmt"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/certplane/certplane/internal/api/certificates"
)

// maxFileMode is the largest mode that a file of a volume can have.
const maxFileMode = 0o777

// podKeyTypes are the kinds of keys that a node makes for a pod, in the order
// in which error messages list them.
var podKeyTypes = []string{"RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519"}

// projection checks the sources of one projected volume.
type projection struct {
	// account is the pod's service account.
	account string
	// path is the path of the volume.
	path *field.Path
	// files are the files of the sources checked so far.
	files map[string]bool
	errs  field.ErrorList
}

func validateProjected(volume *corev1.ProjectedVolumeSource, account string, fldPath *field.Path) field.ErrorList {
	p := &projection{account: account, path: fldPath, files: map[string]bool{}}
	if mode := volume.DefaultMode; mode != nil && (*mode < 0 || *mode > maxFileMode) {
		p.add(field.Invalid(fldPath.Child("defaultMode"), *mode, "must be a number between 0 and 0777 (octal), both inclusive"))
	}
	for i := range volume.Sources {
		p.source(&volume.Sources[i], fldPath.Child("sources").Index(i))
	}
	return p.errs
}

func (p *projection) add(errs ...*field.Error) { p.errs = append(p.errs, errs...) }

func (p *projection) source(source *corev1.VolumeProjection, fldPath *field.Path) {
	kinds := 0
	if secret := source.Secret; secret != nil {
		kinds++
		p.items(secret.Name, secret.Items)
	}
	if config := source.ConfigMap; config != nil {
		kinds++
		p.items(config.Name, config.Items)
	}
	if downward := source.DownwardAPI; downward != nil {
		kinds++
		for _, item := range downward.Items {
			p.file(item.Path, item.Path)
		}
	}
	if source.ServiceAccountToken != nil {
		kinds++
		if p.account == "" {
			p.add(field.Forbidden(fldPath.Child("serviceAccountToken"), "must not be specified when serviceAccountName is not set"))
		}
	}
	if source.ClusterTrustBundle != nil {
		kinds++
		p.trustBundle(source.ClusterTrustBundle, fldPath.Child("clusterTrustBundle"))
	}
	if source.PodCertificate != nil {
		kinds++
		p.podCertificate(source.PodCertificate, fldPath.Child("podCertificate"))
	}
	if kinds > 1 {
		p.add(field.Forbidden(fldPath, "may not specify more than 1 volume type per source"))
	}
}

func (p *projection) items(name string, items []corev1.KeyToPath) {
	for _, item := range items {
		p.file(item.Path, name)
	}
}

// file records a file that a source writes. value is the value in the error if
// another source writes it too. Tokens are not recorded: Kubernetes allows a
// later source to replace one.
func (p *projection) file(name, value string) {
	if name == "" {
		return
	}
	if p.files[name] {
		p.add(field.Invalid(p.path, value, "conflicting duplicate paths"))
	}
	p.files[name] = true
}

// newFile is file for a field that contains the name of a file.
func (p *projection) newFile(name string, fldPath *field.Path) {
	p.add(validateRelativePath(name, fldPath)...)
	p.file(name, name)
}

func (p *projection) trustBundle(source *corev1.ClusterTrustBundleProjection, fldPath *field.Path) {
	switch {
	case source.Name != nil && source.SignerName != nil:
		p.add(field.Invalid(fldPath, source, "only one of name and signerName may be used"))
	case source.Name != nil:
		p.add(validateTrustBundleRef(*source.Name, fldPath.Child("name"))...)
		if source.LabelSelector != nil {
			p.add(field.Invalid(fldPath.Child("labelSelector"), source.LabelSelector, "labelSelector must be unset if name is specified"))
		}
	case source.SignerName != nil:
		if *source.SignerName == "" {
			p.add(field.Required(fldPath.Child("signerName"), "must be a valid signer name"))
		}
		p.add(certificates.ValidateSignerName(fldPath.Child("signerName"), *source.SignerName)...)
		p.add(metav1validation.ValidateLabelSelector(source.LabelSelector, metav1validation.LabelSelectorValidationOptions{}, fldPath.Child("labelSelector"))...)
	default:
		p.add(field.Required(fldPath, "either name or signerName must be specified"))
	}
	if source.Path == "" {
		p.add(field.Required(fldPath.Child("path"), ""))
		return
	}
	p.newFile(source.Path, fldPath.Child("path"))
}

// validateTrustBundleRef checks the name of a bundle. The part before the last
// colon is a signer. A pod may refer to an invalid one: it finds no bundle
// then.
func validateTrustBundleRef(name string, fldPath *field.Path) field.ErrorList {
	var errs field.ErrorList
	if name == "" {
		errs = append(errs, field.Required(fldPath, "must be a valid object name"))
	}
	last := name[strings.LastIndex(name, ":")+1:]
	for _, problem := range validation.NameIsDNSSubdomain(last, false) {
		errs = append(errs, field.Invalid(fldPath, name, "not a valid clustertrustbundlename: "+problem))
	}
	return errs
}

func (p *projection) podCertificate(source *corev1.PodCertificateProjection, fldPath *field.Path) {
	p.add(certificates.ValidateSignerName(fldPath.Child("signerName"), source.SignerName)...)
	p.add(certificates.ValidateUserAnnotations(fldPath.Child("userAnnotations"), source.UserAnnotations)...)
	if !slices.Contains(podKeyTypes, source.KeyType) {
		p.add(field.NotSupported(fldPath.Child("keyType"), source.KeyType, podKeyTypes))
	}
	p.add(validatePodLifetime(source, fldPath.Child("maxExpirationSeconds"))...)
	if source.CredentialBundlePath == "" && source.KeyPath == "" && source.CertificateChainPath == "" {
		p.add(field.Required(fldPath, "specify at least one of credentialBundlePath, keyPath, and certificateChainPath"))
	}
	for _, file := range []struct{ field, name string }{
		{"credentialBundlePath", source.CredentialBundlePath},
		{"keyPath", source.KeyPath},
		{"certificateChainPath", source.CertificateChainPath},
	} {
		if file.name != "" {
			p.newFile(file.name, fldPath.Child(file.field))
		}
	}
}

// validatePodLifetime applies the bounds of a request to the pod's source.
func validatePodLifetime(source *corev1.PodCertificateProjection, fldPath *field.Path) field.ErrorList {
	seconds := source.MaxExpirationSeconds
	if seconds == nil {
		return nil
	}
	most := certificates.MaxPodExpiration(source.SignerName)
	switch {
	case *seconds < certificates.MinPodExpirationSeconds:
		return field.ErrorList{field.Invalid(fldPath, *seconds, fmt.Sprintf("if provided, maxExpirationSeconds must be >= %d", certificates.MinPodExpirationSeconds))}
	case *seconds > most:
		return field.ErrorList{field.Invalid(fldPath, *seconds, fmt.Sprintf("if provided, maxExpirationSeconds must be <= %d", most))}
	default:
		return nil
	}
}

// validateRelativePath requires a path within the volume that does not begin
// with "..", which is reserved for what the volume itself writes.
func validateRelativePath(name string, fldPath *field.Path) field.ErrorList {
	var errs field.ErrorList
	if path.IsAbs(name) {
		errs = append(errs, field.Invalid(fldPath, name, "must be a relative path"))
	}
	if slices.Contains(strings.Split(name, "/"), "..") {
		errs = append(errs, field.Invalid(fldPath, name, "must not contain '..'"))
	}
	if strings.HasPrefix(name, "..") && !strings.HasPrefix(name, "../") && name != ".." {
		errs = append(errs, field.Invalid(fldPath, name, "must not start with '..'"))
	}
	return errs
}
