// Package define keeps the definitions of certplane's own kinds in an API
// server.
//
// They are part of the server as its built-in kinds are: changed or deleted,
// they come back, and a newer server brings newer ones. A deleted definition
// takes its objects with it, as Kubernetes has it.
package define

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// VersionAnnotation says which version of certplane a definition is of.
	VersionAnnotation = "certplane.dev/version"
	// manager owns the fields of the definitions.
	manager = "certplane"
	// poll is how often a definition is looked at that is about to be served.
	poll = 20 * time.Millisecond
)

// Installer brings definitions into an API.
type Installer struct {
	// Client writes as the controller's own identity.
	Client client.Client
	// Definitions are CustomResourceDefinitions as they are to be.
	Definitions []*unstructured.Unstructured
	// Version is that of this program. Of two servers with one store, the newer
	// one's definitions stay; a version that is no number, as builds from a
	// working tree have, is newer than all.
	Version string
}

// Install brings in all definitions and waits until their kinds are served.
func (i Installer) Install(ctx context.Context) error {
	for _, definition := range i.Definitions {
		if err := i.install(ctx, definition); err != nil {
			return err
		}
	}
	for _, definition := range i.Definitions {
		if err := i.await(ctx, definition); err != nil {
			return fmt.Errorf("waiting until %s is served: %w", definition.GetName(), err)
		}
	}
	return nil
}

// install takes what it owns back from whoever has changed it.
func (i Installer) install(ctx context.Context, definition *unstructured.Unstructured) error {
	stored, err := i.get(ctx, definition.GetName())
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("reading %s: %w", definition.GetName(), err)
	}
	if err == nil && newer(stored.GetAnnotations()[VersionAnnotation], i.Version) {
		klog.FromContext(ctx).Info("Left the definition of a newer certplane alone", "definition", definition.GetName())
		return nil
	}
	wanted := definition.DeepCopy()
	annotations := wanted.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[VersionAnnotation] = i.Version
	wanted.SetAnnotations(annotations)
	err = i.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(wanted), client.FieldOwner(manager), client.ForceOwnership)
	if err != nil {
		return fmt.Errorf("installing %s: %w", definition.GetName(), err)
	}
	return nil
}

func (i Installer) get(ctx context.Context, name string) (*unstructured.Unstructured, error) {
	definition := &unstructured.Unstructured{}
	definition.SetGroupVersionKind(kind)
	return definition, i.Client.Get(ctx, client.ObjectKey{Name: name}, definition)
}

// newer tells whether stored is a later version than own.
func newer(stored, own string) bool {
	s, err := version.ParseSemantic(stored)
	if err != nil {
		return false
	}
	o, err := version.ParseSemantic(own)
	return err == nil && o.LessThan(s)
}

func (i Installer) await(ctx context.Context, definition *unstructured.Unstructured) error {
	return wait.PollUntilContextCancel(ctx, poll, true, func(ctx context.Context) (bool, error) {
		stored, err := i.get(ctx, definition.GetName())
		return err == nil && established(stored), nil
	})
}

func established(definition *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(definition.Object, "status", "conditions")
	for _, c := range conditions {
		if c, ok := c.(map[string]any); ok && c["type"] == "Established" {
			return c["status"] == "True"
		}
	}
	return false
}
