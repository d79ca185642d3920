package injection

import (
	"crypto/x509"
	"fmt"
	"strings"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/certplane/certplane/internal/pki"
)

// Source is where a CA comes from.
type Source struct {
	// Annotation is the annotation of the target that names the source; empty if none does.
	Annotation string
	// Value is the value of the annotation.
	Value string
}

// Annotations are the annotations that name a source. The first one that a target has counts.
var Annotations = []string{cmv1.WantInjectFromSecretAnnotation, cmv1.WantInjectAnnotation, cmv1.WantInjectAPIServerCAAnnotation}

// SourceOf returns the source that a target names.
func SourceOf(target metav1.Object) Source {
	for _, name := range Annotations {
		if value, ok := target.GetAnnotations()[name]; ok && (name != cmv1.WantInjectAPIServerCAAnnotation || value == "true") {
			return Source{name, value}
		}
	}
	return Source{}
}

// Object returns the name of the Secret or the Certificate that is the source. valid is
// false if the value of the annotation cannot be a name.
func (s Source) Object() (name types.NamespacedName, valid bool) {
	namespace, rest, _ := strings.Cut(s.Value, "/")
	name = types.NamespacedName{Namespace: namespace, Name: rest}
	return name, namespace != "" && rest != "" && len(content.IsPathSegmentName(namespace))+len(content.IsPathSegmentName(rest)) == 0
}

// Problem is why a target does not get a CA. It is the reason and the message of an Event.
type Problem struct{ Reason, Message string }

// Problemf returns a problem.
func Problemf(reason, format string, args ...any) *Problem {
	return &Problem{reason, fmt.Sprintf(format, args...)}
}

// FromSecret returns the certificates of a Secret that must have an annotation, or why there are
// none that a target may get.
func FromSecret(secret *corev1.Secret, annotation, value string, now time.Time) ([]*x509.Certificate, *Problem) {
	name := types.NamespacedName{Namespace: secret.Namespace, Name: secret.Name}
	if secret.Annotations[annotation] != value {
		return nil, Problemf("CASourceNotAllowed", "The Secret %s does not have the annotation %s with the value %q.", name, annotation, value)
	}
	data := secret.Data[cmmeta.TLSCAKey]
	if len(data) == 0 {
		return nil, Problemf("CAMissing", "The Secret %s has no CA: the key %s is missing or empty. Certificates of ACME issuers have none.", name, cmmeta.TLSCAKey)
	}
	certs, err := pki.ParseBundle(data)
	if err != nil {
		return nil, Problemf("CANotUsable", "The key %s of the Secret %s cannot be read: %v.", cmmeta.TLSCAKey, name, err)
	}
	return Usable(certs, fmt.Sprintf("The key %s of the Secret %s", cmmeta.TLSCAKey, name), now)
}

// Usable returns the certificates that have not expired. what names them
// in the problem.
func Usable(certs []*x509.Certificate, what string, now time.Time) ([]*x509.Certificate, *Problem) {
	if certs = Live(certs, now); len(certs) == 0 {
		return nil, Problemf("CANotUsable", "%s contains only expired certificates.", what)
	}
	return certs, nil
}
