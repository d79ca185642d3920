package core

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
	storeerr "k8s.io/apiserver/pkg/storage/errors"
	"k8s.io/apiserver/pkg/util/dryrun"

	"github.com/certplane/certplane/internal/api/core"
	"github.com/certplane/certplane/internal/apiserver/registry/kind"
)

// namespaceKind is a kind with its own deletion.
type namespaceKind struct {
	kind.Kind[corev1.Namespace, corev1.NamespaceList]
}

func namespaces() namespaceKind {
	return namespaceKind{kind.Kind[corev1.Namespace, corev1.NamespaceList]{
		Version: corev1.SchemeGroupVersion, Plural: "namespaces", Singular: "namespace",
		ShortNames:    []string{"ns"},
		PrepareCreate: activate,
		Canonicalize:  core.LabelNamespace,
		Validate:      core.ValidateNamespace,
		Update: kind.Update[corev1.Namespace]{
			PrepareUpdate: func(namespace, old *corev1.Namespace) {
				namespace.Spec.Finalizers = old.Spec.Finalizers
				namespace.Status = old.Status
			},
			ValidateUpdate: core.ValidateNamespaceUpdate,
			Resets:         []string{"status"},
		},
		Subresources: map[string]kind.Update[corev1.Namespace]{
			"status": {
				PrepareUpdate:  func(namespace, old *corev1.Namespace) { namespace.Spec = old.Spec },
				ValidateUpdate: core.ValidateNamespaceStatusUpdate,
				Resets:         []string{"spec"},
			},
			"finalize": {
				PrepareUpdate:  func(namespace, old *corev1.Namespace) { namespace.Status = old.Status },
				ValidateUpdate: core.ValidateNamespaceFinalizeUpdate,
				Resets:         []string{"status"},
				WriteOnly:      true,
			},
		},
		Gone:   func(namespace *corev1.Namespace) bool { return len(namespace.Spec.Finalizers) == 0 },
		Fields: core.NamespaceFields,
		Table: kind.Table[corev1.Namespace]{
			Columns: []metav1.TableColumnDefinition{
				kind.Name(),
				kind.Column("Status", "The status of the namespace"),
				kind.AgeColumn(),
			},
			Cells: func(namespace *corev1.Namespace, now time.Time) []any {
				return []any{namespace.Name, string(namespace.Status.Phase), kind.Age(namespace.CreationTimestamp, now)}
			},
		},
	}}
}

// activate starts a namespace with a finalizer that waits until its objects are
// deleted.
func activate(namespace *corev1.Namespace) {
	namespace.Status = corev1.NamespaceStatus{Phase: corev1.NamespaceActive}
	if !slices.Contains(namespace.Spec.Finalizers, corev1.FinalizerKubernetes) {
		namespace.Spec.Finalizers = append(namespace.Spec.Finalizers, corev1.FinalizerKubernetes)
	}
}

// Open wraps the store with the deletion of namespaces.
func (k namespaceKind) Open(options generic.RESTOptionsGetter) (kind.Endpoints, error) {
	endpoints, err := k.Kind.Open(options)
	if err != nil {
		return kind.Endpoints{}, err
	}
	verbs := endpoints.Storage[k.Plural].(namespaceVerbs)
	endpoints.Storage[k.Plural] = namespaceREST{verbs, endpoints.Store}
	return endpoints, nil
}

// namespaceVerbs are the verbs of namespaces that work as for every kind. Collections of
// namespaces cannot be deleted.
type namespaceVerbs interface {
	rest.Storage
	rest.Scoper
	rest.Getter
	rest.Lister
	rest.Watcher
	rest.CreaterUpdater
	rest.ResetFieldsStrategy
	rest.ShortNamesProvider
	rest.SingularNameProvider
	rest.StorageVersionProvider
}

// namespaceREST is the resource namespaces.
type namespaceREST struct {
	namespaceVerbs
	store *registry.Store
}

var _ rest.GracefulDeleter = namespaceREST{}

// Delete terminates a namespace. It is deleted when it contains no objects and
// its last finalizer has been removed.
func (r namespaceREST) Delete(ctx context.Context, name string, validate rest.ValidateObjectFunc, options *metav1.DeleteOptions) (runtime.Object, bool, error) {
	if options == nil {
		options = metav1.NewDeleteOptions(0)
	}
	namespace, err := r.terminate(ctx, name, validate, options)
	if err != nil {
		return nil, false, err
	}
	if len(namespace.Spec.Finalizers) > 0 {
		return namespace, false, nil
	}
	return r.store.Delete(ctx, name, validate, options)
}

// terminate marks a namespace as being deleted, once.
func (r namespaceREST) terminate(ctx context.Context, name string, validate rest.ValidateObjectFunc, options *metav1.DeleteOptions) (*corev1.Namespace, error) {
	key, err := r.store.KeyFunc(ctx, name)
	if err != nil {
		return nil, err
	}
	mark := func(obj runtime.Object) (runtime.Object, error) {
		namespace := obj.(*corev1.Namespace)
		if err := meets(namespace, options.Preconditions); err != nil {
			return nil, err
		}
		if err := validate(ctx, namespace); err != nil {
			return nil, err
		}
		if namespace.DeletionTimestamp.IsZero() {
			markTerminating(namespace, options.PropagationPolicy, metav1.Now())
		}
		return namespace, nil
	}
	out := &corev1.Namespace{}
	err = r.store.Storage.GuaranteedUpdate(ctx, key, out, false, nil,
		storage.SimpleUpdate(mark), dryrun.IsDryRun(options.DryRun), nil)
	if err != nil {
		return nil, storeerr.InterpretUpdateError(err, corev1.Resource("namespaces"), name)
	}
	return out, nil
}

// preconditionMessage begins the refusal, as in the library.
const preconditionMessage = "Precondition failed"

// meets reports whether namespace meets the preconditions of the deletion.
func meets(namespace *corev1.Namespace, conditions *metav1.Preconditions) error {
	if conditions == nil {
		return nil
	}
	for _, condition := range []struct {
		name  string
		want  *string
		found string
	}{
		{"UID", (*string)(conditions.UID), string(namespace.UID)},
		{"ResourceVersion", conditions.ResourceVersion, namespace.ResourceVersion},
	} {
		if condition.want != nil && *condition.want != condition.found {
			return apierrors.NewConflict(corev1.Resource("namespaces"), namespace.Name, fmt.Errorf(
				"%s: %s in precondition: %v, %s in object meta: %v",
				preconditionMessage, condition.name, *condition.want, condition.name, condition.found))
		}
	}
	return nil
}

func markTerminating(namespace *corev1.Namespace, dependents *metav1.DeletionPropagation, now metav1.Time) {
	namespace.DeletionTimestamp = &now
	namespace.Status.Phase = corev1.NamespaceTerminating
	finalizer := map[metav1.DeletionPropagation]string{
		metav1.DeletePropagationForeground: metav1.FinalizerDeleteDependents,
		metav1.DeletePropagationOrphan:     metav1.FinalizerOrphanDependents,
	}
	if dependents == nil || finalizer[*dependents] == "" || slices.Contains(namespace.Finalizers, finalizer[*dependents]) {
		return
	}
	namespace.Finalizers = append(namespace.Finalizers, finalizer[*dependents])
}
