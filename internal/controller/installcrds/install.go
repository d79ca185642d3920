// Package installcrds keeps the definitions of certplane's own kinds in an API
// server.
//
// They are part of the server like its built-in kinds: if they are changed or deleted, they
// are restored, and a newer server installs newer ones. As in Kubernetes, the objects of a
// deleted definition are deleted with it.
package installcrds

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/discovery"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// VersionAnnotation is the version of certplane that installed a definition.
	VersionAnnotation = "certplane.dev/version"
	// manager owns the fields of the definitions.
	manager = "certplane"
)

// Installer installs definitions in an API.
type Installer struct {
	// Client writes as the controller's own identity.
	Client client.Client
	// Discovery returns the kinds that the API serves. Only Install calls it.
	Discovery discovery.ServerResourcesInterface
	// Names are the names of the CustomResourceDefinitions.
	Names []string
	// Read returns the wanted CustomResourceDefinition.
	Read func(name string) (*unstructured.Unstructured, error)
	// Version is the version of this program. If two servers share a store, the
	// newer one's definitions stay. A version that is not a number, as in
	// builds from a working tree, is newer than all.
	Version string
}

// Install installs all definitions, and returns the names of those whose kinds clients
// cannot discover yet: clients that ask too early cache that the kinds do not exist. If a
// definition cannot be installed, Install continues with the others and returns the reason
// in err. Callers repeat Install: a kind is served shortly after its definition is stored,
// and the authorizer of a starting server learns the installer's rights with a delay.
//
// Install does not compare a definition that this version has installed: that takes a tenth of
// a start, and the controller does it once it runs.
func (i Installer) Install(ctx context.Context) (missing []string, err error) {
	served, err := i.discover()
	installed := i.installed(ctx)
	for _, name := range i.Names {
		var failed error
		if !installed[name] {
			failed = i.install(ctx, name)
		}
		if failed != nil || !served[schema.ParseGroupResource(name)] {
			missing = append(missing, name)
		}
		err = errors.Join(err, failed)
	}
	return missing, err
}

// installed returns the names of the definitions that this version has installed. A version
// that is not a number, or of a changed working tree, can stand for several programs.
func (i Installer) installed(ctx context.Context) map[string]bool {
	names := map[string]bool{}
	own, err := version.ParseSemantic(i.Version)
	if err != nil || own.BuildMetadata() != "" {
		return names
	}
	stored := &metav1.PartialObjectMetadataList{}
	stored.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	if i.Client.List(ctx, stored) != nil {
		return names // then each is read
	}
	for _, definition := range stored.Items {
		names[definition.Name] = definition.Annotations[VersionAnnotation] == i.Version
	}
	return names
}

// install takes the fields that it owns back from any client that has changed
// them.
func (i Installer) install(ctx context.Context, name string) error {
	stored, err := i.get(ctx, name)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("reading %s: %w", name, err)
	}
	if err == nil && newer(stored.GetAnnotations()[VersionAnnotation], i.Version) {
		klog.FromContext(ctx).Info("Skipped a definition that a newer certplane installed", "definition", name)
		return nil
	}
	wanted, readErr := i.wanted(name)
	if readErr != nil {
		return readErr
	}
	if err == nil && contains(stored.Object, wanted.Object) {
		return nil
	}
	err = i.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(wanted), client.FieldOwner(manager), client.ForceOwnership)
	if err != nil {
		return fmt.Errorf("installing %s: %w", name, err)
	}
	return nil
}

func (i Installer) wanted(name string) (*unstructured.Unstructured, error) {
	wanted, err := i.Read(name)
	if err != nil {
		return nil, err
	}
	annotations := wanted.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[VersionAnnotation] = i.Version
	wanted.SetAnnotations(annotations)
	return wanted, nil
}

// contains reports whether whole contains all of part; whole may have more fields. This
// avoids needless applies: the server takes some time to apply a definition, even without a
// change.
func contains(whole, part any) bool {
	switch part := part.(type) {
	case map[string]any:
		whole, same := whole.(map[string]any)
		for key, value := range part {
			if !same || !contains(whole[key], value) {
				return false
			}
		}
		return same
	case []any:
		whole, same := whole.([]any)
		return same && slices.EqualFunc(whole, part, contains)
	default:
		return equality.Semantic.DeepEqual(whole, part)
	}
}

func (i Installer) get(ctx context.Context, name string) (*unstructured.Unstructured, error) {
	definition := &unstructured.Unstructured{}
	definition.SetGroupVersionKind(kind)
	return definition, i.Client.Get(ctx, client.ObjectKey{Name: name}, definition)
}

// newer reports whether stored is a later version than own.
func newer(stored, own string) bool {
	s, err := version.ParseSemantic(stored)
	if err != nil {
		return false
	}
	o, err := version.ParseSemantic(own)
	return err == nil && o.LessThan(s)
}

// discover returns the resources that clients discover. A partial answer counts: the
// groups of other servers may not answer.
func (i Installer) discover() (map[schema.GroupResource]bool, error) {
	_, lists, _ := i.Discovery.ServerGroupsAndResources()
	served := map[schema.GroupResource]bool{}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, fmt.Errorf("discovering kinds: %w", err)
		}
		for _, resource := range list.APIResources {
			served[gv.WithResource(resource.Name).GroupResource()] = true
		}
	}
	return served, nil
}
