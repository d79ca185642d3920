package cainject

import (
	"context"
	"crypto/x509"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/policy/injection"
)

// read returns the certificates of the source of a target that have not expired, or why there
// are none.
func (r *reconciler) read(ctx context.Context, s *state) ([]*x509.Certificate, *injection.Problem, error) {
	from := s.source
	if from.Annotation == cmv1.WantInjectAPIServerCAAnnotation {
		if r.APICAs == nil {
			return nil, injection.Problemf("CASourceNotFound", "The controller verifies the API with the CAs of its host: name a Secret or a Certificate."), nil
		}
		certs, why := injection.Usable(r.APICAs(), "The CA of the API server", r.Clock.Now())
		return certs, why, nil
	}
	name, valid := from.Object()
	switch {
	case !valid:
		return nil, injection.Problemf("BadInjection", "The annotation %s has the value %q: it must be NAMESPACE/NAME.", from.Annotation, from.Value), nil
	case !r.Settings.reads(name.Namespace):
		return nil, injection.Problemf("CASourceNotAllowed", "The configuration of the controller (caInjector) excludes sources in the namespace %s.", name.Namespace), nil
	case from.Annotation == cmv1.WantInjectFromSecretAnnotation:
		return r.readSecret(ctx, s, name, cmv1.AllowsInjectionFromSecretAnnotation, "true")
	case !r.Settings.Certificates:
		return nil, injection.Problemf("CASourceNotAllowed", "The configuration of the controller (caInjector.certificates) excludes Certificates as sources."), nil
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
func (r *reconciler) readSecret(ctx context.Context, s *state, name types.NamespacedName, annotation, value string) ([]*x509.Certificate, *injection.Problem, error) {
	r.mu.Lock()
	s.secret = name
	r.mu.Unlock()
	secret := &corev1.Secret{}
	if why, err := r.get(ctx, "Secret", name, secret); err != nil || why != nil {
		return nil, why, err
	}
	certs, why := injection.FromSecret(secret, annotation, value, r.Clock.Now())
	return certs, why, nil
}

// get reads a source past the cache, or returns why that is not possible. The API can lack
// Certificates.
func (r *reconciler) get(ctx context.Context, kind string, name types.NamespacedName, into client.Object) (*injection.Problem, error) {
	err := r.Client.Get(ctx, name, into)
	switch {
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
		return injection.Problemf("CASourceNotFound", "The %s %s does not exist.", kind, name), nil
	case apierrors.IsForbidden(err): // tried again: the right may be granted
		return injection.Problemf("CASourceNotAllowed", "The controller may not read the %s %s.", kind, name), err
	}
	return nil, err
}
