package cainject

import (
	"context"
	"crypto/x509"
	"fmt"
	"strings"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/pki"
)

// caSource is where a CA comes from.
type caSource struct {
	// annotation is the annotation of the target that names the source; empty if none does.
	annotation string
	// value is the value of the annotation.
	value string
}

// annotations are the annotations that name a source. The first one that a target has counts.
var annotations = []string{cmv1.WantInjectFromSecretAnnotation, cmv1.WantInjectAnnotation, cmv1.WantInjectAPIServerCAAnnotation}

// sourceOf returns the source that a target names.
func sourceOf(target client.Object) caSource {
	for _, name := range annotations {
		if value, ok := target.GetAnnotations()[name]; ok && (name != cmv1.WantInjectAPIServerCAAnnotation || value == "true") {
			return caSource{name, value}
		}
	}
	return caSource{}
}

// object returns the name of the Secret or the Certificate that is the source. valid is
// false if the value of the annotation cannot be a name.
func (s caSource) object() (name types.NamespacedName, valid bool) {
	namespace, rest, _ := strings.Cut(s.value, "/")
	name = types.NamespacedName{Namespace: namespace, Name: rest}
	return name, namespace != "" && rest != "" && len(content.IsPathSegmentName(namespace))+len(content.IsPathSegmentName(rest)) == 0
}

// problem is why a target does not get a CA. It is the reason and the message of an Event.
type problem struct{ reason, message string }

func problemf(reason, format string, args ...any) *problem {
	return &problem{reason, fmt.Sprintf(format, args...)}
}

// read returns the certificates of the source of a target that have not expired, or why there
// are none.
func (r *reconciler) read(ctx context.Context, s *state) ([]*x509.Certificate, *problem, error) {
	from := s.source
	if from.annotation == cmv1.WantInjectAPIServerCAAnnotation {
		if r.APICAs == nil {
			return nil, problemf("CASourceNotFound", "The controller verifies the API with the CAs of its host: name a Secret or a Certificate."), nil
		}
		return r.usable(r.APICAs(), "The CA of the API server")
	}
	name, valid := from.object()
	switch {
	case !valid:
		return nil, problemf("BadInjection", "The annotation %s has the value %q: it must be NAMESPACE/NAME.", from.annotation, from.value), nil
	case !r.Settings.reads(name.Namespace):
		return nil, problemf("CASourceNotAllowed", "The configuration of the controller (caInjector) excludes sources in the namespace %s.", name.Namespace), nil
	case from.annotation == cmv1.WantInjectFromSecretAnnotation:
		return r.readSecret(ctx, s, name, cmv1.AllowsInjectionFromSecretAnnotation, "true")
	case !r.Settings.Certificates:
		return nil, problemf("CASourceNotAllowed", "The configuration of the controller (caInjector.certificates) excludes Certificates as sources."), nil
	}
	certificate := &cmv1.Certificate{}
	if found, err := r.get(ctx, "Certificate", name, certificate); err != nil || found != nil {
		return nil, found, err
	}
	secret := types.NamespacedName{Namespace: name.Namespace, Name: certificate.Spec.SecretName}
	return r.readSecret(ctx, s, secret, cmv1.CertificateNameKey, name.Name)
}

// readSecret reads the CA of a Secret that must have an annotation. Changes of the Secret wake
// the target from now on.
func (r *reconciler) readSecret(ctx context.Context, s *state, name types.NamespacedName, annotation, value string) ([]*x509.Certificate, *problem, error) {
	r.mu.Lock()
	s.secret = name
	r.mu.Unlock()
	secret := &corev1.Secret{}
	if why, err := r.get(ctx, "Secret", name, secret); err != nil || why != nil {
		return nil, why, err
	}
	if secret.Annotations[annotation] != value {
		return nil, problemf("CASourceNotAllowed", "The Secret %s does not have the annotation %s with the value %q.", name, annotation, value), nil
	}
	data := secret.Data[cmmeta.TLSCAKey]
	if len(data) == 0 {
		return nil, problemf("CAMissing", "The Secret %s has no CA: the key %s is missing or empty. Certificates of ACME issuers have none.", name, cmmeta.TLSCAKey), nil
	}
	certs, err := pki.ParseBundle(data)
	if err != nil {
		return nil, problemf("CANotUsable", "The key %s of the Secret %s cannot be read: %v.", cmmeta.TLSCAKey, name, err), nil
	}
	return r.usable(certs, fmt.Sprintf("The key %s of the Secret %s", cmmeta.TLSCAKey, name))
}

// usable returns the certificates that have not expired.
func (r *reconciler) usable(certs []*x509.Certificate, what string) ([]*x509.Certificate, *problem, error) {
	if certs = live(certs, r.Clock.Now()); len(certs) == 0 {
		return nil, problemf("CANotUsable", "%s contains only expired certificates.", what), nil
	}
	return certs, nil, nil
}

// get reads a source past the cache, or returns why that is not possible. The API can lack
// Certificates.
func (r *reconciler) get(ctx context.Context, kind string, name types.NamespacedName, into client.Object) (*problem, error) {
	err := r.Client.Get(ctx, name, into)
	switch {
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
		return problemf("CASourceNotFound", "The %s %s does not exist.", kind, name), nil
	case apierrors.IsForbidden(err): // tried again: the right may be granted
		return problemf("CASourceNotAllowed", "The controller may not read the %s %s.", kind, name), err
	}
	return nil, err
}
