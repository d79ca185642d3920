package bundles

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/api/trustmanager"
	"github.com/certplane/certplane/internal/policy/truststore"
	"github.com/certplane/certplane/internal/process/trusttarget"
)

// missingError is a source that is not there. Its appearance wakes the Bundle.
type missingError struct{ error }

// contentError is a source that cannot be used. Its change wakes the Bundle.
type contentError struct{ error }

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
			version = defaults.id()
			err = addPEM(set, []byte(defaults.Bundle), "default package contains invalid PEM data")
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
	if err != nil {
		return err
	}
	for _, object := range objects {
		keys := []string{of.Key}
		if of.Key == "" {
			keys = slices.Sorted(maps.Keys(object.Data))
			if object.Type == corev1.SecretTypeTLS { // it holds a private key
				return contentError{fmt.Errorf("includeAllKeys is not supported for TLS Secrets such as %s/%s", object.Namespace, object.Name)}
			}
		}
		for _, key := range keys {
			data, ok := object.Data[key]
			if !ok {
				return missingError{fmt.Errorf("no data found in %s %s/%s at key %q", kind, object.Namespace, object.Name, key)}
			}
			if err := addPEM(set, data, fmt.Sprintf("invalid PEM data in %s %s/%s at key %q", kind, object.Namespace, object.Name, key)); err != nil {
				return err
			}
		}
	}
	return nil
}

// read returns the objects that a source selects, sorted by name. ConfigMaps are returned in
// the form of Secrets.
func (r *reconciler) read(ctx context.Context, kind string, of *trustmanager.ObjectKeys) ([]corev1.Secret, error) {
	list := client.ObjectList(&corev1.SecretList{})
	if kind == trusttarget.ConfigMap {
		list = &corev1.ConfigMapList{}
	}
	options := []client.ListOption{client.InNamespace(r.TrustNamespace), client.MatchingFields{"metadata.name": of.Name}}
	if of.Name == "" {
		selector, err := metav1.LabelSelectorAsSelector(of.Selector)
		if err != nil {
			return nil, contentError{fmt.Errorf("failed to parse label selector as Selector for %s in namespace %s: %w", kind, r.TrustNamespace, err)}
		}
		options[1] = client.MatchingLabelsSelector{Selector: selector}
	}
	if err := r.Client.List(ctx, list, options...); err != nil {
		return nil, fmt.Errorf("failed to get %s %s/%s: %w", kind, r.TrustNamespace, of.Name, err)
	}
	var objects []corev1.Secret
	switch list := list.(type) {
	case *corev1.SecretList:
		objects = list.Items
	case *corev1.ConfigMapList:
		for _, read := range list.Items {
			object := corev1.Secret{ObjectMeta: read.ObjectMeta, Data: map[string][]byte{}}
			maps.Copy(object.Data, read.BinaryData)
			for key, value := range read.Data {
				object.Data[key] = []byte(value)
			}
			objects = append(objects, object)
		}
	}
	if of.Name != "" && len(objects) == 0 {
		return nil, missingError{fmt.Errorf("failed to get %s %s/%s: %w", kind, r.TrustNamespace, of.Name, apierrors.NewNotFound(schema.GroupResource{Resource: kind}, of.Name))}
	}
	return objects, nil
}
