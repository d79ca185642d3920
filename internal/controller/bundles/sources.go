package bundles

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/api/trustmanager"
	"github.com/certplane/certplane/internal/policy/truststore"
	"github.com/certplane/certplane/internal/process/trusttarget"
)

// missingError is a source that is not there, and contentError one that cannot be used. A
// change of the source wakes the Bundle.
type (
	missingError struct{ error }
	contentError struct{ error }
)

// collect returns the certificates of sources, and the version of the default CAs if they are
// one. Its errors have the texts of trust-manager.
func (r *reconciler) collect(ctx context.Context, sources []trustmanager.BundleSource) (set *truststore.Set, version string, err error) {
	filter := truststore.Filter{Expired: r.Settings.FilterExpired, NonCA: r.Settings.FilterNonCA}
	set = &truststore.Set{Keep: filter.At(r.Clock.Now())}
	for _, source := range sources {
		switch {
		case source.ConfigMap != nil:
			err = r.add(ctx, set, trusttarget.ConfigMap, source.ConfigMap)
		case source.Secret != nil:
			err = r.add(ctx, set, trusttarget.Secret, source.Secret)
		case source.InLine != "":
			err = addPEM(set, source.InLine, "inline source contains invalid PEM data")
		case source.UseDefaultCAs != nil && *source.UseDefaultCAs:
			if r.Package == nil {
				return nil, "", missingError{errors.New("no default package was specified when trust-manager was started; default CAs not available")}
			}
			var pem string
			version, pem = r.Package.Current()
			err = addPEM(set, pem, "default package contains invalid PEM data")
		}
		if err != nil {
			return nil, "", err
		}
	}
	if set.Len() == 0 {
		return nil, "", missingError{errors.New("couldn't find any valid certificates in bundle")}
	}
	return set, version, nil
}

func addPEM(set *truststore.Set, pem, problem string) error {
	if err := set.AddPEM([]byte(pem)); err != nil {
		return contentError{fmt.Errorf("%s: %w", problem, err)}
	}
	return nil
}

// add adds the certificates of ConfigMaps or Secrets in the trust namespace.
func (r *reconciler) add(ctx context.Context, set *truststore.Set, kind string, of *trustmanager.ObjectKeys) error {
	selector, err := metav1.LabelSelectorAsSelector(cmp.Or(of.Selector, &metav1.LabelSelector{}))
	if err != nil {
		return contentError{fmt.Errorf("failed to parse label selector as Selector for %s in namespace %s: %w", kind, r.TrustNamespace, err)}
	}
	objects, err := trusttarget.Read(ctx, r.Client, corev1.SchemeGroupVersion.WithKind(kind), r.TrustNamespace, of.Name, client.MatchingLabelsSelector{Selector: selector})
	switch {
	case err != nil:
		return fmt.Errorf("failed to get %s %s/%s: %w", kind, r.TrustNamespace, of.Name, err)
	case of.Name != "" && len(objects) == 0:
		return missingError{fmt.Errorf("failed to get %s %s/%s: %s %q not found", kind, r.TrustNamespace, of.Name, kind, of.Name)}
	}
	for i := range objects {
		object := &objects[i]
		all, keys, name := trusttarget.Data(object), []string{of.Key}, fmt.Sprintf("%s/%s", object.GetNamespace(), object.GetName())
		if of.Key == "" {
			keys = slices.Sorted(maps.Keys(all))
			if object.Object["type"] == string(corev1.SecretTypeTLS) { // it holds a private key
				return contentError{errors.New("includeAllKeys is not supported for TLS Secrets such as " + name)}
			}
		}
		for _, key := range keys {
			data, ok := all[key]
			if !ok {
				return missingError{fmt.Errorf("no data found in %s %s at key %q", kind, name, key)}
			}
			if err := addPEM(set, data, fmt.Sprintf("invalid PEM data in %s %s at key %q", kind, name, key)); err != nil {
				return err
			}
		}
	}
	return nil
}
