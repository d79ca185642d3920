// Package facts finds the objects that policies can read in addition to a request, in an
// API or in files.
package facts

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/client/cli/policy/manifest"
)

// Store holds the objects of files. It is a client.Reader, and safe for concurrent use
// once all objects are added.
type Store struct {
	kinds   *runtime.Scheme
	objects map[schema.GroupKind]map[types.NamespacedName][]byte
	reviews []authorizationv1.SubjectAccessReview
}

// NewStore returns a Store with objects. Objects without a UID get one derived from their
// name, because a request refers to its owner by UID.
func NewStore(documents []manifest.Document) (*Store, error) {
	s := &Store{kinds: runtime.NewScheme(), objects: map[schema.GroupKind]map[types.NamespacedName][]byte{}}
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, certmanager.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(s.kinds); err != nil {
			return nil, fmt.Errorf("making the scheme: %w", err)
		}
	}
	for i := range documents {
		if err := s.add(&documents[i]); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *Store) add(d *manifest.Document) error {
	version, err := schema.ParseGroupVersion(d.APIVersion)
	if err != nil {
		return d.Errorf("apiVersion", "%v", err)
	}
	kind := version.WithKind(d.Kind)
	object, err := s.kinds.New(kind)
	if err != nil {
		return d.Errorf("kind", "policies cannot read objects of the kind %s of %s", d.Kind, d.APIVersion)
	}
	if err := d.Decode(object); err != nil {
		return err
	}
	if review, isReview := object.(*authorizationv1.SubjectAccessReview); isReview {
		s.reviews = append(s.reviews, *review)
		return nil
	}
	if kind.Group == v1alpha1.GroupName && kind.Kind != "Signer" {
		return nil // policies are not facts
	}
	accessor, err := meta.Accessor(object)
	switch {
	case err != nil || accessor.GetName() == "":
		return d.Errorf("metadata", "metadata.name is missing")
	case accessor.GetNamespace() == "" && !clusterScoped[kind.Kind]:
		return d.Errorf("metadata", "metadata.namespace is missing: the %s %s is in a namespace", d.Kind, d.Name)
	}
	if accessor.GetUID() == "" {
		accessor.SetUID(types.UID(strings.ToLower(d.Kind) + "-" + strings.Trim(accessor.GetNamespace()+"-"+accessor.GetName(), "-")))
	}
	// All versions of a kind that can be given have the same fields.
	data, err := json.Marshal(object)
	if err != nil {
		return d.Errorf("", "%v", err)
	}
	key := types.NamespacedName{Namespace: accessor.GetNamespace(), Name: accessor.GetName()}
	of := s.objects[kind.GroupKind()]
	if of == nil {
		of = map[types.NamespacedName][]byte{}
		s.objects[kind.GroupKind()] = of
	}
	if of[key] != nil {
		return d.Errorf("metadata.name", "another %s is named %s", d.Kind, strings.TrimPrefix(key.String(), "/"))
	}
	of[key] = data
	return nil
}

// clusterScoped are the kinds of facts without a namespace.
var clusterScoped = map[string]bool{"Namespace": true, "Node": true, "ClusterIssuer": true, "Signer": true, "CertificateSigningRequest": true}

// HasRequests reports whether the Store contains a request of any kind.
func (s *Store) HasRequests() bool {
	for _, kind := range []schema.GroupKind{
		{Group: certificatesv1.GroupName, Kind: "CertificateSigningRequest"}, {Group: certificatesv1.GroupName, Kind: "PodCertificateRequest"},
		{Group: certmanager.Group, Kind: "CertificateRequest"},
	} {
		if len(s.objects[kind]) > 0 {
			return true
		}
	}
	return false
}

// Get implements client.Reader.
func (s *Store) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	return s.Find(key, into)
}

// Find reads an object.
func (s *Store) Find(key client.ObjectKey, into client.Object) error {
	kind, err := apiutil.GVKForObject(into, s.kinds)
	if err != nil {
		return err
	}
	data := s.objects[kind.GroupKind()][key]
	if data == nil {
		plural, _ := meta.UnsafeGuessKindToResource(kind)
		return apierrors.NewNotFound(plural.GroupResource(), key.Name)
	}
	return json.Unmarshal(data, into)
}

// List implements client.Reader, for the objects of a namespace.
func (s *Store) List(_ context.Context, into client.ObjectList, options ...client.ListOption) error {
	kind, err := s.kindOf(into)
	if err != nil {
		return err
	}
	wanted := (&client.ListOptions{}).ApplyOptions(options)
	items := []json.RawMessage{}
	of := s.objects[kind.GroupKind()]
	for _, key := range slices.SortedFunc(maps.Keys(of), func(a, b types.NamespacedName) int { return cmp.Compare(a.String(), b.String()) }) {
		if wanted.Namespace == "" || key.Namespace == wanted.Namespace {
			items = append(items, of[key])
		}
	}
	data, err := json.Marshal(map[string]any{"items": items})
	if err != nil {
		return err
	}
	return json.Unmarshal(data, into)
}

// kindOf returns the kind of the items of a list.
func (s *Store) kindOf(list client.ObjectList) (schema.GroupVersionKind, error) {
	kind, err := apiutil.GVKForObject(list, s.kinds)
	kind.Kind = strings.TrimSuffix(kind.Kind, "List")
	return kind, err
}

// UID returns the UID of an object.
func (s *Store) UID(kind schema.GroupKind, key types.NamespacedName) (uid types.UID, found bool) {
	var object metav1.PartialObjectMetadata
	data := s.objects[kind][key]
	if data == nil || json.Unmarshal(data, &object) != nil {
		return "", false
	}
	return object.UID, true
}
