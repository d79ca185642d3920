package certplane

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/pki"
)

// TrustWebhookName is part of refusals that come from a webhook.
const TrustWebhookName = "trust." + v1alpha1.GroupName

// TrustBundles is the resource of TrustBundles.
var TrustBundles = v1alpha1.GroupVersion.WithResource("trustbundles")

// Seals proves to the controller which TrustBundles were admitted.
type Seals interface {
	// SealTarget returns a seal of the spec of a TrustBundle.
	SealTarget(bundle *v1alpha1.TrustBundle) (string, error)
	// AdmittedTarget reports whether a TrustBundle has a seal of its present spec.
	AdmittedTarget(bundle *v1alpha1.TrustBundle) (bool, error)
}

// TrustChecks checks TrustBundles. It is safe for concurrent use.
type TrustChecks struct {
	authorize Authorize
	seals     Seals
}

// NewTrust returns checks that ask authorize what users may do.
func NewTrust(authorize Authorize, seals Seals) *TrustChecks { return &TrustChecks{authorize, seals} }

// TrustWrite is a write of a TrustBundle.
type TrustWrite struct {
	Request
	Namespace string
	User      authenticationv1.UserInfo
}

// Admit refuses a TrustBundle whose ClusterTrustBundle its author may not write, and one whose
// certificates in the spec cannot be read. It sets the annotation of the object that proves
// the check: the controller writes no ClusterTrustBundle without it. Every change of the spec
// is checked, as the sources matter as much as the name of the target. A write that does not
// change the spec is never refused.
func (c *TrustChecks) Admit(ctx context.Context, w TrustWrite) *apierrors.StatusError {
	if !writes(w.Operation) || w.Subresource != "" || w.Object == nil {
		return nil
	}
	bundle, old := &v1alpha1.TrustBundle{}, (*v1alpha1.TrustBundle)(nil)
	if w.Old != nil {
		old = &v1alpha1.TrustBundle{}
	}
	if err := errors.Join(convert(w.Object, bundle), convert(w.Old, old)); err != nil {
		return w.invalid(field.ErrorList{field.Invalid(field.NewPath("spec"), field.OmitValueType{}, err.Error())})
	}
	bundle.Namespace = w.Namespace // the API server sets it later
	unchanged := old != nil && reflect.DeepEqual(old.Spec, bundle.Spec)
	if !unchanged {
		if errs := checkTrust(bundle); len(errs) > 0 {
			return w.invalid(errs)
		}
	}
	seal, refusal := c.sealed(ctx, w, bundle, old, unchanged)
	if refusal != nil {
		return refusal
	}
	annotations := w.Object.GetAnnotations()
	if annotations[v1alpha1.TrustAdmittedAnnotation] == seal {
		return nil
	}
	if delete(annotations, v1alpha1.TrustAdmittedAnnotation); seal != "" {
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[v1alpha1.TrustAdmittedAnnotation] = seal
	}
	w.Object.SetAnnotations(annotations)
	return nil
}

// checkTrust returns the errors that the definition cannot find.
func checkTrust(bundle *v1alpha1.TrustBundle) (errs field.ErrorList) {
	for i, source := range bundle.Spec.Sources {
		if source.InLine == "" {
			continue
		}
		if _, err := pki.ParseCertificates([]byte(source.InLine)); err != nil {
			errs = append(errs, field.Invalid(field.NewPath("spec", "sources").Index(i).Child("inLine"), field.OmitValueType{}, err.Error()))
		}
	}
	if bundle.Spec.Target.ClusterTrustBundle != nil && bundle.Name == "" {
		errs = append(errs, field.Required(field.NewPath("metadata", "name"), "a TrustBundle with spec.target.clusterTrustBundle cannot have a generated name"))
	}
	return errs
}

// sealed returns the seal of a TrustBundle; empty if it needs none or cannot have one.
func (c *TrustChecks) sealed(ctx context.Context, w TrustWrite, bundle, old *v1alpha1.TrustBundle, unchanged bool) (string, *apierrors.StatusError) {
	target := bundle.Spec.Target.ClusterTrustBundle
	if target == nil {
		return "", nil
	}
	if unchanged {
		// While the key is not known, the seal stays as it is.
		if admitted, err := c.seals.AdmittedTarget(old); err != nil || admitted {
			return old.Annotations[v1alpha1.TrustAdmittedAnnotation], nil
		}
	}
	refusal := c.mayWrite(ctx, w, target.Name)
	if refusal != nil && unchanged {
		return "", nil
	}
	if refusal != nil {
		return "", refusal
	}
	seal, err := c.seals.SealTarget(bundle)
	if err != nil {
		return "", apierrors.NewServiceUnavailable(err.Error())
	}
	return seal, nil
}

// mayWrite refuses users who may not write a ClusterTrustBundle.
func (c *TrustChecks) mayWrite(ctx context.Context, w TrustWrite, name string) *apierrors.StatusError {
	for _, verb := range []string{"create", "update"} {
		may, err := c.authorize(ctx, w.User, authorizationv1.ResourceAttributes{
			Verb: verb, Group: certificatesv1.GroupName, Version: "*", Resource: "clustertrustbundles", Name: name,
		})
		if err != nil {
			err = fmt.Errorf("cannot check whether user %q may write the ClusterTrustBundle %q: %w", w.User.Username, name, err)
		} else if !may {
			err = fmt.Errorf("spec.target.clusterTrustBundle: user %q needs the verbs create and update on clustertrustbundles.%s %q", w.User.Username, certificatesv1.GroupName, name)
		}
		if err != nil {
			return apierrors.NewForbidden(TrustBundles.GroupResource(), w.Name, err)
		}
	}
	return nil
}

func (w TrustWrite) invalid(errs field.ErrorList) *apierrors.StatusError {
	return apierrors.NewInvalid(v1alpha1.GroupVersion.WithKind("TrustBundle").GroupKind(), w.Name, errs)
}
