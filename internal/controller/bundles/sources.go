package bundles

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
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
			err = addPEM(set, []byte(source.InLine), "inline source contains invalid PEM data")
		case source.UseDefaultCAs != nil && *source.UseDefaultCAs:
			if r.Package == nil {
				return nil, "", missingError{errors.New("no default package was specified when trust-manager was started; default CAs not available")}
			}
			defaults := r.Package.now.Load()
			version, err = defaults.id(), addPEM(set, []byte(defaults.Bundle), "default package contains invalid PEM data")
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

func addPEM(set *truststore.Set, data []byte, problem string) error {
	if err := set.AddPEM(data); err != nil {
		return contentError{fmt.Errorf("%s: %w", problem, err)}
	}
	return nil
}

// add adds the certificates of ConfigMaps or Secrets in the trust namespace.
func (r *reconciler) add(ctx context.Context, set *truststore.Set, kind string, of *trustmanager.ObjectKeys) error {
	objects, err := r.read(ctx, kind, of)
	for _, object := range objects {
		keys, name := []string{of.Key}, fmt.Sprintf("%s/%s", object.Namespace, object.Name)
		if of.Key == "" {
			keys = slices.Sorted(maps.Keys(object.Data))
			if object.Type == corev1.SecretTypeTLS { // it holds a private key
				return contentError{errors.New("includeAllKeys is not supported for TLS Secrets such as " + name)}
			}
		}
		for _, key := range keys {
			data, ok := object.Data[key]
			if !ok {
				return missingError{fmt.Errorf("no data found in %s %s at key %q", kind, name, key)}
			}
			if err := addPEM(set, data, fmt.Sprintf("invalid PEM data in %s %s at key %q", kind, name, key)); err != nil {
				return err
			}
		}
	}
	return err
}

// read returns the objects that a source selects, ConfigMaps in the form of Secrets.
func (r *reconciler) read(ctx context.Context, kind string, of *trustmanager.ObjectKeys) ([]corev1.Secret, error) {
	options := &client.ListOptions{Namespace: r.TrustNamespace}
	var err error
	if of.Name != "" {
		options.FieldSelector = fields.OneTermEqualSelector("metadata.name", of.Name)
	} else if options.LabelSelector, err = metav1.LabelSelectorAsSelector(of.Selector); err != nil {
		return nil, contentError{fmt.Errorf("failed to parse label selector as Selector for %s in namespace %s: %w", kind, r.TrustNamespace, err)}
	}
	secrets, configMaps := corev1.SecretList{}, corev1.ConfigMapList{}
	if kind == trusttarget.Secret {
		err = r.Client.List(ctx, &secrets, options)
	} else {
		err = r.Client.List(ctx, &configMaps, options)
	}
	for _, read := range configMaps.Items {
		data := maps.Clone(read.BinaryData)
		if data == nil {
			data = map[string][]byte{}
		}
		for key, value := range read.Data {
			data[key] = []byte(value)
		}
		secrets.Items = append(secrets.Items, corev1.Secret{ObjectMeta: read.ObjectMeta, Data: data})
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("failed to get %s %s/%s: %w", kind, r.TrustNamespace, of.Name, err)
	case of.Name != "" && len(secrets.Items) == 0:
		return nil, missingError{fmt.Errorf("failed to get %s %s/%s: %s %q not found", kind, r.TrustNamespace, of.Name, kind, of.Name)}
	}
	return secrets.Items, nil
}
